"""Models from URLs, against a real server on this machine that cuts, changes and refuses."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from assay.errors import MeasureError
from assay.run.models import resolve
from assay.run.models.download import Fetcher, shown
from assay.run.models.sources import Validator
from assay.spec.target import ModelTarget

pytestmark = pytest.mark.live

CONTENT = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def fetcher(cache):
    def make(**how):
        return Fetcher(cache / "models" / "urls", pause=lambda _: None, **how)

    return make


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def leftovers(cache: Path) -> list[str]:
    """Files of the cache other than the model, its notes and the lock."""
    return [path.name for path in cache.rglob("*") if path.is_file() and "part" in path.name]


def test_download_is_verified_kept_and_reported(site, cache):
    site.content, told = CONTENT, []
    target = ModelTarget(model=site.url + "?token=secret", sha256=sha(CONTENT))
    local = resolve(target, Path(), cache=cache, on_progress=lambda done, total: told.append((done, total)))
    assert local.path.read_bytes() == CONTENT
    assert local.path.name == "model.onnx"
    assert (local.sha256, local.size_bytes, local.source) == (sha(CONTENT), len(CONTENT), site.url)
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert not leftovers(cache)
    assert "secret" not in "".join(path.read_text() for path in cache.rglob("*.json"))


def test_cached_file_with_a_digest_needs_no_server(site, fetcher):
    site.content = CONTENT
    for _ in range(2):
        fetcher().fetch(site.url, sha(CONTENT))
    assert len(site.asked) == 1


def test_cached_file_without_a_digest_is_revalidated(site, fetcher):
    site.content = CONTENT
    first = fetcher().fetch(site.url)
    assert fetcher().fetch(site.url) == first
    assert site.asked[1][1]["if-none-match"] == '"v1"'
    site.content, site.etag = b"new version", '"v2"'
    assert fetcher().fetch(site.url).path.read_bytes() == b"new version"


def test_offline_the_cached_copy_is_used_and_said(site, fetcher):
    site.content = CONTENT
    fetcher().fetch(site.url)
    site.statuses = [503]
    fetched = fetcher().fetch(site.url)
    assert fetched.path.read_bytes() == CONTENT
    assert "could not be asked (HTTP 503" in fetched.note


def test_nobody_listens(fetcher):
    waits = []
    with pytest.raises(MeasureError) as caught:
        Fetcher(fetcher().folder, pause=waits.append).fetch("http://127.0.0.1:9/model.onnx")
    assert caught.value.problem.code == "model-url"
    assert len(waits) == 3
    assert waits[0] < 0.6
    assert waits == sorted(waits)


def test_damaged_cache_is_fetched_again(site, fetcher):
    site.content = CONTENT
    path = fetcher().fetch(site.url).path
    path.write_bytes(b"bit rot")
    assert fetcher().fetch(site.url).path.read_bytes() == CONTENT


def test_cut_connection_is_resumed(site, fetcher, cache):
    site.content, site.cuts = CONTENT, [300_000, 200_000]
    assert fetcher().fetch(site.url).path.read_bytes() == CONTENT
    ranges = [headers.get("range") for _, headers in site.asked]
    assert ranges[0] is None
    assert ranges[1] is not None
    assert not leftovers(cache)


def test_next_process_resumes_what_an_earlier_one_left(site, fetcher):
    site.content, site.cuts = CONTENT, [400_000]
    site.statuses = []
    with pytest.raises(KeyboardInterrupt):
        Fetcher(fetcher().folder, pause=_interrupt).fetch(site.url)
    assert fetcher().fetch(site.url).path.read_bytes() == CONTENT
    assert int(site.asked[1][1]["range"].removeprefix("bytes=").rstrip("-")) > 0


def _interrupt(_):
    raise KeyboardInterrupt


def test_file_that_changed_while_cut_is_not_spliced(site, fetcher):
    site.content, site.cuts = CONTENT, [400_000]

    def change(_):
        site.content, site.etag = CONTENT[::-1], '"v2"'

    path = Fetcher(fetcher().folder, pause=change).fetch(site.url).path
    assert path.read_bytes() == CONTENT[::-1]


def test_range_of_another_version_is_not_spliced(site, fetcher, monkeypatch):
    """A server that ignores If-Range and answers 206 of a new version is found out by its tag."""
    site.content, site.cuts = CONTENT, [400_000]
    monkeypatch.setattr(Validator, "for_resume", '"v2"')

    def change(_):
        site.content, site.etag = CONTENT[::-1], '"v2"'

    assert Fetcher(fetcher().folder, pause=change).fetch(site.url).path.read_bytes() == CONTENT[::-1]
    assert any("range" in headers for _, headers in site.asked)


def test_weak_tag_starts_over(site, fetcher):
    site.content, site.cuts, site.etag = CONTENT, [400_000], 'W/"v1"'
    assert fetcher().fetch(site.url).path.read_bytes() == CONTENT
    assert all("range" not in headers for _, headers in site.asked)


def test_server_without_ranges_starts_over(site, fetcher):
    site.content, site.cuts, site.ranges = CONTENT, [400_000], False
    assert fetcher().fetch(site.url).path.read_bytes() == CONTENT


@pytest.mark.parametrize("status", [429, 500, 503])
def test_transient_answers_are_tried_again(site, fetcher, status):
    site.content, site.statuses = CONTENT, [status, status]
    assert fetcher().fetch(site.url).path.read_bytes() == CONTENT
    assert len(site.asked) == 3


def test_wrong_digest_shows_both_and_leaves_nothing(site, cache):
    site.content = CONTENT
    with pytest.raises(MeasureError) as caught:
        resolve(ModelTarget(model=site.url, sha256="0" * 64), Path(), cache=cache)
    assert caught.value.problem.code == "checksum"
    assert sha(CONTENT) in caught.value.problem.message
    assert "0" * 64 in caught.value.problem.message
    assert not [path for path in cache.rglob("*") if path.is_file() and path.name != ".lock"]


def test_not_found(site, fetcher):
    with pytest.raises(MeasureError, match="404") as caught:
        fetcher().fetch(f"{site.base}/gone")
    assert caught.value.problem.code == "model-url"
    assert len(site.asked) == 1


@pytest.mark.parametrize("declares_length", [True, False])
def test_too_large(site, fetcher, cache, declares_length):
    site.content, site.declares_length = CONTENT, declares_length
    with pytest.raises(MeasureError) as caught:
        fetcher(max_size=100_000).fetch(site.url)
    assert caught.value.problem.code == "model-size"
    assert not leftovers(cache)


def test_redirect_is_followed_and_headers_stay_with_their_host(site, fetcher, monkeypatch):
    monkeypatch.setenv("ASSAY_TEST_TOKEN", "t0p-secret")
    site.content = CONTENT
    other = site.base.replace("127.0.0.1", "localhost")
    site.redirects = {"/model.onnx": f"{other}/far.onnx"}
    headers = {"X-Key": "${env:ASSAY_TEST_TOKEN}"}
    assert fetcher(headers=headers).fetch(site.url).path.read_bytes() == CONTENT
    assert site.asked[0][1]["x-key"] == "t0p-secret"
    assert "x-key" not in site.asked[1][1]


def test_redirects_without_end(site, fetcher):
    site.redirects = {"/model.onnx": "/model.onnx"}
    with pytest.raises(MeasureError, match="more than 5 times"):
        fetcher().fetch(site.url)
    assert len(site.asked) == 6


def test_redirect_to_a_file_is_refused(site, fetcher):
    site.redirects = {"/model.onnx": "file:///etc/passwd"}
    with pytest.raises(MeasureError, match="file://"):
        fetcher().fetch(site.url)


def test_missing_secret_is_named(site, fetcher):
    with pytest.raises(MeasureError, match="ASSAY_NOT_SET"):
        fetcher(headers={"X": "${env:ASSAY_NOT_SET}"}).fetch(site.url)


def test_external_weights_are_fetched_too(site, cache, tiny):
    path = tiny(save_as_external_data=True, location="tiny.weights", size_threshold=0)
    site.content = path.read_bytes()
    site.files["/tiny.weights"] = (path.parent / "tiny.weights").read_bytes()
    local = resolve(ModelTarget(model=site.url, sha256=sha(site.content)), Path(), cache=cache)
    assert local.external == ("tiny.weights",)
    assert (local.path.parent / "tiny.weights").read_bytes() == site.files["/tiny.weights"]
    assert local.sha256 != local.file_sha256 == sha(site.content)


def test_two_processes_fetch_the_same_url(site, cache):
    site.content = CONTENT
    code = textwrap.dedent("""
        import sys
        from pathlib import Path
        from assay.run.models import resolve
        from assay.spec.target import ModelTarget
        print(resolve(ModelTarget(model=sys.argv[1]), Path(), cache=Path(sys.argv[2])).sha256)
    """)
    command = [sys.executable, "-c", code, site.url, str(cache)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0].strip() for process in both] == [sha(CONTENT)] * 2
    whole = [headers for _, headers in site.asked if "if-none-match" not in headers]
    assert len(whole) == 1
    assert not leftovers(cache)


def test_lock_does_not_stay_behind_a_killed_process(site, cache, fetcher):
    """A process that holds the lock and is killed with -9 blocks nobody."""
    site.content = CONTENT
    code = textwrap.dedent("""
        import sys
        from pathlib import Path
        from assay.run.models.sources import CacheEntry
        with CacheEntry(Path(sys.argv[1]), "model.onnx").locked():
            print("held", flush=True)
            sys.stdin.read()
    """)
    home = str(fetcher()._home(site.url))
    command = [sys.executable, "-c", code, home]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline().strip() == "held"
        holder.kill()
    assert fetcher().fetch(site.url).path.read_bytes() == CONTENT


def test_full_disk_is_said_and_the_part_removed(site, fetcher, cache, monkeypatch):
    site.content = CONTENT
    real = Path.open

    def full(self, mode="r", *args, **kwargs):
        file = real(self, mode, *args, **kwargs)
        if self.name.endswith(".part") and mode == "ab":
            file.close()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return file

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(MeasureError) as caught:
        fetcher().fetch(site.url)
    assert caught.value.problem.code == "disk-full"
    assert not leftovers(cache)


def test_really_full_disk(site, tmp_path):
    """The same on a file system of 256 KiB."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a tmpfs needs root")
    try:
        site.content = CONTENT
        with pytest.raises(MeasureError) as caught:
            Fetcher(small / "urls").fetch(site.url)
        assert caught.value.problem.code == "disk-full"
        assert not leftovers(small)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_cache_that_cannot_be_written(site, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(MeasureError) as caught:
        Fetcher(tmp_path / "file" / "urls").fetch(site.url)
    assert caught.value.problem.code == "cache"


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://user:pass@host/a.onnx?sig=1", "https://host/a.onnx"),
        ("http://host:8080/a/b.onnx#x", "http://host:8080/a/b.onnx"),
    ],
)
def test_shown_urls_hold_no_secrets(url, clean):
    assert shown(url) == clean
