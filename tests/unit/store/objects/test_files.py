"""What every object store has to do: a folder, and a bucket of a real server."""

import hashlib
import os

import pytest

from assay.errors import StoreError
from assay.store.objects.files import ObjectsAwayError, open_objects, parse_place

KEY = "samples/ab/abcd.parquet"


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.live)])
def objects(request, tmp_path):
    """An empty object store of each kind."""
    if request.param == "s3":
        return open_objects(parse_place(request.getfixturevalue("s3").url("a/prefix")))
    (tmp_path / "objects").mkdir()
    return open_objects(parse_place(str(tmp_path / "objects")))


@pytest.fixture
def source(tmp_path):
    def make(content):
        path = tmp_path / hashlib.sha256(content).hexdigest()
        path.write_bytes(content)
        return path

    return make


def content_of(objects, key=KEY):
    return b"".join(objects.get(key))


@pytest.mark.parametrize("content", [b"", b"x", os.urandom(3 * 2**20 + 7)], ids=["nothing", "a byte", "some"])
def test_what_is_put_is_there(objects, source, content):
    assert objects.facts(KEY) is None
    objects.put(KEY, source(content))
    assert content_of(objects) == content
    found = objects.facts(KEY)
    assert (found.key, found.size_bytes) == (KEY, len(content))
    assert abs(found.modified_at - source(content).stat().st_mtime) < 60


def test_what_is_put_again_is_replaced(objects, source):
    objects.put(KEY, source(b"first"))
    objects.put(KEY, source(b"second"))
    assert content_of(objects) == b"second"


def test_what_is_not_there_is_reported(objects):
    with pytest.raises(FileNotFoundError):
        content_of(objects)
    assert list(objects.list("samples")) == []
    objects.delete([KEY])
    objects.delete([])


def test_a_prefix_is_listed_alone(objects, source):
    keys = [f"samples/{n:02x}/{n}" for n in range(30)]
    for key in [*keys, "artefacts/00/0", "samples-of-another/0"]:
        objects.put(key, source(b"content"))
    found = {one.key: one.size_bytes for one in objects.list("samples")}
    assert found == dict.fromkeys(keys, 7)
    objects.delete(keys[:29])
    assert [one.key for one in objects.list("samples")] == keys[29:]
    assert objects.facts("artefacts/00/0") is not None


def test_a_file_that_is_gone_before_it_is_sent_is_no_error_of_the_store(objects, tmp_path):
    with pytest.raises(FileNotFoundError):
        objects.put(KEY, tmp_path / "gone")
    assert objects.facts(KEY) is None


def test_a_folder_that_is_not_mounted_is_away_and_nothing_is_made_in_its_place(tmp_path, source):
    objects = open_objects(parse_place(str(tmp_path / "not mounted")))
    for ask in (
        lambda: objects.put(KEY, source(b"x")),
        lambda: content_of(objects),
        lambda: objects.facts(KEY),
        lambda: list(objects.list("samples")),
        lambda: objects.delete([KEY]),
    ):
        with pytest.raises(ObjectsAwayError, match="is not there"):
            ask()
    assert not (tmp_path / "not mounted").exists()


def test_a_folder_that_cannot_be_written_is_away_and_keeps_nothing_half(tmp_path, source, monkeypatch):
    (tmp_path / "objects").mkdir()
    objects = open_objects(parse_place(str(tmp_path / "objects")))

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ObjectsAwayError, match="No space left"):
        objects.put(KEY, source(b"x"))
    assert [path for path in (tmp_path / "objects").rglob("*") if path.is_file()] == []


def test_away_is_an_error_of_the_store_with_a_code_of_its_own():
    problem = ObjectsAwayError("gone")
    assert isinstance(problem, StoreError)
    assert problem.problem.code == "objects-away"
