"""One HTTP transfer: redirects followed with care, ranges resumed, limits kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import httpx

from assay.errors import MeasureError
from assay.run.models.cache import Entry, Validator
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
    """A failure that another try may mend."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Transfer:
    """How to fetch one URL."""

    url: str
    headers: Mapping[str, str]
    max_size: int
    on_progress: Callable[[int, int | None], None] | None = None

    def attempt(self, client: httpx.Client, entry: Entry, known: Validator | None) -> Validator | None:
        """Fetch into the entry's unfinished file, going on where it ends.

        Returns:
            How this version is recognised; None when the server says that the known version is current.

        Raises:
            TransientError: when another try may succeed.
            MeasureError: when it cannot.
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

    def _check_status(self, response: httpx.Response, entry: Entry) -> None:
        status = response.status_code
        if status == 416:
            entry.drop_part()
            raise TransientError("the server does not have the range that is missing")
        if status in _TRANSIENT:
            raise TransientError(f"HTTP {status} {response.reason_phrase}", _retry_after(response))
        if status not in (200, 206):
            said = f"{shown(self.url)} answered HTTP {status} {response.reason_phrase}".rstrip()
            raise _refused(said, _HINTS.get(status, "check the URL"))

    def _receive(self, response: httpx.Response, entry: Entry) -> Validator:
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

    def _write(self, response: httpx.Response, entry: Entry, done: int, total: int | None) -> int:
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
            raise MeasureError(
                f"{shown(self.url)} {verb} {show_bytes(size)} ({size} bytes), "
                f"above target.max_size of {show_bytes(self.max_size)}",
                code="model-size",
                at="target.max_size",
                try_="raise target.max_size if the file is meant",
            )


def shown(url: str) -> str:
    """A URL without what may be secret in it: user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _conditions(entry: Entry, known: Validator | None) -> dict[str, str]:
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


def _continues(entry: Entry, start: int, validator: Validator) -> bool:
    """Whether a partial answer goes on exactly where the unfinished file ends, in the same version."""
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
