"""How a target is reached: a service that runs here or an existing endpoint, with its keys and its tokenizer.

A service that answers may still have to load its model when it is first asked: `warm` has it do so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.apis import find_protocol
from assay.run.contract import Order, Stage
from assay.run.load.http.origin import Origin, origin_of
from assay.run.policy import UrlPolicy, pinned
from assay.run.services import RunningService, discovery, started
from assay.run.services.plan import listener
from assay.run.tokens import Tokenizer
from assay.spec.references import references, resolve_secrets
from assay.spec.target import EndpointTarget, Served, ServiceTarget

ServedTarget = ServiceTarget | EndpointTarget


@dataclass(frozen=True, slots=True)
class ServedEndpoint:
    """A target within reach."""

    target: ServedTarget
    url: str
    origin: Origin
    headers: Mapping[str, str]
    """With the values of secrets in place; never kept."""
    services: Mapping[str, RunningService]
    service: RunningService | None
    """The service that is measured, where we started it."""
    local_pid: int | None
    """The process that answers, where it runs on this machine."""
    metrics_url: str | None
    metrics_address: str | None
    """Where the metrics are read: the address that was checked; None for whatever the name says."""
    metrics_headers: Mapping[str, str]
    """Headers for the metrics as they stand in the file: secrets are references."""


def served_target(order: Order) -> ServedTarget:
    """The target of an order that is reached over a network."""
    target = order.job.definition.target
    if not isinstance(target, ServiceTarget | EndpointTarget):
        raise MeasureError(
            "this protocol needs a service or an endpoint",
            code="target",
            at="target",
            try_="give target.endpoint or target.service",
        )
    return target


@contextmanager
def reached(order: Order, stage: Stage) -> Iterator[ServedEndpoint]:
    """Start the services that belong to this run, and work out where the target is."""
    target = served_target(order)
    with started_services(order, stage) as services:
        yield reach(target, services, Path(order.job.base))


@contextmanager
def started_services(order: Order, stage: Stage) -> Iterator[Mapping[str, RunningService]]:
    """All services of the job, with those that belong to this run alone started for it."""
    own = {
        name: service
        for name, service in order.job.definition.services.items()
        if service.fresh == "run" and name not in order.services
    }
    notify = partial(stage.progress, 0.0)
    with started(own, Path(order.job.base), Path(order.scratch), known=order.services, notify=notify) as fresh:
        yield {**order.services, **fresh}


def reach(target: ServedTarget, services: Mapping[str, RunningService], base: Path) -> ServedEndpoint:
    service = services[target.service] if isinstance(target, ServiceTarget) else None
    url = service.base_url if service is not None else resolve_secrets(_endpoint(target))
    _keep_secrets_from_proxy(target, url)
    proxy = target.proxy and resolve_secrets(target.proxy)
    origin = origin_of(url, tls=target.tls, proxy=proxy, base=base, own=service is not None)
    metrics = metrics_url(target.metrics, url)
    beside = service is not None and target.metrics is not None and "://" not in target.metrics
    return ServedEndpoint(
        target=target,
        url=url,
        origin=origin,
        headers={name: resolve_secrets(value) for name, value in target.headers.items()},
        services=services,
        service=service,
        local_pid=service.pid if service is not None else _local_listener(origin),
        metrics_url=metrics,
        metrics_address=None if metrics is None or beside else pinned(metrics, "target.metrics"),
        metrics_headers=metrics_headers(target, url, metrics),
    )


def metrics_headers(target: ServedTarget, url: str, metrics: str | None) -> dict[str, str]:
    """The headers that a scrape of the metrics may carry: secrets go to the target's own host alone."""
    if metrics is None or urlsplit(metrics).hostname == urlsplit(url).hostname:
        return dict(target.headers)
    return {name: value for name, value in target.headers.items() if not any(references(value))}


def _keep_secrets_from_proxy(target: ServedTarget, url: str) -> None:
    """On an agent, refuse to send a secret in clear through a proxy: that is another host than the target's."""
    secrets = [*references(target.headers), *references(_endpoint(target))]
    is_open = target.proxy is not None and urlsplit(url).scheme == "http"
    if secrets and is_open and not UrlPolicy.from_environment().anything:
        raise MeasureError(
            f"the value of {secrets[0]} would pass through the proxy in clear",
            code="secret",
            at="target.proxy",
            try_="use an https endpoint, or remove target.proxy",
        )


def _endpoint(target: ServedTarget) -> str:
    return target.endpoint if isinstance(target, EndpointTarget) else ""


def metrics_url(given: str | None, url: str) -> str | None:
    """Where the service's own metrics are; None where its section names none."""
    return None if given is None else discovery.metrics_url(given, url)


def _local_listener(origin: Origin) -> int | None:
    """The process of this machine that listens where requests go, if it can be seen."""
    if not any(address[0].startswith("127.") or address[0] == "::1" for _, address in origin.addresses):
        return None
    return listener(*(address[1] for _, address in origin.addresses))


def local_tokenizer_of(reached: ServedEndpoint, base: Path) -> Tokenizer | None:
    """The tokenizer that the file names."""
    if reached.target.tokenizer is None:
        return None
    from assay.run.tokens.sources import local_tokenizer

    return local_tokenizer(base / Path(reached.target.tokenizer).expanduser())


def server_tokenizer_of(reached: ServedEndpoint) -> Tokenizer | None:
    """The server's own tokenizer, where it offers one."""
    from assay.run.tokens.sources import server_tokenizer

    verify = reached.origin.tls if reached.origin.tls is not None else True
    proxy = reached.target.proxy and resolve_secrets(reached.target.proxy)
    own = reached.service is not None
    return server_tokenizer(reached.url, reached.headers, reached.target.model, verify=verify, proxy=proxy, own=own)


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
    """
    load_request = _request(target)
    if isinstance(load_request, str):
        return ModelWarmup(None, load_request)
    path, body = load_request
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
    opener = build_opener(ProxyHandler({}), _Stay())  # a service that assay started is never behind a proxy
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
