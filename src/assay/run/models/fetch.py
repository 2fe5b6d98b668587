"""Models from URLs: fetched once, resumed when cut, verified, and asked about again before each use."""

from __future__ import annotations

import errno
import hashlib
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote, urljoin, urlsplit

import httpx

from assay.errors import MeasureError
from assay.run.models.cache import Entry, Notes, Validator
from assay.run.models.digest import file_digest, mismatch
from assay.run.models.policy import UrlPolicy, checked_transport
from assay.run.models.transfer import Transfer, TransientError, shown
from assay.units import show_bytes

Progress = Callable[[int, int | None], None]

TRIES = 4  # in a row without a single new byte
_MAX_TRIES = 100  # in all, for a line that drops again and again but moves on
_MAX_WAIT_S = 30.0
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file of the cache."""

    path: Path
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches models into a cache folder; several processes may use one folder at once."""

    folder: Path
    headers: Mapping[str, str] = field(default_factory=dict)
    max_size: int = 20 * 2**30
    on_progress: Progress | None = None
    pause: Callable[[float], None] = time.sleep
    policy: UrlPolicy = field(default_factory=UrlPolicy.from_environment)

    def fetch(self, url: str, expected: str | None = None) -> Fetched:
        """Have the file of a URL in the cache, current and verified.

        Raises:
            MeasureError: when it cannot be had, is too large, or is another file than expected.
        """
        return self._fetch(Entry(self._home(url), _name(url)), url, expected)

    def known(self, url: str, expected: str | None = None) -> Path | None:
        """The file of a URL that is in the cache, verified; nobody is asked for it."""
        entry = Entry(self._home(url), _name(url))
        known = entry.notes()
        if known is None or file_digest(entry.file) != (expected or known.sha256):
            return None
        return entry.file

    def fetch_beside(self, url: str, name: str) -> Fetched:
        """Have an external weight file that lies beside a model on its server."""
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise MeasureError(
                f"{shown(url)} keeps weights in {name!r}, outside its own folder",
                code="model",
                at="target.model",
                try_="download the model and its files, and give a path",
            )
        beside = urljoin(url.partition("?")[0], quote(name))
        return self._fetch(Entry(self._home(url), Path(name).as_posix()), beside, None)

    def _home(self, url: str) -> Path:
        return self.folder / hashlib.sha256(url.encode()).hexdigest()[:24]

    def _fetch(self, entry: Entry, url: str, expected: str | None) -> Fetched:
        try:
            with entry.locked():
                known = _sound(entry, expected)
                if known and expected:
                    return Fetched(entry.file)
                return self._refresh(entry, url, expected, known)
        except OSError as problem:
            raise self._disk_error(entry, problem) from None

    def _refresh(self, entry: Entry, url: str, expected: str | None, known: Notes | None) -> Fetched:
        """Ask the server; use the cached file when it is current or when nobody answers."""
        try:
            validator = self._download(entry, url, known)
        except TransientError as problem:
            if known is None:
                raise MeasureError(
                    f"{shown(url)} cannot be fetched: {problem}",
                    code="model-url",
                    at="target.model",
                    try_="check the URL and the network; what has arrived is kept and will be resumed",
                ) from None
            return Fetched(entry.file, f"{shown(url)} could not be asked ({problem}); copy of {known.fetched_at} used")
        if validator is not None:
            self._accept(entry, url, expected, validator)
        return Fetched(entry.file)

    def _download(self, entry: Entry, url: str, known: Notes | None) -> Validator | None:
        """Try until the file is whole; with a cached copy at hand, once is enough."""
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
            return httpx.Client(timeout=_TIMEOUT, follow_redirects=False)
        # A proxy from the environment would connect for us, to wherever it likes.
        return httpx.Client(
            timeout=_TIMEOUT, follow_redirects=False, trust_env=False, transport=checked_transport(self.policy)
        )

    def _accept(self, entry: Entry, url: str, expected: str | None, validator: Validator) -> None:
        """Verify the unfinished file and make it the finished one."""
        found = file_digest(entry.part)
        size = entry.part_size()
        if expected is not None and found != expected:
            entry.drop_part()
            raise mismatch(shown(url), expected, found)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry.keep(Notes(shown(url), found, size, now, validator.etag, validator.last_modified))

    def _revealed_headers(self) -> dict[str, str]:
        return {name: _revealed(value) for name, value in self.headers.items()}

    def _disk_error(self, entry: Entry, problem: OSError) -> MeasureError:
        arrived = entry.part_size()
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            entry.drop_part()  # it would keep the disk full
            return MeasureError(
                f"the disk is full: {show_bytes(arrived)} of the model fitted into {entry.folder}",
                code="disk-full",
                at="target.model",
                try_="free some space, or choose another cache folder",
            )
        return MeasureError(
            f"the model cache {entry.folder} cannot be used: {problem.strerror or problem}",
            code="cache",
            at="target.model",
            try_="check the permissions, or choose another cache folder",
        )


def _sound(entry: Entry, expected: str | None) -> Notes | None:
    """What is known about the cached file, once its bytes are what they should be; else it is dropped."""
    known = entry.notes()
    if known is None:
        return None
    if file_digest(entry.file) != (expected or known.sha256):
        entry.forget()
        return None
    return known


def _revealed(text: str) -> str:
    from assay.spec.secrets import resolve_secrets

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
