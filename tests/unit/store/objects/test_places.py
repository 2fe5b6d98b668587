"""How object stores are named: read once, written the same, and never with a secret."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import UsageError
from assay.store.objects.files import ObjectPlace, parse_place

segments = st.from_regex(r"[A-Za-z0-9_.=-]{1,20}", fullmatch=True).filter(lambda text: text not in (".", ".."))
buckets = st.from_regex(r"[a-z0-9][a-z0-9.-]{1,40}", fullmatch=True)
endpoints = st.sampled_from(["", "http://127.0.0.1:9000", "https://s3.example.com", "http://[::1]:9000"])
places = st.builds(
    lambda bucket, parts, endpoint, region: ObjectPlace("s3", bucket, "/".join(parts), endpoint, region),
    buckets,
    st.lists(segments, max_size=4),
    endpoints,
    st.sampled_from(["", "eu-west-1", "auto"]),
)


@given(places)
def test_a_place_is_read_as_it_was_written(place):
    assert parse_place(place.url) == place


@given(st.text(min_size=1, max_size=30).filter(lambda text: "\0" not in text))
def test_any_text_is_a_place_or_an_error_of_ours(text):
    try:
        place = parse_place(text)
    except UsageError as problem:
        code = problem.problem.code
    else:
        assert parse_place(place.url) == place
        return
    assert code == "objects-url"


def test_the_parts_of_a_place():
    found = parse_place("s3://bench/team//a/?region=eu-west-1&endpoint=http://minio:9000/")
    assert found == ObjectPlace("s3", "bench", "team/a", "http://minio:9000", "eu-west-1")
    assert found.url == "s3://bench/team/a?endpoint=http://minio:9000&region=eu-west-1"
    assert parse_place("s3://bench").url == "s3://bench"


def test_a_folder_is_named_by_its_path_or_as_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    odd = tmp_path / "a folder #1?"
    assert (
        parse_place("./x")
        == parse_place("~/x")
        == parse_place(f"file://{tmp_path}/x")
        == ObjectPlace("file", "", str(tmp_path / "x"))
    )
    assert Path(parse_place(parse_place(str(odd)).url).prefix) == odd


@pytest.mark.parametrize(
    "text",
    ["", "bucket", "gs://bucket/x", "s3://", "s3:///x", "s3://b", "s3://bucket/../other", "s3://bucket/a b", "s3://[",
     "s3://bucket?colour=red", "s3://bucket#x", "s3://bucket?region=a&region=b", "s3://bucket?region=a/b",
     "s3://bucket?endpoint=minio:9000", "s3://bucket?endpoint=ftp://x", "s3://bucket?endpoint=http://x:99999",
     "s3://bucket?endpoint=http://x/%0a", "file://host/folder", "file:///folder?x=1"],
)  # fmt: skip
def test_what_names_no_object_store_is_refused(text):
    with pytest.raises(UsageError) as refused:
        parse_place(text)
    assert refused.value.problem.code == "objects-url"
    assert refused.value.problem.try_


@pytest.mark.parametrize(
    "text",
    ["s3://AKIA:hunter2@bucket/x", "s3://AKIA:hunter2", "s3://bucket?secret=hunter2",
     "s3://bucket?endpoint=http://u:hunter2@host"],
)  # fmt: skip
def test_a_secret_is_refused_and_not_repeated(text):
    with pytest.raises(UsageError) as refused:
        parse_place(text)
    assert "hunter2" not in str(refused.value)
