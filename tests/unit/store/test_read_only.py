"""A store that may only be read: on a read-only file system, in somebody else's folder, in an archive."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from assay.api.run import run

pytestmark = pytest.mark.live

SETPRIV = shutil.which("setpriv")


def assay(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a command as somebody who must heed permissions; root does so only without a capability."""
    command = [sys.executable, "-m", "assay", *map(str, words)]
    if os.geteuid() == 0:
        if SETPRIV is None:
            pytest.skip("root may write everywhere, and there is no setpriv to forbid it")
        command = [SETPRIV, "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", *command]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def store(tmp_path):
    """A store with one result that nobody may write to."""
    folder = tmp_path / "store"
    run({"benchmark": "answer", "target": {"command": "echo 42"}, "measure": {"runs": 1}}, store=folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_it_is_listed_and_shown(store: Path):
    listed = assay("results", "list", "--store", store)
    assert listed.returncode == 0, listed.stderr
    assert "answer" in listed.stdout
    assert "read-only" in listed.stderr
    shown = assay("results", "show", "--store", store)
    assert shown.returncode == 0, shown.stderr
    assert assay("report", "--store", store, "--out", "-", "--format", "md").returncode == 0
    assert {path.name for path in store.iterdir()} >= {"assay.db"}
    assert not list(store.glob("assay.db-*"))


def test_writing_to_it_is_refused_in_words(store: Path, write):
    file = write("bench.yaml", "benchmark: answer\ntarget: {command: echo 42}\nmeasure: {runs: 1}\n")
    done = assay("run", file, "--store", store, "--quiet")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "readonly" in done.stderr or "read-only" in done.stderr


def test_a_file_without_its_folder_can_be_read_too(store: Path):
    """The folder may be written to, and the database may not."""
    store.chmod(0o755)
    listed = assay("results", "list", "--store", store)
    assert listed.returncode == 0, listed.stderr
    assert "answer" in listed.stdout


def test_one_that_must_be_migrated_first_says_so(store: Path):
    import sqlite3

    store.chmod(0o755)
    database = store / "assay.db"
    database.chmod(0o644)
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0006'")
    connection.close()
    for path in (database, store):
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = assay("results", "list", "--store", store)
    assert done.returncode == 3
    assert "0006" in done.stderr
    assert "read-only" in done.stderr
