"""What waits is done: sent when a campaign ends, kept while the object store is away, deleted when nothing names it."""

import hashlib
import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from tests.support.running_server import wait_for
from tests.unit.store.objects.setups import HERE, Memory, Seconds, backed_by, keys, keys_of, measured

from assay.clock import SYSTEM_CLOCK
from assay.errors import StoreError
from assay.run.scratch import held
from assay.store.artefacts import ArtefactFiles
from assay.store.objects.s3 import S3Objects
from assay.store.objects.transfer import join, trim, work_off
from assay.store.samples import SampleFiles
from assay.store.store import Store


def test_files_are_sent_when_the_campaign_ends_and_not_beside_its_runs(store, place, left):
    campaign, job = measured(store, left, runs=3)
    assert keys(place) == []
    store.end_campaign(campaign, "done", SYSTEM_CLOCK)
    assert keys(place) == keys_of(store, job)
    assert len(keys(place)) == 4
    assert store.backing.outbox.count("send") == 0


def test_an_interrupted_campaign_sends_nothing_and_loses_nothing(store, place, left):
    campaign, job = measured(store, left)
    store.end_campaign(campaign, "interrupted", SYSTEM_CLOCK)
    assert keys(place) == []
    assert store.work_off().files == 2
    assert keys(place) == keys_of(store, job)


def test_another_machine_reads_what_was_sent(store, place, left, tmp_path):
    campaign, job = measured(store, left)
    store.end_campaign(campaign, "done", SYSTEM_CLOCK)
    other = Store(tmp_path / "other", url=f"sqlite:///{tmp_path / 'store' / 'assay.db'}", objects=str(place))
    assert other.samples_of(job, 0)[0].value.tolist() == [1.0, 2.0]
    assert other.file_of(job, 0, "answers.txt").read_bytes() == b"forty-two"
    other.close()


def test_while_the_object_store_is_away_everything_stays_here_and_is_sent_later(store, place, left, caplog):
    campaign, job = measured(store, left, runs=2)
    place.rename(place.with_name("away"))
    with caplog.at_level(logging.WARNING, logger="assay.store"):
        store.end_campaign(campaign, "done", SYSTEM_CLOCK)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("3 files are on this disk alone: the folder")
    assert "assay objects send" in said
    assert store.backing.outbox.count("send") == 3
    assert store.samples_of(job, 1)[0].value.tolist() == [2.0, 3.0]
    place.with_name("away").rename(place)
    # The next campaign takes along what the last one left.
    store.backing.wake()
    second, _ = measured(store, left, values=(9.0, 9.0))
    store.end_campaign(second, "done", SYSTEM_CLOCK)
    assert set(keys_of(store, job)) < set(keys(place))
    assert store.backing.outbox.count("send") == 0


def test_a_store_without_an_object_store_makes_no_marks(tmp_path, left):
    plain = Store(tmp_path / "plain")
    campaign, _ = measured(plain, left)
    plain.end_campaign(campaign, "done", SYSTEM_CLOCK)
    plain.remove(campaign)
    assert not (plain.folder / "outbox").exists()
    assert plain.work_off() is None
    assert plain.trim() == 0
    plain.close()


def test_what_was_measured_before_goes_along_when_an_object_store_comes(tmp_path, place, left):
    plain = Store(tmp_path / "store")
    campaign, job = measured(plain, left)
    plain.end_campaign(campaign, "done", SYSTEM_CLOCK)
    plain.close()
    store = Store(tmp_path / "store", objects=str(place))
    assert store.work_off().files == 2
    assert keys(place) == keys_of(store, job)
    store.close()
    again = Store(tmp_path / "store")
    assert again.backing is not None
    assert again.work_off().files == 0
    again.close()


def test_removing_a_campaign_deletes_its_objects_unless_another_has_them(store, place, left):
    first, _job = measured(store, left)
    second, other = measured(store, left, values=(5.0, 6.0))
    for campaign in (first, second):
        store.end_campaign(campaign, "done", SYSTEM_CLOCK)
    expected = keys_of(store, other)
    store.remove(first)
    assert keys(place) == expected
    assert store.file_of(other, 0, "answers.txt").read_bytes() == b"forty-two"
    store.remove(second)
    assert keys(place) == []


def test_objects_are_deleted_later_when_the_store_was_away_and_not_if_another_has_them_again(store, place, left):
    first, _job = measured(store, left)
    store.end_campaign(first, "done", SYSTEM_CLOCK)
    before = keys(place)
    place.rename(place.with_name("away"))
    store.remove(first)
    place.with_name("away").rename(place)
    assert keys(place) == before
    # Meanwhile another server of the same database kept the same samples: here only the record shows it.
    _second, _other = measured(store, left)
    for mark in store.backing.outbox.marks("send"):
        store.backing.outbox.to_delete(mark.kind, mark.digest)
    store.backing.wake()
    assert store.work_off().deleted == 0
    assert keys(place) == before
    assert store.backing.outbox.count("delete") == 0


def test_an_upload_that_became_samples_is_not_kept_twice(store, place, clock):
    from assay.store.artefacts import Artefacts

    content = b"PAR1 and so on PAR1"
    digest = hashlib.sha256(content).hexdigest()
    with store.artefacts.begin() as upload:
        upload.write(content)
        upload.keep()
    Artefacts(store.engine, clock).note(digest, "samples", len(content))
    assert store.work_off().files == 1
    store.samples.adopt(digest, store.artefacts.path(digest))
    store.artefacts.remove(digest)
    done = store.work_off()
    assert (done.files, done.deleted) == (1, 1)
    assert keys(place) == [store.samples.key(digest)]


# One pass, with an object store in memory


@pytest.fixture
def objects():
    return Memory()


@pytest.fixture
def shelves(objects, tmp_path):
    backing = backed_by(objects, tmp_path, cache_bytes=25)
    return {
        "samples": SampleFiles(tmp_path / "samples", backing),
        "artefacts": ArtefactFiles(tmp_path / "artefacts", backing),
    }


def put(shelves, content):
    with shelves["artefacts"].begin() as upload:
        upload.write(content)
        return upload.keep()[0]


def named(kind, digests):
    """Records name every file."""
    return set(digests)


def pass_over(shelves, **how):
    return work_off(shelves["artefacts"].backing, shelves, lambda kind, digests: set(), **how)


def test_a_damaged_file_is_not_sent_and_holds_up_no_other(objects, shelves):
    good, bad = put(shelves, b"good"), put(shelves, b"bad")
    shelves["artefacts"].path(bad).write_bytes(b"worse")
    done = pass_over(shelves)
    assert (done.files, done.waiting) == (1, 1)
    assert [problem.code for problem in done.problems] == ["damaged"]
    assert list(objects.content) == [shelves["artefacts"].key(good)]


def test_a_large_file_that_is_there_is_not_sent_again(objects, shelves):
    content = os.urandom(2**20)
    digest = put(shelves, content)
    objects.content[shelves["artefacts"].key(digest)] = content
    done = pass_over(shelves)
    assert (done.files, done.size_bytes, done.waiting) == (1, 0, 0)
    assert not [one for one in objects.asked if one.startswith("put")]


def test_a_large_file_that_is_there_in_part_is_sent(objects, shelves):
    content = os.urandom(2**20)
    digest = put(shelves, content)
    objects.content[shelves["artefacts"].key(digest)] = content[:-1]
    assert pass_over(shelves).size_bytes == 2**20
    assert objects.content[shelves["artefacts"].key(digest)] == content


def test_a_pass_ends_at_the_first_sign_that_the_store_is_away(objects, shelves):
    for number in range(40):
        put(shelves, f"file {number}".encode())
    objects.away = True
    done = pass_over(shelves)
    assert (done.files, done.waiting) == (0, 40)
    assert {problem.code for problem in done.problems} == {"objects-away"}
    assert len(objects.asked) <= 4
    assert pass_over(shelves).problems[0].message == "nobody answers"
    assert len(objects.asked) <= 4


def test_a_mark_whose_file_never_came_is_forgotten_but_not_at_once(objects, shelves, tmp_path):
    shelves["samples"].expect("a" * 64)
    assert pass_over(shelves).waiting == 1
    os.utime(tmp_path / "outbox" / "send" / "samples" / ("a" * 64), (1, 1))
    assert pass_over(shelves).waiting == 0
    assert objects.asked == []


def test_what_came_just_now_is_left_for_the_next_pass(objects, shelves, tmp_path):
    digest = put(shelves, b"x")
    assert pass_over(shelves, settled_s=60).waiting == 1
    mark = tmp_path / "outbox" / "send" / "artefacts" / digest
    os.utime(mark, (time.time() - 61, time.time() - 61))
    assert pass_over(shelves, settled_s=60).files == 1


def test_a_store_that_takes_a_file_and_says_nothing_keeps_nobody_from_ending(objects, shelves, monkeypatch):
    asked, answers, stop = threading.Event(), threading.Event(), threading.Event()

    def silent(key, source):
        asked.set()
        answers.wait(250)

    monkeypatch.setattr(objects, "put", silent)
    digest = put(shelves, b"content")
    ended = []
    passing = threading.Thread(target=lambda: ended.append(pass_over(shelves, stop=stop)))
    passing.start()
    assert asked.wait(120)
    stop.set()
    passing.join(120)
    assert [one.waiting for one in ended] == [1]
    assert shelves["artefacts"].backing.outbox.waits("artefacts", digest)
    answers.set()


def test_a_flaw_of_our_own_is_not_hidden_by_a_thread(objects, shelves, monkeypatch):
    def broken(key, source):
        raise RuntimeError("a flaw")

    monkeypatch.setattr(objects, "put", broken)
    put(shelves, b"content")
    with pytest.raises(RuntimeError, match="a flaw"):
        pass_over(shelves)


def test_a_pass_can_be_stopped(objects, shelves):
    put(shelves, b"x")
    stop = threading.Event()
    stop.set()
    assert pass_over(shelves, stop=stop).waiting == 1
    assert objects.asked == []


def test_only_objects_are_deleted_when_asked_so(objects, shelves):
    kept = put(shelves, b"kept")
    gone = put(shelves, b"gone")
    objects.content[shelves["artefacts"].key(gone)] = b"gone"
    shelves["artefacts"].remove(gone)
    done = pass_over(shelves, sends=False)
    assert (done.files, done.deleted, done.waiting) == (0, 1, 1)
    assert objects.content == {}
    assert shelves["artefacts"].backing.outbox.waits("artefacts", kept)


def test_two_processes_do_not_send_at_once(objects, shelves):
    put(shelves, b"x")
    with held(shelves["artefacts"].backing.outbox.folder):
        done = pass_over(shelves)
    assert (done.files, done.waiting, done.problems) == (0, 1, ())
    assert pass_over(shelves).files == 1


def test_a_disk_that_cannot_be_read_is_reported(objects, shelves, monkeypatch):
    put(shelves, b"x")

    def broken(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(hashlib, "file_digest", broken)
    done = pass_over(shelves)
    assert (done.problems[0].code, done.waiting) == ("disk", 1)


def unused(shelves, content, seconds):
    """Say that a file was last used so long ago."""
    at = time.time() - seconds
    os.utime(shelves["artefacts"].path(hashlib.sha256(content).hexdigest()), (at, at))


def here(shelves):
    return {shelves["artefacts"].path(digest).read_bytes() for digest in shelves["artefacts"].here()}


def test_the_longest_unused_copies_go_first_until_the_rest_fits(objects, shelves):
    ages = {b"0123456789a": 9000, b"0123456789b": 5000, b"0123456789c": 7000}
    for content in ages:
        put(shelves, content)
    pass_over(shelves)
    for content, seconds in ages.items():
        unused(shelves, content, seconds)
    assert trim(shelves["artefacts"].backing, shelves, named) == 1
    assert here(shelves) == {b"0123456789b", b"0123456789c"}
    assert trim(shelves["artefacts"].backing, shelves, named) == 0


def test_what_is_not_sent_or_in_use_or_missing_there_stays(objects, shelves):
    backing = shelves["artefacts"].backing
    lost, used, fresh = b"lost in the object store", b"in use just now, I think", b"not sent yet, and so kept"
    digest = put(shelves, lost)
    put(shelves, used)
    pass_over(shelves)
    objects.content.pop(shelves["artefacts"].key(digest))
    put(shelves, fresh)
    for content, seconds in ((lost, 9000), (used, 10), (fresh, 9500)):
        unused(shelves, content, seconds)
    assert trim(backing, shelves, named) == 0
    assert here(shelves) == {lost, used, fresh}
    assert backing.outbox.waits("artefacts", digest)  # and is sent again
    pass_over(shelves)
    for content in (lost, fresh):
        unused(shelves, content, 9000)
    assert trim(backing, shelves, named) == 2
    assert here(shelves) == {used}


def test_a_copy_that_another_server_removed_goes_and_is_not_sent_again(objects, shelves):
    content = b"removed by another server" * 3
    digest = put(shelves, content)
    pass_over(shelves)
    objects.content.clear()
    unused(shelves, content, 9000)
    assert trim(shelves["artefacts"].backing, shelves, lambda kind, digests: set()) == 1
    assert here(shelves) == set()
    assert not shelves["artefacts"].backing.outbox.waits("artefacts", digest)


def test_no_copy_goes_while_the_store_is_away(objects, shelves):
    put(shelves, b"x" * 30)
    pass_over(shelves)
    unused(shelves, b"x" * 30, 9000)
    objects.away = True
    with pytest.raises(StoreError):
        trim(shelves["artefacts"].backing, shelves, named)
    assert here(shelves) == {b"x" * 30}


def test_without_a_limit_everything_stays(objects, tmp_path):
    backing = backed_by(objects, tmp_path, Seconds())
    shelf = ArtefactFiles(tmp_path / "artefacts", backing)
    assert trim(backing, {"artefacts": shelf}, named) == 0
    assert objects.asked == []


def test_joining_marks_everything_before_it_is_remembered(objects, tmp_path, monkeypatch):
    plain = ArtefactFiles(tmp_path / "artefacts")
    for number in range(5):
        with plain.begin() as upload:
            upload.write(f"file {number}".encode())
            upload.keep()
    backing = backed_by(objects, tmp_path)
    shelf = ArtefactFiles(tmp_path / "artefacts", backing)

    def fail(*_):
        raise StoreError("no room", code="disk")

    with monkeypatch.context() as patch:
        patch.setattr("assay.store.objects.transfer.remember", fail)
        with pytest.raises(StoreError):
            join(tmp_path, backing, {"artefacts": shelf})
    assert not (tmp_path / "objects.json").exists()
    assert join(tmp_path, backing, {"artefacts": shelf}) == 5
    assert backing.outbox.count("send") == 5
    assert HERE.url in (tmp_path / "objects.json").read_text()


KILLED = """
import sys
from pathlib import Path
import numpy as np
from assay.run.records import SampleSet
from assay.store.store import Store

store = Store(Path(sys.argv[1]), objects=sys.argv[2])
for number in range(10_000):
    store.samples.write([SampleSet("m", "measure", np.array([number]), np.array([float(number)]))])
    if number == 40:
        print("begun", flush=True)
"""


@pytest.mark.live
def test_a_process_that_is_killed_leaves_no_file_without_its_mark(tmp_path, place):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "store"), str(place)], stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    store = Store(tmp_path / "store")
    kept = set(store.samples.here())
    assert len(kept) > 20
    marked = {mark.digest for mark in store.backing.outbox.marks("send")}
    assert kept <= marked
    assert len(marked - kept) <= 1
    store.work_off()
    assert set(keys(place)) == {store.samples.key(digest) for digest in kept}
    store.close()


@pytest.mark.live
def test_a_bucket_that_goes_away_in_the_middle_has_everything_in_the_end(s3, tmp_path, left, monkeypatch):
    from datetime import timedelta

    from assay.store.objects import s3 as s3_module

    monkeypatch.setattr(s3_module, "_RETRY_WITHIN", timedelta(seconds=1))
    numbers, away, put = itertools.count(), threading.Event(), S3Objects.put

    def until_it_goes_away(self, key, source):
        if next(numbers) > 100:
            away.wait(120)
        return put(self, key, source)

    monkeypatch.setattr(S3Objects, "put", until_it_goes_away)
    store = Store(tmp_path / "store", objects=s3.url("store"))
    campaign, job = measured(store, left, runs=200)
    sender = threading.Thread(target=lambda: store.end_campaign(campaign, "done", SYSTEM_CLOCK))
    sender.start()
    wait_for(lambda: len(s3.keys()) > 20, what="the first objects")
    s3.stop(signal.SIGKILL)
    away.set()
    sender.join(120)
    assert not sender.is_alive()
    waiting = store.backing.outbox.count("send")
    assert 0 < waiting < 201
    assert len(store.outcomes(job)) == 200
    s3.start()
    store.backing.wake()
    done = store.work_off()
    assert (done.files, done.waiting, done.problems) == (waiting, 0, ())
    assert s3.keys() == [f"store/{key}" for key in keys_of(store, job)]
    other = Store(tmp_path / "other", url=f"sqlite:///{tmp_path / 'store' / 'assay.db'}", objects=s3.url("store"))
    for run in range(200):
        assert other.samples_of(job, run)[0].value.tolist() == [1.0 + run, 2.0 + run]
    other.close()
    store.close()
