"""An S3-compatible bucket as an object store, by obstore: signed, retried, in parts where files are large."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import StoreError, UsageError
from assay.store.objects.files import ObjectFacts, ObjectPlace, ObjectsAwayError
from assay.version import __version__

if TYPE_CHECKING:
    from obstore.store import S3Store

_STATUS = re.compile(r"status code: (\d{3})(?: ([A-Za-z -]+))?")
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_URL = re.compile(r"performing [A-Z]+ (https?://[^/\s?]+)")
# Below what the library says in a line it draws its own insides; the reason is the last text in there.
_INSIDES = "\n\nDebug source"
_REASON = re.compile(r'(?:message|error): "([^"]{1,200})"')
# Such as `InvalidCertificate( UnknownIssuer, )`.
_TLS = re.compile(r"error: (Invalid\w+)\(\s*(\w+)")
_LONGEST = 300
# Where a machine or container gets its identity; no answer means that it has none.
_IDENTITY = ("169.254.169.254", "169.254.170.2", "169.254.170.23")
# Answers that another try may change: too slow, too often.
_PASSING = (408, 429)
# A file of more than one part is sent in parts; S3 takes at most 10,000 of them and none below 5 MiB but the last.
_PART = 8 * 2**20
_MOST_PARTS = 9_000
_PARTS_TOGETHER = 4
_READ = 1 << 20
_KEYS_TOGETHER = 1_000
_CONNECT = timedelta(seconds=5)
# One request: a part of 8 MiB beside fifteen others takes a minute on a line of 20 Mbit/s.
_REQUEST = timedelta(minutes=3)
# Whether an object exists is asked while a user waits, who gives up after half a minute.
_QUICK = timedelta(seconds=10)
_QUICK_WITHIN = timedelta(seconds=5)
# A store that is away is reported soon: what was to be sent waits on disk, and is sent later.
_RETRIES = 4
_RETRY_WITHIN = timedelta(seconds=20)
_BACKOFF = (timedelta(milliseconds=200), timedelta(seconds=3))
_RIGHTS = "s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket"
_NAMES = "check the name of the bucket, the endpoint and the region"
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


@dataclass(frozen=True, slots=True)
class S3Failure:
    """The failure of a request, as the library reports it."""

    status: int | None
    """Of HTTP; None without an answer."""
    code: str
    """Of S3, such as `NoSuchBucket`; empty when the answer has none."""
    said: str
    server: str
    """Who was asked, such as `http://127.0.0.1:9000`; empty when unknown."""

    @property
    def has_no_bucket(self) -> bool:
        return self.code == "NoSuchBucket"

    @property
    def has_no_credentials(self) -> bool:
        """Whether no provider of credentials was found."""
        return any(f"//{address}" in self.server for address in _IDENTITY)

    @property
    def is_refusal(self) -> bool:
        return self.status is not None and 300 <= self.status < 500 and self.status not in _PASSING


def read_answer(text: str) -> S3Failure:
    line, _, insides = text.partition(_INSIDES)
    status, code, message, server = (pattern.search(line) for pattern in (_STATUS, _CODE, _MESSAGE, _URL))
    if status is not None:
        parts = [f"{status[1]} {status[2] or ''}".strip(), code[1] if code else "", message[1] if message else ""]
        said = ": ".join(filter(None, parts))
    else:
        said = _reason(insides) or line.rpartition(" - ")[2].removeprefix("HTTP error: ")
    return S3Failure(
        int(status[1]) if status else None,
        code[1] if code else "",
        " ".join(said.split())[:_LONGEST],
        server[1] if server else "",
    )


def _reason(insides: str) -> str:
    """Why there was no answer, as far as the library's insides tell; else empty."""
    if tls := _TLS.search(insides):
        return f"{tls[1]}: {tls[2]}"
    reasons = _REASON.findall(insides)
    return str(reasons[-1]) if reasons else ""


class S3Objects:
    """A bucket, or the part of one below a prefix.

    Credentials, and whatever the place does not say, come from the environment as other tools read it: `AWS_*`
    variables, the identity of a pod or container, the role of a machine.
    """

    def __init__(self, place: ObjectPlace) -> None:
        self.place = place
        self._obstore = _library()
        self._store = self._opened(_REQUEST, _RETRY_WITHIN)
        self._quick = self._opened(_QUICK, min(_QUICK_WITHIN, _RETRY_WITHIN))

    def put(self, key: str, source: Path) -> None:
        """Send a file; its content is part of the signature, so that what arrives is what was sent."""
        size = source.stat().st_size
        part = max(_PART, -(-size // _MOST_PARTS))
        with self._translated_errors(key):
            self._obstore.put(self._store, key, source, chunk_size=part, max_concurrency=_PARTS_TOGETHER)
        if size > part and (stored := self.facts(key)) is not None and stored.size_bytes != size:
            raise ObjectsAwayError(f"{key} arrived with {stored.size_bytes} of {size} bytes", at=self.place.url)

    def get(self, key: str) -> Iterator[bytes]:
        with self._translated_errors(key):
            for part in self._obstore.get(self._store, key).stream(min_chunk_size=_READ):
                yield bytes(part)

    def facts(self, key: str) -> ObjectFacts | None:
        with suppress(FileNotFoundError), self._translated_errors(key):
            return _facts(self._obstore.head(self._quick, key))
        return None

    def delete(self, keys: Iterable[str]) -> None:
        every = list(keys)
        for first in range(0, len(every), _KEYS_TOGETHER):
            with suppress(FileNotFoundError), self._translated_errors(every[first]):
                self._obstore.delete(self._store, every[first : first + _KEYS_TOGETHER])

    def list(self, prefix: str) -> Iterator[ObjectFacts]:
        with self._translated_errors(prefix):
            for page in self._obstore.list(self._store, prefix, chunk_size=_KEYS_TOGETHER):
                yield from map(_facts, page)

    def _opened(self, request: timedelta, retry_within: timedelta) -> S3Store:
        """The bucket; nothing is asked of it yet."""
        from obstore.exceptions import BaseError
        from obstore.store import S3Store

        place = self.place
        endpoint = place.endpoint or next((address for name in _ENDPOINTS if (address := os.environ.get(name))), "")
        _refuse_profile()
        config: Any = {"endpoint": endpoint} if endpoint else {}
        config |= {"region": place.region} if place.region else {}
        client: Any = {
            "connect_timeout": _CONNECT,
            "timeout": request,
            "allow_http": endpoint.startswith("http://"),
            "user_agent": f"assay/{__version__}",
        }
        retry: Any = {
            "max_retries": _RETRIES,
            "retry_timeout": retry_within,
            "backoff": {"init_backoff": _BACKOFF[0], "max_backoff": _BACKOFF[1], "base": 2},
        }
        try:
            return S3Store(
                place.bucket, prefix=place.prefix or None, config=config, client_options=client, retry_config=retry
            )
        except (BaseError, ValueError) as problem:
            raise UsageError(
                f"{place.url} cannot be opened: {read_answer(str(problem)).said}",
                code="objects-url",
                try_="check the URL and the AWS_* variables",
            ) from None

    @contextmanager
    def _translated_errors(self, key: str) -> Iterator[None]:
        """Translate errors of the library; that an object does not exist is left to the caller."""
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as problem:
            if read_answer(str(problem)).has_no_bucket:
                raise self._no_bucket() from None
            raise
        except (BaseError, NotImplementedError, ValueError) as problem:
            raise self._in_words(read_answer(str(problem)), key) from None

    def _in_words(self, answer: S3Failure, key: str) -> StoreError:
        url = self.place.url
        if answer.has_no_bucket:
            return self._no_bucket()
        if answer.has_no_credentials:
            tip = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            return StoreError(f"there are no credentials for {url}", code="objects-denied", at=key, try_=tip)
        if answer.is_refusal:
            denied = answer.status in (401, 403)
            allowed = f"check the credentials and what they allow: {_RIGHTS} are needed"
            code, tip = ("objects-denied", allowed) if denied else ("objects-refused", _NAMES)
            return StoreError(f"{url} refuses: {answer.said}", code=code, at=key, try_=tip)
        where = f" at {answer.server}" if answer.server and answer.server not in url else ""
        return ObjectsAwayError(
            f"{url} does not answer{where}: {answer.said}",
            at=key,
            try_="check the address and the network; nothing is lost meanwhile",
        )

    def _no_bucket(self) -> StoreError:
        return StoreError(
            f"there is no bucket {self.place.bucket!r}",
            code="objects-bucket",
            at=self.place.url,
            try_="make it, or check its name, the endpoint and the region",
        )


def _library() -> Any:  # noqa: ANN401  (a module that may not be installed)
    try:
        import obstore
    except ImportError:
        raise UsageError(
            "an object store on S3 needs a package that is not installed: obstore",
            code="missing-s3",
            try_="pip install 'assay-bench[s3]'",
        ) from None
    return obstore


def _refuse_profile() -> None:
    """Refuse credentials that would not be found, rather than try others."""
    profiles = (
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_SKIP_SIGNATURE",
    )
    if os.environ.get("AWS_PROFILE") and not any(os.environ.get(name) for name in profiles):
        raise UsageError(
            "AWS_PROFILE is set, but files of profiles are not read",
            code="objects-profile",
            at="AWS_PROFILE",
            try_='eval "$(aws configure export-credentials --format env)"',
        )


def _facts(listed: Any) -> ObjectFacts:  # noqa: ANN401  (a mapping of the library)
    return ObjectFacts(str(listed["path"]), int(listed["size"]), listed["last_modified"].timestamp())
