"""What the tests of the commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.live.cli.kept import Kept
from tests.support.command_line import called


@pytest.fixture
def cli() -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process: its exit code and what it printed."""

    def call(*words: object) -> tuple[int, str, str]:
        ended = called(*map(str, words))
        return ended.returncode, ended.stdout, ended.stderr

    return call


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """A store with results whose truth is known; commands use it."""
    results = Kept(tmp_path / "store")
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    yield results
    results.store.close()
