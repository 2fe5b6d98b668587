from __future__ import annotations

import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.setups import enroll, submit

from assay.errors import StoreError, UsageError
from assay.store.artefacts import ArtefactFiles, Artefacts, plain_name

CONTENT = b"some weights"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def files(tmp_path):
    return ArtefactFiles(tmp_path / "artefacts")


@pytest.fixture
def artefacts(fleet, clock):
    return Artefacts(fleet.engine, clock)


def everything_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def put(files, content=CONTENT, digest=DIGEST, **how):
    with files.begin(**how) as upload:
        for start in range(0, len(content), 5):
            upload.write(content[start : start + 5])
        return upload.keep(digest)


def test_content_is_kept_once_under_its_hash(files):
    assert put(files) == (DIGEST, True)
    assert put(files) == (DIGEST, False)
    assert files.path(DIGEST).read_bytes() == CONTENT
    assert len(everything_in(files.folder)) == 1
    assert files.missing([DIGEST, "0" * 64, "0" * 64]) == ("0" * 64,)
    files.remove(DIGEST)
    assert everything_in(files.folder) == []


def test_other_content_than_was_said_is_refused_and_leaves_nothing(files):
    with pytest.raises(UsageError) as caught:
        put(files, b"something else")
    assert caught.value.problem.code == "mismatch"
    assert everything_in(files.folder) == []


def test_too_much_is_refused_as_soon_as_it_is_too_much(files):
    with pytest.raises(UsageError) as caught:
        put(files, at_most=6)
    assert caught.value.problem.code == "too-large"
    assert everything_in(files.folder) == []
    assert put(files, at_most=len(CONTENT))[1]


def test_an_upload_that_breaks_off_leaves_nothing(files):
    def cut_short():
        with files.begin() as upload:
            upload.write(b"half")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        cut_short()
    assert everything_in(files.folder) == []


def test_what_a_killed_server_left_is_swept_away(files):
    left = files.incoming() / "part-x"
    left.write_bytes(b"half")
    fresh = files.incoming() / "part-y"
    fresh.write_bytes(b"half")
    os.utime(left, (0, 0))
    assert files.sweep(3600) == 1
    assert everything_in(files.folder) == [fresh]


def test_a_folder_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        ArtefactFiles(tmp_path / "file").begin()


HOSTILE = [
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    "",
    "a" * 63,
    "A" * 64,
    "a" * 65,
    "a" * 64 + "\n",
    "0" * 62 + "/.",
    "\0" * 64,
]


@pytest.mark.parametrize("digest", HOSTILE)
def test_only_a_hash_is_ever_a_path(files, artefacts, digest):
    for ask in (files.path, artefacts.get, lambda one: artefacts.note(one, "x", 1), lambda one: files.missing([one])):
        with pytest.raises(UsageError) as caught:
            ask(digest)
        assert caught.value.problem.code == "digest"


@given(st.text())
def test_no_text_but_a_hash_leads_anywhere(text):
    with pytest.raises(UsageError):
        ArtefactFiles.path(ArtefactFiles.__new__(ArtefactFiles), text)


@given(st.text(max_size=400))
def test_a_name_is_never_a_path(text):
    name = plain_name(text)
    assert 0 < len(name) <= 255
    assert not set(name) & set("/\\\0\n")
    assert name not in (".", "..")
    assert plain_name(name) == name


def test_names_keep_what_people_know_them_by():
    assert plain_name("../models/squeeze net.onnx") == "squeeze net.onnx"
    assert plain_name("C:\\models\\net.onnx") == "net.onnx"
    assert plain_name("..") == plain_name("") == "unnamed"


def test_what_is_known_about_a_file(artefacts, clock):
    assert artefacts.get(DIGEST) is None
    kept = artefacts.note(DIGEST, "models/net.onnx", 12)
    assert (kept.name, kept.size_bytes, kept.created_at) == ("net.onnx", 12, clock.utc().timestamp())
    assert artefacts.note(DIGEST, "another", 12) == artefacts.get(DIGEST) == kept


def test_a_job_has_the_files_that_its_own_attempts_left(fleet, control, artefacts, clock):
    submit(fleet, clock, batches=(1,))
    agent, other = enroll(control), enroll(control, "2", "other")
    lease = control.take(agent.id)
    where = (lease.job.id, lease.fence)
    with pytest.raises(UsageError) as caught:
        artefacts.attach(*where, agent.id, "trace.json", DIGEST)
    assert caught.value.problem.code == "missing-artefact"
    artefacts.note(DIGEST, "x", 12)
    artefacts.attach(*where, agent.id, "../trace.json", DIGEST)
    artefacts.attach(*where, agent.id, "trace.json", DIGEST)
    (kept,) = artefacts.of_job(lease.job.id)
    assert (kept.name, kept.sha256, kept.size_bytes, kept.fence) == ("trace.json", DIGEST, 12, 1)
    for stranger in ((*where, other.id), (lease.job.id, 9, agent.id), ("nothing", 1, agent.id)):
        with pytest.raises(UsageError) as caught:
            artefacts.attach(*stranger, "trace.json", DIGEST)
        assert caught.value.problem.code == "unknown-attempt"
