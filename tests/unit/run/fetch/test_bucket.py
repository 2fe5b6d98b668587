"""Files of a bucket on a real server: one object, everything below a prefix, kept until the bucket has others."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.support.s3_server import BUCKET, KEY, SECRET, S3Server

from assay.errors import MeasureError
from assay.run.fetch.source import fetch, is_here
from assay.spec.target import Fetch

pytestmark = pytest.mark.live


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    return s3


def put(server: S3Server, key: str, content: bytes) -> None:
    from obstore.store import S3Store

    config = {"endpoint": server.endpoint, "access_key_id": KEY, "secret_access_key": SECRET}
    S3Store(BUCKET, config=config, client_options={"allow_http": True}).put(key, content)  # type: ignore[arg-type]


def spec(key: str, path: str = "/data/x", **more: str) -> Fetch:
    return Fetch.model_validate({"src": f"s3://{BUCKET}/{key}", "path": path, **more})


def test_an_object_is_fetched_once_and_again_when_it_changed(bucket: S3Server, tmp_path: Path) -> None:
    put(bucket, "a/train.bin", b"first")
    wanted = spec("a/train.bin", md5=hashlib.md5(b"first").hexdigest())
    assert not is_here(wanted, tmp_path, tmp_path)
    (one,) = fetch(wanted, "target.fetch[0]", tmp_path, tmp_path)
    assert (one.here.read_bytes(), one.path, one.checked) == (b"first", "/data/x", "md5")
    assert is_here(wanted, tmp_path, tmp_path)
    kept = one.here.stat().st_mtime_ns
    assert fetch(wanted, "", tmp_path, tmp_path)[0].here.stat().st_mtime_ns == kept
    put(bucket, "a/train.bin", b"second")
    assert fetch(spec("a/train.bin"), "", tmp_path, tmp_path)[0].here.read_bytes() == b"second"
    with pytest.raises(MeasureError, match="was asked for") as caught:
        fetch(wanted, "target.fetch[0]", tmp_path, tmp_path)
    assert (caught.value.problem.code, caught.value.problem.at) == ("checksum", "target.fetch[0]")


def test_everything_below_a_prefix_keeps_its_order(bucket: S3Server, tmp_path: Path) -> None:
    for key in ("set/a.bin", "set/deep/b.bin", "settings.ini"):
        put(bucket, key, key.encode())
    found = fetch(spec("set/", "/data/"), "", tmp_path, tmp_path)
    assert {one.path: one.here.read_text() for one in found} == {
        "/data/a.bin": "set/a.bin",
        "/data/deep/b.bin": "set/deep/b.bin",
    }


def test_what_is_not_there_or_too_large_is_said(bucket: S3Server, tmp_path: Path) -> None:
    put(bucket, "big", b"x" * 2000)
    with pytest.raises(MeasureError, match="is not there"):
        fetch(spec("nowhere"), "", tmp_path, tmp_path)
    with pytest.raises(MeasureError, match="there is nothing below"):
        fetch(spec("nothing/"), "", tmp_path, tmp_path)
    with pytest.raises(MeasureError, match=r"max_size is"):
        fetch(spec("big", max_size="1kB"), "", tmp_path, tmp_path)


def test_who_is_nobody_is_notified_so(bucket: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(bucket, "a", b"x")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(MeasureError, match=r"s3://results/a (is not for us|cannot be fetched)") as caught:
        fetch(spec("a"), "", tmp_path, tmp_path)
    assert "AWS_ACCESS_KEY_ID" in caught.value.problem.try_
