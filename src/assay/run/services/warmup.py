"""Warm-up of a model: a service that answers may still have to load its model when it is first asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.apis import find_protocol
from assay.spec.secrets import resolve_secrets
from assay.spec.target import Served

_AGAIN_S = 0.5
_REDIRECT, _SERVER_FAULT = 300, 500
_TOO_EARLY = (425, 429)
_WORDS = 300


@dataclass(frozen=True, slots=True)
class ModelWarmup:
    """How a model was made warm."""

    seconds: float | None
    """None where nothing was done."""
    how: str

    def facts(self) -> dict[str, str]:
        took = {} if self.seconds is None else {"warm_s": f"{self.seconds:.3f}"}
        return {**took, "warm": self.how}


def warm(target: Served, base_url: str, within_s: float, *, unless: Callable[[], None] = lambda: None) -> ModelWarmup:
    """Have a service load its model, where its protocol allows that without a measurement.

    A refusal is noted and no more: the first request of a run meets the same one, and says it better.

    Args:
        unless: asked before every try; raises to end it.

    Raises:
        MeasureError: if it did not answer in time.
    """
    asked = _request(target)
    if isinstance(asked, str):
        return ModelWarmup(None, asked)
    path, body = asked
    headers = {"Content-Type": "application/json"}
    headers |= {name: resolve_secrets(value) for name, value in target.headers.items()}
    request = Request(f"{base_url}{path}", json.dumps(body).encode(), headers, method="POST")  # noqa: S310
    begun_s = time.monotonic()
    while True:
        unless()
        left_s = begun_s + within_s - time.monotonic()
        status, words = _post(request, max(0.1, left_s))
        seconds = time.monotonic() - begun_s
        if status is not None and status < _SERVER_FAULT and status not in _TOO_EARLY:
            if status < _REDIRECT:
                return ModelWarmup(seconds, f"POST {path}")
            return ModelWarmup(None, f"POST {path} was refused with status {status}: {words}")
        if seconds >= within_s:
            raise MeasureError(
                f"the model of the service was not warm within {within_s:g} s; last answer to POST {path}: {words}",
                code="service-not-warm",
                at="services",
                try_="raise ready.within; is there enough memory for the model?",
            )
        time.sleep(min(_AGAIN_S, max(0.0, within_s - seconds)))


def _request(target: Served) -> tuple[str, dict[str, JsonValue]] | str:
    """Path and body of the one request that loads a model, or why there is none."""
    protocol = find_protocol(target.api)
    request = None if protocol is None else protocol.warm_request(target)
    if protocol is None or request is None:
        return f"nothing to load that could be asked for: the protocol is {target.api}"
    if protocol.needs_model and not isinstance(target.options.get("model", target.model), str):
        return "not done: the target names no model"
    return request


class _Stay(HTTPRedirectHandler):
    """Follows no redirect: it would send the target's headers to another host."""

    def redirect_request(self, *_: object) -> None:
        """Leave the redirect to the caller, as an answer like any other."""


def _post(request: Request, wait_s: float) -> tuple[int | None, str]:
    """Status and first words of the answer; no status where there was none."""
    opener = build_opener(ProxyHandler({}), _Stay())  # a service of ours is never behind a proxy
    try:
        with opener.open(request, timeout=wait_s) as answer:
            return answer.status, _begin(answer)
    except HTTPError as refused:
        with refused:
            return refused.code, _begin(refused)
    except (OSError, HTTPException, ValueError) as failure:
        return None, f"{type(failure).__name__}: {failure}"


def _begin(answer: HTTPResponse | HTTPError) -> str:
    return " ".join(answer.read(_WORDS).decode("utf-8", "replace").split())
