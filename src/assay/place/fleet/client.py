"""What an agent and the command line say to a server: one method per message."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import JsonValue

from assay.documents import from_json, to_json
from assay.errors import MeasureError, UsageError
from assay.files import file_digest
from assay.place.fleet.protocol import (
    AGENT_KEY,
    Claim,
    Delivered,
    Elsewhere,
    Enrolled,
    Enrolment,
    Heartbeat,
    HeartbeatAnswer,
    JobProgressReport,
    Known,
    LeaseGiven,
    LeaseRequest,
    Progress,
    Release,
    Submission,
    agent_key,
)
from assay.place.fleet.transport import AWAY, AwayError, NotAssayError, RefusedError, Transport, server_url

__all__ = ["AWAY", "AwayError", "FleetClient", "NotAssayError", "RefusedError", "read_token", "server_url"]

T = TypeVar("T")

_JSON = {"content-type": "application/json"}
_BLOCK = 1 << 18
# A silent answer may be late by the time it waits for a job, and some more.
_POLL_MARGIN_S = 15.0
_TRANSFER_PATIENCE_S = 120.0


def read_token(file: Path | None = None) -> str | None:
    """The token from a file, else from ASSAY_TOKEN, else none."""
    if file is None:
        return os.environ.get("ASSAY_TOKEN", "").strip() or None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
        raise UsageError(f"the token file cannot be read: {reason}", code="token-file", at=str(file)) from None
    if not token or not token.isascii() or not token.isprintable():
        raise UsageError(
            "the token file holds no token", code="token-file", at=str(file), try_="write one line into it"
        )
    return token


class FleetClient(Transport):
    """One server, by its messages. All raise RefusedError (no use to repeat) or AwayError (try again later)."""

    def greet(self) -> None:
        """Ask once who answers, so that a wrong address is found before anything is asked or sent.

        A server that does not answer now is no error here: what is asked next is tried for longer.
        """
        try:
            self.check_health(self.send("GET", "/health", patience_s=0, expect=(404, 405)))
        except AwayError as problem:
            if isinstance(problem, NotAssayError):
                raise

    def check_health(self, response: httpx.Response) -> None:
        """Refuse an answer to `/health` that no assay server gives."""
        said = self.json_of(response)
        if response.status_code >= 300 or not isinstance(said, dict) or said.get("service") != "assay":
            raise self.not_assay(response)

    # An agent's messages

    def enroll(self, enrolment: Enrolment, *, patience_s: float | None = None) -> Enrolled:
        """Register a device; all later requests carry its key."""
        self._client.headers[AGENT_KEY] = agent_key(enrolment.identity)
        return self._tell("POST", "/agents", enrolment, Enrolled, repeat=True, patience_s=patience_s)

    def heartbeat(self, agent: str, beat: Heartbeat, *, timeout_s: float = 10.0) -> HeartbeatAnswer:
        """Say that an agent is there; sent once, the next one follows soon enough."""
        path = f"{_agent(agent)}/heartbeat"
        return self._tell("POST", path, beat, HeartbeatAnswer, patience_s=0, timeout_s=timeout_s)

    def lease(self, agent: str, request: LeaseRequest) -> LeaseGiven | None:
        """Ask for a job; None when there was none in the time given.

        Sent once: repeated blindly, a lost answer would take a second job beside the first.
        """
        timeout_s = request.wait_s + _POLL_MARGIN_S
        answer = self._post(f"{_agent(agent)}/lease", request, patience_s=0, timeout_s=timeout_s)
        return None if answer.status_code == 204 else self._read(LeaseGiven, answer)

    def claim(self, agent: str, claim: Claim) -> LeaseGiven | None:
        """Confirm a job taken from the queue directly; None when it is not ours to take."""
        answer = self._post(f"{_agent(agent)}/claim", claim, repeat=True, expect=(404, 409))
        return self._read(LeaseGiven, answer) if answer.status_code == 200 else None

    def queues(self, agent: str, device: str = "") -> tuple[str, ...]:
        """The queues whose jobs an agent can do, for one that waits at the broker itself."""
        answer = self.get(f"{_agent(agent)}/queues", {"device": device})
        return tuple(str(queue) for queue in answer["queues"])

    def progress(self, job: str, fence: int, progress: Progress, *, timeout_s: float = 5.0) -> bool:
        """Say how far an attempt is; False when its lease is lost."""
        path = f"{_attempt(job, fence)}/progress"
        return self._post(path, progress, patience_s=0, timeout_s=timeout_s, expect=(404, 409)).status_code < 400

    def release(self, job: str, fence: int, release: Release, *, patience_s: float = 0.0) -> None:
        """Give a lease back."""
        self._post(f"{_attempt(job, fence)}/release", release, repeat=True, patience_s=patience_s, expect=(404, 409))

    def deliver(self, job: str, fence: int, agent: str, result: Path, *, patience_s: float = 0.0) -> Delivered:
        """Hand a result document over; its samples must be there before."""
        path = f"{_attempt(job, fence)}/result"
        answer = self._put_file(path, result, _JSON["content-type"], {"agent": agent}, patience_s)
        return self._read(Delivered, answer)

    def attach(self, job: str, fence: int, agent: str, name: str, sha256: str) -> None:
        """Keep an uploaded file with an attempt, under a name."""
        params = {"agent": agent, "sha256": sha256}
        self.send("PUT", f"{_attempt(job, fence)}/artefacts/{quote(name, safe='')}", params=params)

    # Campaigns measured elsewhere: sent once each, because the sender repeats them by itself

    def know(self, campaign: str, elsewhere: Elsewhere) -> Known:
        """Make a campaign known that is measured elsewhere; one that is known stays as it is."""
        timeout_s = max(self._timeout_s, 60.0)
        return self._tell("PUT", _elsewhere(campaign), elsewhere, Known, patience_s=0, timeout_s=timeout_s)

    def stand(self, campaign: str, standings: JobProgressReport) -> None:
        """Say how jobs stand that are measured elsewhere."""
        self._post(f"{_elsewhere(campaign)}/standings", standings, patience_s=0)

    def report_result(self, campaign: str, index: int, result: str) -> Delivered:
        """Hand over the result of a job that was measured elsewhere; its samples and files must be there before."""
        path = f"{_elsewhere(campaign)}/jobs/{index}/result"
        answer = self.send("PUT", path, content=result, headers=_JSON, patience_s=0)
        return self._read(Delivered, answer)

    # Files by content

    def has(self, sha256: str) -> bool:
        """Whether the server holds a file."""
        return self.send("HEAD", f"/artefacts/{sha256}", expect=(404,)).status_code == 200

    def upload(
        self,
        path: Path,
        sha256: str | None = None,
        name: str | None = None,
        *,
        patience_s: float = _TRANSFER_PATIENCE_S,
    ) -> str:
        """Send a file unless the server has it; return its SHA-256."""
        digest = sha256 or file_digest(path)
        if self.has(digest):
            return digest
        params = {"name": name or path.name}
        self._put_file(f"/artefacts/{digest}", path, "application/octet-stream", params, patience_s)
        return digest

    def download(self, sha256: str, to: Path, *, patience_s: float = _TRANSFER_PATIENCE_S) -> None:
        """Fetch a file, whole and verified or not at all; a transfer that was cut resumes."""
        to.parent.mkdir(parents=True, exist_ok=True)
        partial = to.with_name(f".{to.name}.{os.getpid()}.part")
        partial.unlink(missing_ok=True)
        try:
            self.insist(lambda: self._fetch(f"/artefacts/{sha256}", partial), patience_s=patience_s)
            if (digest := file_digest(partial)) != sha256:
                raise MeasureError(
                    f"the server sent another file: its SHA-256 is {digest}, not {sha256}", code="checksum", at=self.url
                )
            partial.replace(to)
        finally:
            partial.unlink(missing_ok=True)

    # What the command line asks

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401  (JSON)
        return self.json_of(self.send("GET", path, params=_given(params)))

    def post(self, path: str, document: JsonValue = None, *, repeat: bool = False) -> Any:  # noqa: ANN401
        return self._content(self.send("POST", path, json={} if document is None else document, repeat=repeat))

    def put(self, path: str, document: JsonValue, headers: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401
        """Set something."""
        return self._content(self.send("PUT", path, json=document, headers=dict(headers or {})))

    def patch(self, path: str, document: JsonValue) -> Any:  # noqa: ANN401
        """Change something."""
        return self._content(self.send("PATCH", path, json=document, repeat=True))

    def delete(self, path: str) -> Any:  # noqa: ANN401
        """Remove something."""
        return self._content(self.send("DELETE", path))

    def text(self, path: str, params: Mapping[str, Any] | None = None) -> str:
        return self.send("GET", path, params=_given(params)).text

    def content(self, path: str, *, missing_ok: bool = False) -> bytes | None:
        """Read something as it is; None when it is not there and that is fine."""
        response = self.send("GET", path, expect=(404,) if missing_ok else ())
        return None if response.status_code == 404 else response.content

    def pages(self, path: str, params: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """All items of a list, page by page."""
        asked = dict(_given(params))
        while True:
            page = self.get(path, asked)
            yield from page["items"]
            if not page.get("next"):
                return
            asked["cursor"] = page["next"]

    def submit(self, submission: Submission) -> Any:  # noqa: ANN401
        """Hand in a benchmark; sent once, because a second time it would be a second campaign."""
        return self.json_of(self._post("/campaigns", submission, timeout_s=max(self._timeout_s, 60.0)))

    def events(self, path: str, after: str = "") -> Iterator[tuple[str, str, str]]:
        """Follow a stream of events: id, kind, data; ends when the server closes it."""
        headers = {"accept": "text/event-stream", **({"last-event-id": after} if after else {})}
        try:
            with self.stream(path, headers) as response:
                yield from _events(response.iter_lines())
        except httpx.HTTPError as problem:
            raise self._away(problem) from None

    # What these are made of

    def _tell(self, method: str, path: str, message: object, answer: type[T], **options: Any) -> T:  # noqa: ANN401
        sent = self.send(method, path, content=to_json(message), headers=_JSON, **options)
        return self._read(answer, sent)

    def _read(self, record: type[T], response: httpx.Response) -> T:
        """A record from an answer; one that is not understood did not come from an assay server of this version."""
        try:
            return from_json(record, response.content, source=self.url)
        except UsageError:
            raise self.not_assay(response) from None

    def _content(self, response: httpx.Response) -> Any:  # noqa: ANN401
        return self.json_of(response) if response.content else None

    def _post(self, path: str, message: object, **options: Any) -> httpx.Response:  # noqa: ANN401
        return self.send("POST", path, content=to_json(message), headers=_JSON, **options)

    def _put_file(
        self, path: str, file: Path, kind: str, params: Mapping[str, str], patience_s: float
    ) -> httpx.Response:
        headers = {"content-type": kind, "content-length": str(file.stat().st_size)}
        return self.send("PUT", path, params=params, headers=headers, body=lambda: _blocks(file), patience_s=patience_s)

    def _fetch(self, path: str, partial: Path) -> httpx.Response:
        there = partial.stat().st_size if partial.exists() else 0
        with self.stream(path, {"range": f"bytes={there}-"} if there else {}) as response:
            goes_on = response.status_code == 206
            with partial.open("ab" if goes_on else "wb") as file:
                for block in response.iter_bytes(_BLOCK):
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            return response


def _agent(agent: str) -> str:
    return f"/agents/{quote(agent, safe='')}"


def _attempt(job: str, fence: int) -> str:
    return f"/jobs/{quote(job, safe='')}/attempts/{fence}"


def _elsewhere(campaign: str) -> str:
    return f"/elsewhere/{quote(campaign, safe='')}"


def _given(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (params or {}).items() if value not in (None, "")}


def _events(lines: Iterator[str]) -> Iterator[tuple[str, str, str]]:
    number, kind, data = "", "message", list[str]()
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield number, kind, "\n".join(data)
            kind, data = "message", []
        elif name == "id":
            number = value
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
