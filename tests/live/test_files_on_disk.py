"""Files that are there whole or not at all, also when the power goes."""

import os
import sys
from pathlib import Path

import pytest

from assay.files import write_whole
from assay.store.artefacts import ArtefactFiles
from assay.store.samples import SampleFiles

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the path of an open file is read from /proc")


@pytest.fixture
def synced(monkeypatch):
    """What was synced, in order, and whether a file was there under its last name by then."""
    seen = []
    real = os.fsync

    def fsync(fd):
        path = Path(f"/proc/self/fd/{fd}").readlink()
        seen.append((path, tuple(sorted(one.name for one in path.iterdir())) if path.is_dir() else ()))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def test_a_file_is_synced_then_renamed_then_its_folder_is_synced(tmp_path, synced):
    path = tmp_path / "a" / "b" / "file.json"
    write_whole(path, b"content")
    assert path.read_bytes() == b"content"
    assert synced[-1] == (path.parent, ("file.json",))
    assert synced[-2][0].name.startswith(".part-")
    # The folders were made just now: their own names are on disk before anything is in them.
    assert [one for one, _ in synced[:2]] == [tmp_path, tmp_path / "a"]


def test_an_upload_and_samples_taken_from_one_are_on_disk_with_their_names(tmp_path, synced):
    uploads, samples = ArtefactFiles(tmp_path / "artefacts"), SampleFiles(tmp_path / "samples")
    with uploads.begin() as upload:
        upload.write(b"PAR1PAR1")
        digest, _ = upload.keep()
    assert synced[-1] == (uploads.path(digest).parent, (digest,))
    samples.adopt(digest, uploads.path(digest))
    assert synced[-1] == (samples.path(digest).parent, (f"{digest}.parquet",))
