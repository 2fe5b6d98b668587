"""Discovery of services by monitoring: where each one's metrics are, and from when to when it lived.

The process that measures starts its services on ports that are not known before. Where monitoring is on, an environment
variable names the folder in which a relay looks for them; without it nothing is announced. Here is also the address
under which other nodes of a cluster reach what listens on this one.
"""

from __future__ import annotations

import ipaddress
import json
import os
import platform
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from assay.files import write_whole
from assay.spec.references import LOOPBACK

if TYPE_CHECKING:
    from assay.run.services import RunningService


VARIABLE = "ASSAY_DISCOVERY"
DEFAULT_PATH = "/metrics"
# The scraper may be another user's process in a container.
_MODE = 0o644


@dataclass(frozen=True, slots=True)
class ServiceDiscovery:
    """Where and how services are announced."""

    relay: Path
    """Folder with one file for each service that runs on this machine now."""
    lives: Path
    """Folder with one file for each service that ran: from when to when."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What belongs to every one of them: campaign, job, node."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Service → where its metrics are: a path, or a URL of its own."""

    def text(self) -> str:
        """As the environment variable holds it."""
        return json.dumps(
            {"relay": str(self.relay), "lives": str(self.lives), "labels": dict(self.labels), "paths": dict(self.paths)}
        )

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> ServiceDiscovery | None:
        """What the environment says; None where monitoring is off."""
        try:
            given = json.loads(environ[VARIABLE])
            return cls(Path(given["relay"]), Path(given["lives"]), given["labels"], given["paths"])
        except (KeyError, ValueError, TypeError):
            return None


@contextmanager
def announced(running: Mapping[str, RunningService]) -> Iterator[Mapping[str, RunningService]]:
    """Have services watched for as long as the body runs; a folder that is gone costs the metrics, never a run."""
    where = ServiceDiscovery.of(os.environ)
    if where is None:
        yield running
        return
    urls = {name: metrics_url(where.paths.get(name), service.base_url) for name, service in running.items()}
    with living(where, urls):
        yield running


@contextmanager
def living(where: ServiceDiscovery, urls: Mapping[str, str]) -> Iterator[None]:
    """Have some addresses scraped under a name for as long as the body runs."""
    with ExitStack() as lives:
        for name, url in urls.items():
            lives.enter_context(_life(where, name, url))
        yield


@contextmanager
def _life(where: ServiceDiscovery, name: str, url: str) -> Iterator[None]:
    """One service from its announcement to its end."""
    begin_s, relay = time.time(), where.relay / f"{name}.json"
    file = where.lives / f"{name}-{uuid.uuid4().hex[:12]}.json"

    def write(end_s: float | None) -> None:
        life = {**where.labels, "service": name, "url": url, "begin_s": begin_s, "end_s": end_s}
        with suppress(OSError):
            write_whole(file, json.dumps(life).encode(), mode=_MODE)

    write(None)
    with suppress(OSError):
        write_whole(relay, json.dumps({"url": url}).encode(), mode=_MODE)
    try:
        yield
    finally:  # said before it goes: what fails from now on is no failure
        write(time.time())
        with suppress(OSError):
            relay.unlink(missing_ok=True)


def metrics_url(given: str | None, base_url: str) -> str:
    """Where a service's own metrics are: a URL as it is, a path on the server's root."""
    from urllib.parse import urljoin, urlsplit

    if given is not None and "://" in given:
        return given
    root = urlsplit(base_url)
    return urljoin(f"{root.scheme}://{root.netloc}", given or DEFAULT_PATH)


# For sites where a node has several networks: the engine or a prologue line sets it.
ADDRESS_VARIABLE = "ASSAY_NODE_ADDRESS"
# Any port: no packet is sent to find out which way one would go.
_ANY_PORT = 9


def node_name(environ: Mapping[str, str] | None = None) -> str:
    """The node's name: Slurm's, else the machine's own."""
    return (os.environ if environ is None else environ).get("SLURMD_NODENAME") or platform.node() or "localhost"


def node_address(environ: Mapping[str, str] | None = None) -> str:
    """The node's own address: as set, else by its name, else the one it reaches the submit host from, else loopback."""
    variables = os.environ if environ is None else environ
    if given := variables.get(ADDRESS_VARIABLE):
        return given
    # A name may also stand for the loopback, or for another machine.
    usable = (
        address
        for address in _candidates(variables)
        if not ipaddress.ip_address(address).is_loopback and _is_ours(address)
    )
    return next(usable, LOOPBACK)


def _candidates(environ: Mapping[str, str]) -> Iterator[str]:
    for name in (environ.get("SLURMD_NODENAME"), platform.node()):
        yield from _resolved(name) if name else ()
    if submit := environ.get("SLURM_SUBMIT_HOST"):
        for address in _resolved(submit):
            yield from _way_to(address)


def _resolved(name: str) -> list[str]:
    try:
        return [str(entry[4][0]) for entry in socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)]
    except OSError:
        return []


def _way_to(address: str) -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, _ANY_PORT))
            yield str(probe.getsockname()[0])
        except OSError:
            return


def _is_ours(address: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
