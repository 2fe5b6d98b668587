"""A bucket of a real server: parts, errors in words, retries, and a way that is bad."""

import hashlib
import os
import signal

import pytest

from assay.errors import StoreError, UsageError
from assay.store.objects import s3 as s3_module
from assay.store.objects.backing import Backing, ObjectSettings
from assay.store.objects.files import ObjectsAwayError, parse_place
from assay.store.objects.s3 import S3Objects

pytestmark = pytest.mark.live

KEY = "artefacts/ab/abcd"


@pytest.fixture
def hasty(monkeypatch):
    """A store that is away is told within a second."""
    from datetime import timedelta

    monkeypatch.setattr(s3_module, "_RETRY_WITHIN", timedelta(seconds=1))
    monkeypatch.setattr(s3_module, "_BACKOFF", (timedelta(milliseconds=10), timedelta(milliseconds=50)))


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "content"
    path.write_bytes(os.urandom(1000))
    return path


def through(way, s3):
    return S3Objects(parse_place(s3.url("p", way.endpoint)))


def test_a_large_file_goes_in_parts(s3, bad_way, tmp_path):
    path = tmp_path / "large"
    path.write_bytes(os.urandom(20 * 2**20 + 3))
    objects = through(bad_way, s3)
    objects.put(KEY, path)
    parts = [where for method, where, _ in bad_way.seen if method == "PUT" and "partNumber=" in where]
    assert len(parts) == 3
    assert (s3.bucket / "p" / KEY).read_bytes() == path.read_bytes()
    assert objects.facts(KEY).size_bytes == path.stat().st_size
    assert b"".join(objects.get(KEY)) == path.read_bytes()


def test_objects_lie_as_the_files_of_a_store_lie(s3, source):
    S3Objects(parse_place(s3.url())).put("samples/ab/x.parquet", source)
    S3Objects(parse_place(s3.url("team/a"))).put("samples/ab/x.parquet", source)
    assert s3.keys() == ["samples/ab/x.parquet", "team/a/samples/ab/x.parquet"]


def test_a_server_that_is_busy_is_asked_again(s3, bad_way, source, hasty):
    objects = through(bad_way, s3)
    bad_way.wrong = lambda method, path, number: "busy" if number < 2 else ""
    objects.put(KEY, source)
    assert [what for _, _, what in bad_way.seen] == ["busy", "busy", ""]
    bad_way.wrong = lambda method, path, number: "busy" if number < 5 else ""
    assert b"".join(objects.get(KEY)) == source.read_bytes()


def test_a_connection_that_is_dropped_is_made_again(s3, bad_way, source, hasty):
    objects = through(bad_way, s3)
    bad_way.wrong = lambda method, path, number: "drop" if number < 2 else ""
    objects.put(KEY, source)
    assert objects.facts(KEY).size_bytes == 1000


def test_a_server_that_stays_busy_is_away(s3, bad_way, source, hasty):
    bad_way.wrong = lambda *_: "busy"
    objects = through(bad_way, s3)
    for ask in (
        lambda: objects.put(KEY, source),
        lambda: objects.facts(KEY),
        lambda: list(objects.get(KEY)),
        lambda: list(objects.list("samples")),
        lambda: objects.delete([KEY]),
    ):
        with pytest.raises(ObjectsAwayError, match="does not answer"):
            ask()
    assert s3.keys() == []


def test_a_server_that_is_gone_is_away_and_has_everything_when_it_is_back(s3, source, hasty):
    objects = S3Objects(parse_place(s3.url()))
    objects.put(KEY, source)
    s3.stop(signal.SIGKILL)
    with pytest.raises(ObjectsAwayError):
        objects.facts(KEY)
    s3.start()
    assert b"".join(objects.get(KEY)) == source.read_bytes()


def test_an_answer_that_is_cut_is_never_taken_for_the_whole(s3, bad_way, source, hasty, tmp_path):
    objects = through(bad_way, s3)
    objects.put(KEY, source)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    backing = Backing(tmp_path, ObjectSettings(parse_place(s3.url("p", bad_way.endpoint))))
    bad_way.wrong = lambda method, path, number: "cut" if method == "GET" else ""
    with pytest.raises(StoreError):
        backing.fetch(KEY, digest, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    bad_way.wrong = lambda *_: ""
    backing.wake()
    assert backing.fetch(KEY, digest, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()


def test_content_that_changed_on_the_way_is_fetched_again_and_else_refused(s3, bad_way, source, tmp_path):
    through(bad_way, s3).put(KEY, source)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    backing = Backing(tmp_path, ObjectSettings(parse_place(s3.url("p", bad_way.endpoint))))
    flips = iter(["flip", "", "flip", "flip"])
    bad_way.wrong = lambda method, path, number: next(flips) if method == "GET" else ""
    assert backing.fetch(KEY, digest, tmp_path / "copy")
    with pytest.raises(StoreError, match="damaged") as refused:
        backing.fetch(KEY, digest, tmp_path / "other")
    assert refused.value.problem.code == "objects-damaged"
    assert {path.name for path in tmp_path.iterdir()} == {"content", "copy"}


def test_what_the_server_refuses_is_reported_in_words_and_without_the_secret(s3, source, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2 hunter2")
    objects = S3Objects(parse_place(s3.url()))
    for ask in (
        lambda: objects.put(KEY, source),
        lambda: objects.facts(KEY),
        lambda: list(objects.get(KEY)),
        lambda: list(objects.list("samples")),
        lambda: objects.delete([KEY]),
    ):
        with pytest.raises(StoreError, match="refuses: 403 Forbidden") as refused:
            ask()
        assert refused.value.problem.code == "objects-denied"
        assert "hunter2" not in str(refused.value)


def test_a_bucket_that_is_not_there_is_named(s3, source):
    objects = S3Objects(parse_place(f"s3://another-bucket?endpoint={s3.endpoint}"))
    for ask in (
        lambda: objects.put(KEY, source),
        lambda: list(objects.get(KEY)),
        lambda: list(objects.list("samples")),
        lambda: objects.delete([KEY]),
    ):
        with pytest.raises(StoreError, match="no bucket 'another-bucket'") as refused:
            ask()
        assert refused.value.problem.code == "objects-bucket"
    assert objects.facts(KEY) is None  # a server answers this one without words


def test_the_endpoint_may_come_from_the_environment(s3, source, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    S3Objects(parse_place("s3://results/x")).put(KEY, source)
    assert s3.keys() == [f"x/{KEY}"]


def test_a_profile_that_would_not_be_read_is_refused(s3, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "team")
    S3Objects(parse_place(s3.url()))  # there are keys: those are used
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(UsageError, match="AWS_PROFILE"):
        S3Objects(parse_place(s3.url()))


def test_many_objects_are_listed_and_deleted(s3, source):
    objects = S3Objects(parse_place(s3.url()))
    folder = s3.bucket / "samples" / "ab"
    with s3.stopped():
        folder.mkdir(parents=True)
        for number in range(2500):
            (folder / f"{number:05}").write_bytes(b"x")
    found = [one.key for one in objects.list("samples")]
    assert sorted(found) == [f"samples/ab/{number:05}" for number in range(2500)]
    objects.delete(found)
    assert s3.keys() == []
