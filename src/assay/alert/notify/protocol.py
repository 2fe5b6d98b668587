"""What a way to tell people must do: send a message, or say why not and whether trying again can help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from assay.alert.message import Message
from assay.documents import to_plain
from assay.errors import AssayError, MeasureError
from assay.spec.references import REFERENCE, references, resolve_secrets
from assay.spec.section import Duration, Section

# The set-up is wrong and a person has to fix it, so there is no hurry to retry.
REPAIR_S = 900.0
LONGEST_TIMEOUT_S = 60.0
PAYLOAD_VERSION = 1
# What assay remembers for itself is no part of the payload.
_PRIVATE = frozenset({"past", "telling"})
Name = Annotated[str, Field(min_length=1, max_length=200)]


class NotifyError(AssayError):
    """A message could not be sent."""

    default_code = "notify"

    def __init__(
        self,
        message: str,
        *,
        retry: bool = True,
        after_s: float | None = None,
        done: tuple[str, ...] = (),
        code: str = "",
        at: str = "",
        try_: str = "",
    ) -> None:
        """Say what failed.

        Args:
            after_s: how long to wait at least; a receiver asked for it, or the set-up has to be fixed.
            done: receivers that took the message anyway and must not get it again.
        """
        super().__init__(message, code=code, at=at, try_=try_)
        self.retry = retry
        self.after_s = after_s
        self.done = done


class Notifier(Protocol):
    def send(self, message: Message) -> str | None:
        """Send a message and return when its receiver has taken it.

        It is called again with the same `message.key` after a failure or an unknown outcome: where the
        receiver can drop repeats, give it the key.

        Returns:
            What was wrong although it was taken, in one sentence; None when nothing was.
        """
        ...


def _is_reference(value: str) -> str:
    if not REFERENCE.search(value):
        raise ValueError("a secret is not written out in a file; write ${env:NAME} and set that variable")
    return value


def _is_address(value: str) -> str:
    if REFERENCE.search(value):
        return value  # checked when it is known
    if urlsplit(check_address(value)).username is not None:
        raise ValueError("a password is not written out in an address; write ${env:NAME} in its place")
    return value


def check_address(value: str) -> str:
    """An address that can be called."""
    try:
        parts = urlsplit(value)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise ValueError("an address that begins with https:// or http:// and names a host is needed")
    return value


Secret = Annotated[str, AfterValidator(_is_reference)]
"""Text that holds a reference to a secret, and never the secret itself."""
Address = Annotated[str, AfterValidator(_is_address)]
"""An http(s) address; parts of it may be references to secrets."""


class Channel(Section):
    """One receiver of notifications, as the channels file describes it."""

    kind: str
    """What kind of channel it is."""
    timeout: Duration = Field(default=20.0, gt=0, le=LONGEST_TIMEOUT_S)
    """How long one try may take, from beginning to end."""
    ca: Path | None = None
    """Certificates of your own authority (PEM); those of the public ones when left out."""

    @property
    def repeat_s(self) -> float | None:
        """How often a standing alert must be sent again; None when once is enough."""
        return None

    def send(self, message: Message) -> str | None:
        """Send a message; see `Notifier`."""
        raise NotImplementedError

    def secret_names(self) -> tuple[str, ...]:
        """The environment variables that it needs."""
        return tuple(dict.fromkeys(references(self.model_dump(mode="json"))))


def revealed(text: str) -> str:
    """A text with its secrets in place, just before it is used."""
    try:
        return resolve_secrets(text)
    except MeasureError as missing:
        problem = missing.problem
        raise NotifyError(
            problem.message,
            after_s=REPAIR_S,
            code="secret",
            at=problem.at,
            try_="set it where `assay serve` is started",
        ) from None


def payload(message: Message) -> dict[str, Any]:
    """A message as a JSON document: what webhooks and commands are given."""
    return {
        "version": PAYLOAD_VERSION,
        "key": message.key,
        "event": message.event,
        "subject": message.subject,
        "text": message.text,
        "markdown": message.markdown,
        "url": message.url,
        "alert": {name: part for name, part in to_plain(message.alert).items() if name not in _PRIVATE},
        "picture_svg": message.picture_svg,
    }
