"""What the server answers: an object, a refusal in its own words, or silence. Pure but for reading the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from assay.engines.kubernetes.client.api import (
    EXISTS,
    FORBIDDEN,
    NOT_FOUND,
    REFUSED,
    SILENT,
    TOKEN,
    Change,
    Expired,
    What,
)
from assay.errors import MeasureError

if TYPE_CHECKING:
    import urllib3

BAD, UNAUTHORISED, FORBIDDEN_STATUS, MISSING, CONFLICT, GONE, BUSY, BROKEN = 400, 401, 403, 404, 409, 410, 429, 500
# What the server says of a container that has not written anything because it does not run yet.
_NOT_BEGUN = ("waiting to start", "is not available", "ContainerCreating", "PodInitializing")
_WHAT: tuple[What, ...] = get_args(What)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was read."""

    status: int
    content: bytes


def content_of(response: urllib3.BaseHTTPResponse, address: str) -> bytes:
    """All of an answer.

    Raises:
        MeasureError: if it breaks off.
    """
    import urllib3

    try:
        return response.read(decode_content=True)
    except urllib3.exceptions.HTTPError as problem:
        raise silent(problem, address) from None
    finally:
        response.release_conn()


def document(answer: Answer, address: str, about: str) -> Mapping[str, Any]:
    """The object of an answer.

    Raises:
        MeasureError: for a refusal, in the server's own words.
    """
    if answer.status >= BAD:
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
        document.get("message") or answer.content[:300].decode("utf-8", "replace").strip() or "it does not tell why"
    )
    if answer.status == UNAUTHORISED:
        remedy = "log in to the cluster again; `kubectl auth whoami` tells whether it worked"
        return MeasureError(f"the server does not know this account: {said}", code=TOKEN, at=address, try_=remedy)
    if answer.status == GONE:
        return Expired(f"the server does not remember what happened since: {said}", at=address)
    if answer.status == BUSY or answer.status >= BROKEN:
        return MeasureError(f"the server cannot answer now (status {answer.status}): {said}", code=SILENT, at=address)
    if answer.status == FORBIDDEN_STATUS and "quota" not in said and not _by_admission(said):
        return MeasureError(
            f"this account may not do that: {said}",
            code=FORBIDDEN,
            at=address,
            try_="apply the Role of deploy/kubernetes/role.yaml to the namespace; `assay kubernetes check` tells what "
            "is missing",
        )
    code = {MISSING: NOT_FOUND, CONFLICT: EXISTS}.get(answer.status, REFUSED)
    return MeasureError(f"the server refused {about}: {said}", code=code, at=address, try_="change place.kubernetes")


def change(line: bytes, address: str) -> Change:
    """One line of a watch.

    Raises:
        Expired: if the server does not remember since when it is watched.
        MeasureError: for another error that it tells.
    """
    document = _json(line)
    item = document.get("object")
    if document.get("type") == "ERROR" and isinstance(item, Mapping):
        code = item.get("code")
        status = code if isinstance(code, int) else BROKEN
        raise refusal(Answer(status, json.dumps(item).encode()), address, "a watch")
    what: What | None = next((kind for kind in _WHAT if kind == document.get("type")), None)
    if what is None or not isinstance(item, Mapping):
        raise MeasureError(f"the server sent something that is no change: {line[:200]!r}", code=SILENT, at=address)
    return Change(what, item)


def silent(problem: Exception, address: str) -> MeasureError:
    """A server that does not answer."""
    reason = getattr(problem, "reason", None) or problem
    remedy = "see whether it can be reached from here: kubectl version"
    return MeasureError(f"the server of the cluster does not answer: {reason}", code=SILENT, at=address, try_=remedy)


def learning(answer: Answer, address: str) -> MeasureError:
    """A server that starts and does not know anybody's rights yet: as good as silent."""
    said = str(_json(answer.content).get("message") or f"status {answer.status}")
    return MeasureError(f"the server of the cluster has only just come back ({said})", code=SILENT, at=address)


def reason(content: bytes) -> str:
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
    return status == BAD and any(word in said for word in _NOT_BEGUN)


def refuse_failed(program: str, pod: str, status: bytes, errors: bytes, address: str) -> None:
    """Raise if a command in a pod ended with anything but 0.

    Raises:
        MeasureError: with what it wrote last.
    """
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
