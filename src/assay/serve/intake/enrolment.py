"""Agents that an administrator adds by address: the server asks them who they are, only where it is allowed to."""

from __future__ import annotations

import json
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import JsonValue, ValidationError

from assay.documents import adapter
from assay.errors import MeasureError
from assay.place.fleet.protocol import Enrolled, Enrolment
from assay.run.policy import UrlPolicy, checked_transport
from assay.serve.settings import ServerSettings
from assay.serve.web.problems import RequestProblem
from assay.serve.web.records import AgentAddress

T = TypeVar("T")

_LONGEST_ANSWER = 1_000_000
_ANSWER_S = 10.0


def ask_agent(settings: ServerSettings, address: AgentAddress) -> Enrolment:
    """Ask the device at a URL who it is: GET {url}/info.

    Raises:
        RequestProblem: if the URL may not be asked, nobody answers, or the answer is no enrolment.
    """
    return _exchange(settings, address, "GET", "/info", None, Enrolment)


def call_agent(settings: ServerSettings, address: AgentAddress, here: str, token: str | None) -> Enrolled:
    """Have the device at a URL work for this server: POST {url}/enrol. It enrols itself, as every agent does.

    Raises:
        RequestProblem: if it refuses, or cannot reach this server.
    """
    message: dict[str, JsonValue] = {"server": address.server or here, "token": token}
    return _exchange(settings, address, "POST", "/enrol", message, Enrolled)


def _exchange(
    settings: ServerSettings, address: AgentAddress, method: str, path: str, message: JsonValue, kind: type[T]
) -> T:
    url = _checked(address.url)
    headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
    answer = _fetch(settings, method, f"{url}{path}", headers, message)
    try:
        return adapter(kind).validate_json(answer)
    except ValidationError:
        raise _refused(424, f"{url} answered, but not as an agent does", "start it with `assay agent serve`") from None


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    odd = any(char.isspace() for char in url) or len(url) > 300
    if not usable or odd or parts.username or parts.query or parts.fragment:
        raise _refused(422, "this is not the address of an agent", "write http://device:8081")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _fetch(settings: ServerSettings, method: str, url: str, headers: dict[str, str], message: JsonValue) -> bytes:
    near = settings.on_loopback or settings.allow_private_agents
    transport = checked_transport(UrlPolicy(private=near, loopback=near))
    try:
        with (
            httpx.Client(transport=transport, trust_env=False, follow_redirects=False, timeout=_ANSWER_S) as client,
            client.stream(method, url, headers=headers, json=message) as answer,
        ):
            content = _bounded(answer, url)
            if answer.status_code not in (200, 201):
                said = f"{url} answered {answer.status_code}{_why(content)}"
                raise _refused(424, said, "check the address and the agent's token")
            return content
    except MeasureError as refused:
        raise _refused(422, refused.problem.message, "start the server with --allow-private-agents") from None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as problem:
        said = type(problem).__name__
        raise _refused(424, f"nobody answers at {url} ({said})", "check the address, and that the agent runs") from None


def _bounded(answer: httpx.Response, url: str) -> bytes:
    content = b""
    for part in answer.iter_bytes():
        content += part
        if len(content) > _LONGEST_ANSWER:
            raise _refused(424, f"{url} answered with more than {_LONGEST_ANSWER // 1000} kB", "check the address")
    return content


def _why(content: bytes) -> str:
    """What an agent said when it refused, if it said so in words."""
    try:
        detail = json.loads(content)["detail"]
    except (ValueError, TypeError, KeyError):
        return ""
    return f": {str(detail)[:300]}"


# 424: what this depends on, the agent, did not do its part; neither the request nor the server is at fault.
def _refused(status: int, what: str, advice: str) -> RequestProblem:
    return RequestProblem(status, what, code="agent-address", try_=advice, at="url")
