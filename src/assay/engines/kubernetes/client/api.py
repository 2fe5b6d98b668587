"""What is asked of Kubernetes and what it answers: one small protocol, whichever way it is reached."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from assay.errors import MeasureError

Kind = Literal["Job", "Pod", "Service", "Deployment", "ConfigMap", "Secret", "Event", "Node"]
# An object as Kubernetes writes it in JSON: what one version knows and another does not is neither lost nor invented.
Document = Mapping[str, Any]
What = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]

# Codes of errors. Those of the first line may pass by themselves; nothing is known then of what became of the request.
SILENT = "kubernetes-silent"
MISSING, CONFIG = "kubernetes-missing", "kubernetes-config"
TOKEN, FORBIDDEN = "kubernetes-token", "kubernetes-forbidden"
REFUSED, GONE, EXISTS, NOT_FOUND = "kubernetes-refused", "kubernetes-gone", "kubernetes-exists", "kubernetes-not-found"
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """The version of a cluster, as far as fields of objects depend on it."""

    major: int
    minor: int
    text: str = ""
    """As the server writes it, such as `v1.20.2`."""

    def __str__(self) -> str:
        return self.text or f"v{self.major}.{self.minor}"

    def has(self, minor: int) -> bool:
        """Whether it is 1.`minor` or newer."""
        return (self.major, self.minor) >= (1, minor)


@dataclass(frozen=True, slots=True)
class ObjectList:
    """Objects of one kind at one moment."""

    items: tuple[Document, ...]
    version: str
    """From where a watch goes on."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a watch tells."""

    what: What
    item: Document
    """The object as it is now, or as it was last for DELETED; nothing but a version for BOOKMARK."""

    @property
    def version(self) -> str:
        """From where a watch goes on after this."""
        return version_of(self.item)


@dataclass(frozen=True, slots=True)
class Right:
    """Something that an account may or may not do in the namespace."""

    verb: str
    resource: str
    """With its group and part, such as `jobs.batch` or `pods/log`."""


class Expired(MeasureError):  # noqa: N818  (it is no failure: whoever watches lists anew)
    """The server does not remember what happened since: list anew, and watch from there."""

    default_code = GONE


class Api(Protocol):
    """A way to reach the objects of one namespace.

    Every call raises MeasureError: with the code `kubernetes-silent` where the server does not answer and asking again
    may help, `kubernetes-forbidden` where the account lacks a right, `kubernetes-refused` where the request is wrong.
    """

    @property
    def namespace(self) -> str:
        """The namespace of everything that is asked for."""
        ...

    @property
    def address(self) -> str:
        """Where the server is, for messages."""
        ...

    def version(self) -> Version: ...

    def create(self, document: Document) -> Document:
        """Make an object and return it as the server keeps it.

        An object of the same name that carries the same campaign is returned as it is: whoever asks again because no
        answer came makes nothing twice.

        Raises:
            MeasureError: with the code `kubernetes-exists` if somebody else's object has the name.
        """
        ...

    def get(self, kind: Kind, name: str) -> Document | None: ...

    def list(self, kind: Kind, selector: str = "", *, fields: str = "") -> ObjectList:
        """All objects of a kind whose labels (and fields) match."""
        ...

    def watch(
        self, kind: Kind, selector: str = "", *, fields: str = "", since: str, within_s: float
    ) -> Iterator[Change]:
        """What happens to objects after a moment; ends when the server ends it, at the latest after a time.

        Raises:
            Expired: if the server does not remember that moment any more.
        """
        ...

    def patch(self, kind: Kind, name: str, change: Document) -> Document | None:
        """Merge a part into an object; return it, or None where there is none."""
        ...

    def delete(self, kind: Kind, name: str, *, uid: str = "", grace_s: float | None = None) -> bool:
        """Have an object removed, together with everything that it owns; return whether it was there.

        Args:
            uid: remove only this very one, and none that has taken its name since.
            grace_s: how long a pod may take to end; its own setting when left out.
        """
        ...

    def logs(
        self,
        pod: str,
        container: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        since_s: float | None = None,
        timestamps: bool = False,
        within_s: float | None = None,
    ) -> Iterator[bytes]:
        """What a container of a pod wrote, in pieces as they come; they break anywhere, also inside lines.

        Args:
            within_s: end after this time without a new piece; the patience of a request when left out.

        Raises:
            MeasureError: with the code `kubernetes-not-found` if there is no such pod.
        """
        ...

    def execute(self, pod: str, container: str, words: Sequence[str], *, within_s: float) -> Iterator[bytes]:
        """Run a command in a container; its stdout in pieces.

        Raises:
            MeasureError: if it ends with anything but 0 (with what it wrote to stderr), or not in time.
        """
        ...

    def may(self, rights: Sequence[Right]) -> Mapping[Right, bool]:
        """Which of these things this account may do in the namespace."""
        ...


def version_of(document: Document) -> str:
    return str(metadata(document).get("resourceVersion") or "")


def metadata(document: Document) -> Mapping[str, Any]:
    """What an object says about itself."""
    fields = document.get("metadata")
    return fields if isinstance(fields, Mapping) else {}


def name_of(document: Document) -> str:
    return str(metadata(document).get("name") or "")


def uid_of(document: Document) -> str:
    """The one number that no other object ever has."""
    return str(metadata(document).get("uid") or "")


def labels_of(document: Document) -> Mapping[str, str]:
    labels = metadata(document).get("labels")
    return labels if isinstance(labels, Mapping) else {}


def read_version(told: Mapping[str, Any]) -> Version:
    """The version that a server tells under /version; clouds write their own signs behind the numbers."""
    text = str(told.get("gitVersion") or "")
    parts = [_NUMBER.match(str(told.get(part) or "")) for part in ("major", "minor")]
    numbers = [int(match[0]) for match in parts if match is not None]
    if len(numbers) < len(parts):
        numbers = [int(digits) for digits in _NUMBER.findall(text)[:2]]
    major, minor = (*numbers, 0, 0)[:2]
    return Version(major or 1, minor, text)


# Looked up where a lost process made it already; patched to go with what uses it.
_MADE = ("create", "get", "list", "patch", "delete")

# Without these nothing can be run.
NEEDED = (
    *(Right(verb, "jobs.batch") for verb in ("create", "get", "list", "watch", "delete")),
    *(Right(verb, "pods") for verb in ("list", "watch", "delete")),
    Right("get", "pods/log"),
    *(Right(verb, "configmaps") for verb in _MADE),
    Right("list", "events"),
)
# Without these a part of what can be asked for cannot be had → what that is.
WANTED = {
    **dict.fromkeys((Right(verb, "services") for verb in _MADE), "services, and pods that go together"),
    **dict.fromkeys((Right(verb, "deployments.apps") for verb in _MADE), "services"),
    **dict.fromkeys((Right(verb, "secrets") for verb in ("create", "delete")),
                    "secrets that a campaign brings along (place.kubernetes.secrets: ${env:NAME})"),
    **dict.fromkeys((Right(verb, "pods/exec") for verb in ("create", "get")),
                    "results that are too large for a log, without a server"),
}  # fmt: skip
