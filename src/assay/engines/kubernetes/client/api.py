"""What is asked of Kubernetes and what it answers: objects, changes, rights, and refusals in its own words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, get_args

from assay.errors import MeasureError

if TYPE_CHECKING:
    import urllib3

Kind = Literal["Job", "Pod", "Service", "Deployment", "ConfigMap", "Secret", "Event", "Node"]
# An object as Kubernetes writes it in JSON: what one version knows and another does not is neither lost nor invented.
Document = Mapping[str, Any]
What = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]

# Codes of errors. Those of the first line may pass by themselves; the outcome of the request is then unknown.
SILENT = "kubernetes-silent"
MISSING, CONFIG = "kubernetes-missing", "kubernetes-config"
TOKEN, FORBIDDEN = "kubernetes-token", "kubernetes-forbidden"
REFUSED, GONE, EXISTS, NOT_FOUND = "kubernetes-refused", "kubernetes-gone", "kubernetes-exists", "kubernetes-not-found"
_NUMBER = re.compile(r"\d+")
# What the server says of a container that has not written anything because it does not run yet.
_NOT_BEGUN = ("waiting to start", "is not available", "ContainerCreating", "PodInitializing")
_WHAT: tuple[What, ...] = get_args(What)


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
    """From where a watch continues."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a watch tells."""

    what: What
    item: Document
    """The object as it is now, or as it was last for DELETED; nothing but a version for BOOKMARK."""

    @property
    def version(self) -> str:
        """From where a watch continues after this."""
        return version_of(self.item)


@dataclass(frozen=True, slots=True)
class Right:
    """Something that an account may or may not do in the namespace."""

    verb: str
    resource: str
    """With its group and part, such as `jobs.batch` or `pods/log`."""


class Expired(MeasureError):  # noqa: N818  (it is no failure: the watcher lists again)
    """The server does not remember what happened since: list again, and watch from there."""

    default_code = GONE


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


def read_version(answer: Mapping[str, Any]) -> Version:
    """The version that a server reports under /version; clouds add their own characters to the numbers."""
    text = str(answer.get("gitVersion") or "")
    parts = [_NUMBER.match(str(answer.get(part) or "")) for part in ("major", "minor")]
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
# Without these a part of what can be asked for is not available → what that is.
WANTED = {
    **dict.fromkeys((Right(verb, "services") for verb in _MADE), "services, and pods that go together"),
    **dict.fromkeys((Right(verb, "deployments.apps") for verb in _MADE), "services"),
    **dict.fromkeys((Right(verb, "secrets") for verb in ("create", "delete")),
                    "secrets that a campaign brings along (place.kubernetes.secrets: ${env:NAME})"),
    **dict.fromkeys((Right(verb, "pods/exec") for verb in ("create", "get")),
                    "results that are too large for a log, without a server"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was read."""

    status: int
    content: bytes


def content_of(response: urllib3.BaseHTTPResponse, address: str) -> bytes:
    """All of an answer."""
    import urllib3

    try:
        return response.read(decode_content=True)
    except urllib3.exceptions.HTTPError as problem:
        raise no_answer(problem, address) from None
    finally:
        response.release_conn()


def document_of(answer: Answer, address: str, about: str) -> Mapping[str, Any]:
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise refusal(answer, address, about)
    document = _json(answer.content)
    if not document:
        message = f"the server answered {about} with status {answer.status} and no document"
        raise MeasureError(message, code=SILENT, at=address, try_="is this the address of a Kubernetes API server?")
    return document


def refusal(answer: Answer, address: str, about: str) -> MeasureError:
    """Why the server did not do what was asked, by what helps."""
    document = _json(answer.content)
    said = str(
        document.get("message") or answer.content[:300].decode("utf-8", "replace").strip() or "it does not say why"
    )
    if answer.status == HTTPStatus.UNAUTHORIZED:
        remedy = "log in to the cluster again; `kubectl auth whoami` tells whether it worked"
        return MeasureError(f"the server does not know this account: {said}", code=TOKEN, at=address, try_=remedy)
    if answer.status == HTTPStatus.GONE:
        return Expired(f"the server does not remember what happened since: {said}", at=address)
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return MeasureError(f"the server cannot answer now (status {answer.status}): {said}", code=SILENT, at=address)
    if answer.status == HTTPStatus.FORBIDDEN and "quota" not in said and not _by_admission(said):
        return MeasureError(
            f"this account may not do that: {said}",
            code=FORBIDDEN,
            at=address,
            try_="apply the Role of deploy/kubernetes/role.yaml to the namespace; `assay kubernetes check` tells what "
            "is missing",
        )
    codes: dict[int, str] = {HTTPStatus.NOT_FOUND: NOT_FOUND, HTTPStatus.CONFLICT: EXISTS}
    code = codes.get(answer.status, REFUSED)
    return MeasureError(f"the server refused {about}: {said}", code=code, at=address, try_="change place.kubernetes")


def change_in(line: bytes, address: str) -> Change:
    """One line of a watch."""
    document = _json(line)
    item = document.get("object")
    if document.get("type") == "ERROR" and isinstance(item, Mapping):
        code = item.get("code")
        status = code if isinstance(code, int) else HTTPStatus.INTERNAL_SERVER_ERROR
        raise refusal(Answer(status, json.dumps(item).encode()), address, "a watch")
    what: What | None = next((kind for kind in _WHAT if kind == document.get("type")), None)
    if what is None or not isinstance(item, Mapping):
        raise MeasureError(f"the server sent something that is no change: {line[:200]!r}", code=SILENT, at=address)
    return Change(what, item)


def no_answer(problem: Exception, address: str) -> MeasureError:
    reason = getattr(problem, "reason", None) or problem
    remedy = "see whether it can be reached from here: kubectl version"
    return MeasureError(f"the server of the cluster does not answer: {reason}", code=SILENT, at=address, try_=remedy)


def not_ready_yet(answer: Answer, address: str) -> MeasureError:
    """A server that starts and does not know anybody's rights yet: as good as silent."""
    said = str(_json(answer.content).get("message") or f"status {answer.status}")
    return MeasureError(f"the server of the cluster has only just come back ({said})", code=SILENT, at=address)


def reason_of(content: bytes) -> str:
    """Why, in the server's own word."""
    return str(_json(content).get("reason") or "")


def retry_after(headers: Mapping[str, str], usual_s: float) -> float:
    """How long to wait before asking again: as the server says, else as usual."""
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        return usual_s


def is_not_begun(status: int, content: bytes) -> bool:
    """Whether there is no log only because nothing has run yet."""
    said = str(_json(content).get("message") or "")
    return status == HTTPStatus.BAD_REQUEST and any(word in said for word in _NOT_BEGUN)


def refuse_failed(program: str, pod: str, status: bytes, errors: bytes, address: str) -> None:
    """Raise if a command in a pod ended with anything but 0."""
    document = _json(status)
    if document.get("status") == "Success":
        return
    wrote = errors[-500:].decode("utf-8", "replace").strip()
    said = str(document.get("message") or "the connection was cut")
    message = f"{program!r} failed in the pod {pod}: {said}{f'; it wrote: {wrote}' if wrote else ''}"
    raise MeasureError(message, code="kubernetes-exec" if document else SILENT, at=address)


def _by_admission(said: str) -> bool:
    """Whether not the account is the matter, but what it asked for."""
    return any(word in said for word in ("PodSecurity", "admission webhook", "denied the request", "LimitRange"))


def _json(content: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
