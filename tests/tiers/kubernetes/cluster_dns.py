"""The names of Services in pods: what a cluster's own DNS tells of them, told by dnsmasq.

kubelet sends pods to it. A Service with an address has one name; a headless one has a name for all of its pods, and one
for each pod with a hostname of its own.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event, Thread

import httpx
from tests.tiers.kubernetes.admin import Admin, Thing
from tests.tiers.kubernetes.real_node import CLUSTER_DOMAIN

_AGAIN_S = 0.5
_WATCH_S = 30


def records(services: Iterable[Thing], endpoints: Iterable[Thing]) -> list[tuple[str, str]]:
    """Address and name of everything that can be looked up."""
    reached: dict[tuple[str, str], list[Thing]] = defaultdict(list)
    for one in endpoints:
        own = (one["metadata"]["namespace"], one["metadata"]["name"])
        reached[own] += [address for subset in one.get("subsets") or () for address in subset.get("addresses") or ()]
    return [record for service in services for record in _of(service, reached)]


def _of(service: Thing, reached: dict[tuple[str, str], list[Thing]]) -> Iterator[tuple[str, str]]:
    namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
    full = f"{name}.{namespace}.svc.{CLUSTER_DOMAIN}"
    if service["spec"].get("clusterIP") not in (None, "", "None"):
        yield service["spec"]["clusterIP"], full
        return
    for address in reached[namespace, name]:
        yield address["ip"], full
        if hostname := address.get("hostname"):
            yield address["ip"], f"{hostname}.{full}"


class ClusterDns:
    """Keeps the file that dnsmasq reads true, for as long as the cluster lives."""

    def __init__(self, admin: Admin, hosts: Path, pid: int) -> None:
        self._admin, self._hosts, self._pid = admin, hosts, pid
        self._end = Event()
        self._thread = Thread(target=self._keep, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End with the next event, and do not wait for it."""
        self._end.set()

    def _keep(self) -> None:
        while not self._end.is_set():
            try:
                self._follow(self._write())
            except (httpx.HTTPError, AssertionError, OSError):
                self._end.wait(_AGAIN_S)  # the server may be away: tests take it down

    def _follow(self, version: str) -> None:
        with self._admin.watched("endpoints", version, _WATCH_S) as lines:
            for _ in lines:
                if self._end.is_set():
                    return
                self._write()

    def _write(self) -> str:
        page = self._admin.page("endpoints")
        lines = [f"{address} {name}\n" for address, name in records(self._admin.listed("services"), page["items"])]
        text = "".join(sorted(lines))
        if not self._hosts.exists() or self._hosts.read_text() != text:
            self._hosts.write_text(text)
            os.kill(self._pid, signal.SIGHUP)
        return page["metadata"]["resourceVersion"]
