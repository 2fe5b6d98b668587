"""The object store behind a folder: which one it is, when it is asked, and what is taken from it."""

import hashlib
import json
import os

import pytest
from tests.unit.store.objects.setups import Memory, Seconds, backed_by

from assay.errors import StoreError, UsageError
from assay.store.objects.backing import ObjectSettings, chosen, forget, remember, remembered
from assay.store.objects.files import ObjectsAwayError, parse_place

CONTENT = b"some content"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
KEY = f"samples/{DIGEST[:2]}/{DIGEST}.parquet"


@pytest.fixture
def objects():
    return Memory()


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_is_fetched_is_whole(objects, tmp_path):
    objects.content[KEY] = CONTENT
    path = tmp_path / "a" / "copy"
    assert backed_by(objects, tmp_path).fetch(KEY, DIGEST, path)
    assert path.read_bytes() == CONTENT
    assert files_in(tmp_path) == [path]


def test_what_is_not_there_is_not_fetched(objects, tmp_path):
    assert not backed_by(objects, tmp_path).fetch(KEY, DIGEST, tmp_path / "a" / "copy")
    assert list(tmp_path.iterdir()) == []


def test_other_content_is_refused_and_leaves_what_lay_here(objects, tmp_path):
    objects.content[KEY] = b"something else"
    path = tmp_path / "copy"
    path.write_bytes(CONTENT)
    with pytest.raises(StoreError, match=hashlib.sha256(b"something else").hexdigest()) as refused:
        backed_by(objects, tmp_path).fetch(KEY, DIGEST, path)
    assert refused.value.problem.code == "objects-damaged"
    assert objects.asked == [f"get {KEY}"] * 2
    assert path.read_bytes() == CONTENT
    assert files_in(tmp_path) == [path]


def test_a_full_disk_is_not_taken_for_the_object_store(objects, tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    objects.content[KEY] = CONTENT
    backing = backed_by(objects, tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left") as refused:
        backing.fetch(KEY, DIGEST, tmp_path / "copy")
    assert refused.value.problem.code == "disk"
    assert not backing.rests
    assert files_in(tmp_path) == []


def test_a_store_that_is_away_is_left_alone_for_a_while(objects, tmp_path):
    seconds = Seconds()
    backing = backed_by(objects, tmp_path, seconds)
    objects.away = True
    for _ in range(3):
        with pytest.raises(ObjectsAwayError, match="nobody answers"):
            backing.facts(KEY)
    assert len(objects.asked) == 1
    assert backing.rests
    seconds.now += 16
    assert not backing.rests
    with pytest.raises(ObjectsAwayError):
        backing.facts(KEY)
    assert len(objects.asked) == 2
    objects.away = False
    with pytest.raises(ObjectsAwayError):
        backing.facts(KEY)
    backing.wake()
    assert backing.facts(KEY) is None
    assert not backing.rests


def test_only_one_asks_when_the_rest_is_over(objects, tmp_path):
    seconds = Seconds()
    backing = backed_by(objects, tmp_path, seconds)
    objects.away = True
    with pytest.raises(ObjectsAwayError):
        backing.facts(KEY)
    seconds.now += 16

    def while_one_asks(_):
        with pytest.raises(ObjectsAwayError):
            backing.facts(KEY)
        return "answered"

    assert backing.attempted(while_one_asks) == "answered"
    assert len(objects.asked) == 1
    assert not backing.rests


def test_a_refusal_is_an_answer(objects, tmp_path):
    seconds = Seconds()
    backing = backed_by(objects, tmp_path, seconds)
    objects.away = True
    with pytest.raises(ObjectsAwayError):
        backing.facts(KEY)
    seconds.now += 16

    def refuse(_):
        raise StoreError("no", code="objects-denied")

    with pytest.raises(StoreError, match="no"):
        backing.attempted(refuse)
    assert not backing.rests


def test_a_folder_remembers_its_object_store(tmp_path, monkeypatch):
    settings = ObjectSettings(parse_place("s3://bucket/a?region=auto"), 5_000)
    assert remembered(tmp_path) is None
    assert chosen(tmp_path, None) == (None, False)
    assert chosen(tmp_path, "s3://bucket/a?region=auto", 5_000) == (settings, True)
    remember(tmp_path, settings)
    assert remembered(tmp_path) == settings
    assert chosen(tmp_path, None) == chosen(tmp_path, "s3://bucket/a/?region=auto") == (settings, False)
    monkeypatch.setenv("ASSAY_OBJECTS", "s3://bucket/a?region=auto")
    assert chosen(tmp_path, None) == (settings, False)
    forget(tmp_path)
    assert chosen(tmp_path, None) == (ObjectSettings(settings.place), True)


def test_another_object_store_is_refused(tmp_path, monkeypatch):
    remember(tmp_path, ObjectSettings(parse_place("s3://bucket/a")))
    for ask in (lambda: chosen(tmp_path, "s3://bucket/b"), lambda: chosen(tmp_path, None)):
        monkeypatch.setenv("ASSAY_OBJECTS", "s3://bucket/b")
        with pytest.raises(UsageError, match=r"s3://bucket/a, not in s3://bucket/b") as refused:
            ask()
        assert refused.value.problem.code == "objects-other"
    assert chosen(tmp_path, "s3://bucket/a")[0].place.url == "s3://bucket/a"


def test_the_room_for_copies_may_change(tmp_path):
    remember(tmp_path, ObjectSettings(parse_place("s3://bucket/a"), 10))
    assert chosen(tmp_path, None, 20)[0].cache_bytes == 20
    assert remembered(tmp_path).cache_bytes == 20
    assert chosen(tmp_path, None)[0].cache_bytes == 20


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"url": 3}', '{"url": "s3://b/c", "cache_bytes": "x"}', '{"url": "x"}']
)
def test_a_damaged_memory_is_reported_and_not_guessed(tmp_path, text):
    (tmp_path / "objects.json").write_text(text)
    with pytest.raises(StoreError, match="where the object store is"):
        remembered(tmp_path)


def test_no_secret_is_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    remember(tmp_path, ObjectSettings(parse_place("s3://bucket/a")))
    told = json.loads((tmp_path / "objects.json").read_text())
    assert told == {"schema": "assay.objects/1", "url": "s3://bucket/a", "cache_bytes": None}
