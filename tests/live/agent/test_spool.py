"""What an agent holds, on disk."""

import errno
import json
import os

import pytest

from assay.agent.spool import Spool
from assay.files import write_whole
from assay.place.fleet.protocol import Held, Release


@pytest.fixture
def begun(tmp_path, make_job):
    def begin(job=None, fence=1, **options):
        spool, job = Spool(tmp_path, **options), job or make_job()
        entry = spool.entry("http://server", "agent-1", job.id, fence)
        spool.begin(entry, job)
        return spool, entry

    return begin


def test_an_attempt_is_found_again(begun, tmp_path):
    _, entry = begun()
    assert Spool(tmp_path).entries() == [entry]
    assert entry.held == Held("campaign-1-job-0", 1)
    assert entry.release() is None
    assert not entry.result.exists()


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/b\\c", "x" * 5000, "..", "con:"])
def test_what_a_server_calls_its_jobs_never_becomes_a_path(begun, make_job, tmp_path, name):
    _, entry = begun(make_job(campaign=name))
    assert entry.folder.parent == tmp_path / "attempts"
    assert Spool(tmp_path).entries()[0].job == f"{name}-job-0"


def test_a_lease_that_was_not_written_whole_is_no_attempt(begun, tmp_path):
    _, entry = begun()
    (entry.folder / "lease.json").unlink()
    assert Spool(tmp_path).entries() == []
    assert not entry.folder.exists()


def test_a_release_is_kept_and_takes_the_rest_away(begun, tmp_path):
    spool, entry = begun()
    (entry.out / "samples").mkdir(parents=True)
    release = Release("agent-1", "why", crashed=True)
    assert spool.give_back(entry, release)
    assert Spool(tmp_path).entries()[0].release() == release
    assert not entry.out.exists()


def test_forgetting_leaves_nothing(begun, tmp_path):
    spool, entry = begun()
    spool.forget(entry)
    spool.forget(entry)
    assert list((tmp_path / "attempts").iterdir()) == []


def test_what_was_being_forgotten_when_the_agent_died_is_no_attempt(begun, tmp_path):
    spool, entry = begun()
    entry.folder.rename(entry.folder.with_name(f".gone-{entry.folder.name}"))
    assert spool.entries() == []
    assert list((tmp_path / "attempts").iterdir()) == []


def test_samples_are_those_that_were_written_whole(begun):
    _, entry = begun()
    (entry.out / "samples" / "ab").mkdir(parents=True)
    for name in ("ab.parquet", ".part-1", ".part-2.parquet"):
        (entry.out / "samples" / "ab" / name).write_bytes(b"")
    assert [path.name for path in entry.samples()] == ["ab.parquet"]


def test_the_newest_refused_results_are_kept(begun, make_job, tmp_path):
    for index in range(25):
        spool, entry = begun(make_job(index))
        spool.set_aside(entry)
    assert len(list((tmp_path / "refused").iterdir())) == 20
    assert spool.entries() == []


def test_room_is_checked_and_a_little_is_kept_in_reserve(begun, monkeypatch, tmp_path):
    from assay.agent import spool as module

    spool, _ = begun(min_free=1000)
    assert spool.shortage() == ""
    assert (tmp_path / "ballast").stat().st_size == 65536
    monkeypatch.setattr(module, "free_bytes", lambda folder: 999)
    assert "are kept free" in spool.shortage()


def test_the_reserve_is_given_up_to_say_that_a_lease_is_given_back(begun, monkeypatch, tmp_path):
    from assay.agent import spool as module

    spool, entry = begun()
    spool.shortage()
    real = write_whole

    def full(path, content, **options):
        if (tmp_path / "ballast").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, content, **options)

    monkeypatch.setattr(module, "write_whole", full)
    assert spool.give_back(entry, Release("agent-1", "full"))
    assert entry.release() == Release("agent-1", "full")


def test_writing_whole_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full(fd):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_the_lease_names_its_server(begun):
    _, entry = begun()
    assert json.loads((entry.folder / "lease.json").read_text())["server"] == "http://server"
