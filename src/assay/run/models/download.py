"""Models from URLs: fetched once, resumed when cut, verified, and asked about again before each use."""

from __future__ import annotations

import errno
import hashlib
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

import httpx

from assay.errors import MeasureError
from assay.files import file_digest
from assay.http import http_client
from assay.run.models.sources import CacheEntry, CacheNotes, Validator, mismatch
from assay.run.policy import UrlPolicy, checked_transport
from assay.units import show_bytes

MAX_REDIRECTS = 5
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_REDIRECTS = {301, 302, 303, 307, 308}
_RANGE = re.compile(r"^bytes (?P<start>\d+)-\d+/(?P<total>\d+|\*)$")
_HINTS = {
    401: "give credentials under target.headers, for example {Authorization: 'Bearer ${env:TOKEN}'}",
    403: "check the permissions, or give credentials under target.headers",
    404: "check the URL",
    410: "the file was removed; use another URL",
}


class TransientError(Exception):
    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Transfer:
    url: str
    headers: Mapping[str, str]
    max_size: int
    on_progress: Callable[[int, int | None], None] | None = None

    def attempt(self, client: httpx.Client, entry: CacheEntry, known: Validator | None) -> Validator | None:
        """Fetch into the entry's unfinished file, continuing where it ends.

        Returns:
            How this version is recognised; None when the server says that the known version is current.
        """
        try:
            with self._opened(client, {**self.headers, **_conditions(entry, known)}) as response:
                if response.status_code == 304:
                    return None
                self._check_status(response, entry)
                return self._receive(response, entry)
        except (httpx.InvalidURL, UnicodeError) as problem:
            # UnicodeError comes from a host that no name server can be asked for.
            raise _refused(f"{shown(self.url)} is no URL or redirects to none: {problem}", "check the URL") from None
        except (httpx.TransportError, httpx.DecodingError) as problem:
            raise TransientError(f"{type(problem).__name__}: {problem}") from None

    @contextmanager
    def _opened(self, client: httpx.Client, headers: dict[str, str]) -> Iterator[httpx.Response]:
        """Open the URL behind all redirects; the user's headers go to the first host only."""
        url = httpx.URL(self.url)
        for _ in range(MAX_REDIRECTS + 1):
            with client.stream("GET", url, headers=headers) as response:
                if response.status_code not in _REDIRECTS or "location" not in response.headers:
                    yield response
                    return
                target = url.join(response.headers["location"])
            self._check_redirect(url, target)
            if _origin(url) != _origin(target):
                headers = {name: value for name, value in headers.items() if name not in self.headers}
            url = target
        raise _refused(f"{shown(self.url)} redirects more than {MAX_REDIRECTS} times", "give the final URL")

    def _check_redirect(self, url: httpx.URL, target: httpx.URL) -> None:
        if target.scheme not in ("http", "https"):
            raise _refused(f"{shown(self.url)} redirects to {target.scheme}://, which is not followed", "check the URL")
        if url.scheme == "https" and target.scheme == "http":
            raise _refused(f"{shown(self.url)} redirects from https to http", "give an https URL of the file")

    def _check_status(self, response: httpx.Response, entry: CacheEntry) -> None:
        status = response.status_code
        if status == 416:
            entry.drop_part()
            raise TransientError("the server does not have the range that is missing")
        if status in _TRANSIENT:
            raise TransientError(f"HTTP {status} {response.reason_phrase}", _retry_after(response))
        if status not in (200, 206):
            said = f"{shown(self.url)} answered HTTP {status} {response.reason_phrase}".rstrip()
            raise _refused(said, _HINTS.get(status, "check the URL"))

    def _receive(self, response: httpx.Response, entry: CacheEntry) -> Validator:
        validator = Validator(response.headers.get("etag"), response.headers.get("last-modified"))
        start, total = _extent(response)
        if start is not None and not _continues(entry, start, validator):
            entry.drop_part()
            raise TransientError("the file changed on the server")
        self._check_size(total, "says")
        if start is None:
            entry.begin(validator)
        done = self._write(response, entry, start or 0, total)
        if total is not None and done != total:
            raise TransientError(f"the transfer ended after {done} of {total} bytes")
        return validator

    def _write(self, response: httpx.Response, entry: CacheEntry, done: int, total: int | None) -> int:
        plain = response.headers.get("content-encoding", "identity") == "identity"
        with entry.part.open("ab") as file:
            # Chunks as they come: gathering them into larger ones would lose the last one to a cut.
            for chunk in response.iter_raw() if plain else response.iter_bytes():
                done += len(chunk)
                self._check_size(done, "sent")
                file.write(chunk)
                if self.on_progress:
                    self.on_progress(done, total)
        return done

    def _check_size(self, size: int | None, verb: str) -> None:
        if size is not None and size > self.max_size:
            message = (
                f"{shown(self.url)} {verb} {show_bytes(size)} ({size} bytes), "
                f"above target.max_size of {show_bytes(self.max_size)}"
            )
            try_ = "raise target.max_size if the file is meant"
            raise MeasureError(message, code="model-size", at="target.max_size", try_=try_)


def shown(url: str) -> str:
    """A URL without what may be secret in it: user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _conditions(entry: CacheEntry, known: Validator | None) -> dict[str, str]:
    """Headers that ask for the missing rest, or for a newer version than the known one."""
    headers = {"Accept-Encoding": "identity"}  # compressed bytes could not be resumed
    size, mark = entry.part_size(), entry.part_validator().for_resume
    if size and mark:
        return {**headers, "Range": f"bytes={size}-", "If-Range": mark}
    if known and known.etag:
        headers["If-None-Match"] = known.etag
    if known and known.last_modified:
        headers["If-Modified-Since"] = known.last_modified
    return headers


def _extent(response: httpx.Response) -> tuple[int | None, int | None]:
    """Where a partial answer starts (None: a whole one), and the size of the whole file."""
    if response.status_code == 206:
        match = _RANGE.match(response.headers.get("content-range", ""))
        if match is None:
            return -1, None
        return int(match["start"]), None if match["total"] == "*" else int(match["total"])
    length = response.headers.get("content-length", "")
    plain = response.headers.get("content-encoding", "identity") == "identity"
    return None, int(length) if length.isdigit() and plain else None


def _continues(entry: CacheEntry, start: int, validator: Validator) -> bool:
    """Whether a partial answer continues exactly where the unfinished file ends, in the same version."""
    held = entry.part_validator()
    same_tag = validator.etag is None or held.etag is None or validator.etag == held.etag
    return start == entry.part_size() and same_tag


def _retry_after(response: httpx.Response) -> float | None:
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdigit() else None


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _refused(message: str, try_: str) -> MeasureError:
    return MeasureError(message, code="model-url", at="target.model", try_=try_)


Progress = Callable[[int, int | None], None]

TRIES = 4  # in a row without a single new byte
_MAX_TRIES = 100  # in all, for a line that drops again and again but moves on
_MAX_WAIT_S = 30.0
_SILENT_S, _CONNECT_S = 30.0, 10.0


@dataclass(frozen=True, slots=True)
class CachedFile:
    path: Path
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches models into a cache folder; several processes may use one folder concurrently."""

    folder: Path
    headers: Mapping[str, str] = field(default_factory=dict)
    max_size: int = 20 * 2**30
    on_progress: Progress | None = None
    pause: Callable[[float], None] = time.sleep
    policy: UrlPolicy = field(default_factory=UrlPolicy.from_environment)

    def fetch(self, url: str, expected: str | None = None) -> CachedFile:
        """Have the file of a URL in the cache, current and verified."""
        return self._fetch(CacheEntry(self._home(url), _name(url)), url, expected)

    def known(self, url: str, expected: str | None = None) -> Path | None:
        """The file of a URL that is in the cache, verified; the server is not asked."""
        entry = CacheEntry(self._home(url), _name(url))
        notes = entry.notes()
        if notes is None or file_digest(entry.file) != (expected or notes.sha256):
            return None
        return entry.file

    def fetch_beside(self, url: str, name: str) -> CachedFile:
        """Have an external weight file that lies beside a model on its server."""
        if Path(name).is_absolute() or ".." in Path(name).parts:
            message = f"{shown(url)} keeps weights in {name!r}, outside its own folder"
            try_ = "download the model and its files, and give a path"
            raise MeasureError(message, code="model", at="target.model", try_=try_)
        beside = urljoin(url.partition("?")[0], quote(name))
        return self._fetch(CacheEntry(self._home(url), Path(name).as_posix()), beside, None)

    def _home(self, url: str) -> Path:
        return self.folder / hashlib.sha256(url.encode()).hexdigest()[:24]

    def _fetch(self, entry: CacheEntry, url: str, expected: str | None) -> CachedFile:
        try:
            with entry.locked():
                notes = _sound(entry, expected)
                if notes and expected:
                    return CachedFile(entry.file)
                return self._refresh(entry, url, expected, notes)
        except OSError as problem:
            raise self._disk_error(entry, problem) from None

    def _refresh(self, entry: CacheEntry, url: str, expected: str | None, known: CacheNotes | None) -> CachedFile:
        """Ask the server; use the cached file when it is current or when there is no answer."""
        try:
            validator = self._download(entry, url, known)
        except TransientError as problem:
            if known is None:
                message = f"{shown(url)} cannot be fetched: {problem}"
                try_ = "check the URL and the network; what has arrived is kept and will be resumed"
                raise MeasureError(message, code="model-url", at="target.model", try_=try_) from None
            return CachedFile(
                entry.file, f"{shown(url)} could not be asked ({problem}); copy of {known.fetched_at} used"
            )
        if validator is not None:
            self._accept(entry, url, expected, validator)
        return CachedFile(entry.file)

    def _download(self, entry: CacheEntry, url: str, known: CacheNotes | None) -> Validator | None:
        """Try until the file is whole; with a cached copy available, once is enough."""
        transfer = Transfer(_revealed(url), self._revealed_headers(), self.max_size, self.on_progress)
        in_vain = 0
        with self._client() as client:
            for _ in range(_MAX_TRIES):
                before = entry.part_size()
                try:
                    return transfer.attempt(client, entry, known.validator if known else None)
                except TransientError as problem:
                    in_vain = 1 if entry.part_size() > before else in_vain + 1
                    if known or in_vain >= TRIES:
                        raise
                    self.pause(_wait_s(in_vain, problem.wait_s))
                except MeasureError:
                    entry.drop_part()
                    raise
        raise TransientError(f"the transfer was cut {_MAX_TRIES} times")

    def _client(self) -> httpx.Client:
        if self.policy.anything:
            return http_client(timeout_s=_SILENT_S, connect_s=_CONNECT_S, proxies=True)
        # A proxy from the environment would connect for us, to wherever it likes.
        transport = checked_transport(self.policy)
        return http_client(timeout_s=_SILENT_S, connect_s=_CONNECT_S, transport=transport)

    def _accept(self, entry: CacheEntry, url: str, expected: str | None, validator: Validator) -> None:
        """Verify the unfinished file and make it the finished one."""
        digest = file_digest(entry.part)
        size = entry.part_size()
        if expected is not None and digest != expected:
            entry.drop_part()
            raise mismatch(shown(url), expected, digest)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry.keep(CacheNotes(shown(url), digest, size, now, validator.etag, validator.last_modified))

    def _revealed_headers(self) -> dict[str, str]:
        return {name: _revealed(value) for name, value in self.headers.items()}

    def _disk_error(self, entry: CacheEntry, problem: OSError) -> MeasureError:
        arrived = entry.part_size()
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            entry.drop_part()  # it would keep the disk full
            message = f"the disk is full: {show_bytes(arrived)} of the model fitted into {entry.folder}"
            try_ = "free some space, or choose another cache folder"
            return MeasureError(message, code="disk-full", at="target.model", try_=try_)
        message = f"the model cache {entry.folder} cannot be used: {problem.strerror or problem}"
        try_ = "check the permissions, or choose another cache folder"
        return MeasureError(message, code="cache", at="target.model", try_=try_)


def _sound(entry: CacheEntry, expected: str | None) -> CacheNotes | None:
    """What is known about the cached file, once its bytes are what they should be; else it is dropped."""
    notes = entry.notes()
    if notes is None:
        return None
    if file_digest(entry.file) != (expected or notes.sha256):
        entry.forget()
        return None
    return notes


def _revealed(text: str) -> str:
    from assay.spec.references import resolve_secrets

    return resolve_secrets(text)


def _wait_s(failures: int, asked_s: float | None) -> float:
    """Back off twice as long each time, with jitter, or as long as the server asks."""
    own = 0.25 * (1 << failures) * random.uniform(0.5, 1.0)  # noqa: S311  (not for secrets)
    return min(max(own, asked_s or 0.0), _MAX_WAIT_S)


def _name(url: str) -> str:
    """A file name for a URL, with the ending by which the runtime tells its format."""
    last = unquote(urlsplit(url).path).rsplit("/", 1)[-1]
    clean = re.sub(r"[^A-Za-z0-9._-]+", "_", last).strip(".")[:100]
    return clean if Path(clean).suffix else f"{clean or 'model'}.onnx"
