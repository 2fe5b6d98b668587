"""What the tests of `assay infra` share: a place for systems, and stand-ins for programs of others."""

from __future__ import annotations

import pytest
from tests.live.infra.programs import Programs


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder of all systems, in which nothing is yet; it is made by whoever needs it."""
    folder = tmp_path / "above" / "infra"
    monkeypatch.setenv("ASSAY_INFRA", str(folder))
    return folder


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Stand-ins on PATH."""
    return Programs(tmp_path / "programs", monkeypatch)


@pytest.fixture
def told():
    """A list that can be told things."""
    lines: list[str] = []
    return lines
