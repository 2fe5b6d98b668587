"""How a target is reached: the service that runs here or somebody's endpoint, with its keys and its tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import psutil

from assay.errors import MeasureError
from assay.run.contract import Order, Stage
from assay.run.load.http.origin import Origin, origin_of
from assay.run.policy import UrlPolicy, pinned
from assay.run.services import RunningService, started
from assay.run.tokens import Tokenizer
from assay.spec.secrets import references, resolve_secrets
from assay.spec.target import EndpointTarget, ServiceTarget

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
    """The target of an order that is reached over a network.

    Raises:
        MeasureError: if it is of another kind.
    """
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
    tell: Callable[[str], None] = lambda note: stage.progress(0.0, note)  # noqa: E731
    with started(own, Path(order.job.base), Path(order.scratch), known=order.services, tell=tell) as fresh:
        yield {**order.services, **fresh}


def reach(target: ServedTarget, services: Mapping[str, RunningService], base: Path) -> ServedEndpoint:
    """Work out where a target is.

    Raises:
        MeasureError: if a host is not known or may not be connected to, or a secret is not to be had.
    """
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
        local_pid=service.pid if service is not None else listener(origin),
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
    """Where the service's own metrics are: a URL as it is, a path on the server's root."""
    if given is None:
        return None
    return given if "://" in given else urljoin(f"{urlsplit(url).scheme}://{urlsplit(url).netloc}", given)


def listener(origin: Origin) -> int | None:
    """The process of this machine that listens where requests go, if it can be seen."""
    if not any(address[0].startswith("127.") or address[0] == "::1" for _, address in origin.addresses):
        return None
    try:
        found = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return None
    ports = {address[1] for _, address in origin.addresses}
    pids = [one.pid for one in found if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port in ports]
    return next((pid for pid in pids if pid is not None), None)


def local_tokenizer_of(reached: ServedEndpoint, base: Path) -> Tokenizer | None:
    """The tokenizer that the file names."""
    if reached.target.tokenizer is None:
        return None
    from assay.run.tokens.local import local_tokenizer

    return local_tokenizer(base / Path(reached.target.tokenizer).expanduser())


def server_tokenizer_of(reached: ServedEndpoint) -> Tokenizer | None:
    """The server's own tokenizer, where it offers one."""
    from assay.run.tokens.server import server_tokenizer

    verify = reached.origin.tls if reached.origin.tls is not None else True
    proxy = reached.target.proxy and resolve_secrets(reached.target.proxy)
    own = reached.service is not None
    return server_tokenizer(reached.url, reached.headers, reached.target.model, verify=verify, proxy=proxy, own=own)
