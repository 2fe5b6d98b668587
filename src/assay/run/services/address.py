"""The address of this node: the one under which the other nodes of the cluster reach what listens here."""

from __future__ import annotations

import ipaddress
import os
import platform
import socket
from collections.abc import Iterable, Iterator, Mapping

from assay.spec.addresses import LOOPBACK

# For sites where a node has several networks: the engine or a prologue line sets it.
VARIABLE = "ASSAY_NODE_ADDRESS"
# Any port: no packet is sent to find out which way one would go.
_ANY_PORT = 9


def node_name(environ: Mapping[str, str] | None = None) -> str:
    """The node's name: Slurm's, else the machine's own."""
    known = os.environ if environ is None else environ
    return known.get("SLURMD_NODENAME") or platform.node() or "localhost"


def node_address(environ: Mapping[str, str] | None = None) -> str:
    """The node's own address: as set, else by its name, else the one it reaches the submit host from, else loopback."""
    known = os.environ if environ is None else environ
    if given := known.get(VARIABLE):
        return given
    return next(_usable(_candidates(known)), LOOPBACK)


def _candidates(environ: Mapping[str, str]) -> Iterator[str]:
    for name in (environ.get("SLURMD_NODENAME"), platform.node()):
        yield from _resolved(name) if name else ()
    if submit := environ.get("SLURM_SUBMIT_HOST"):
        for address in _resolved(submit):
            yield from _way_to(address)


def _usable(addresses: Iterable[str]) -> Iterator[str]:
    """Those of this machine that others can reach: a name may also stand for the loopback, or for another machine."""
    for address in addresses:
        if not ipaddress.ip_address(address).is_loopback and _is_ours(address):
            yield address


def _resolved(name: str) -> list[str]:
    try:
        return [str(one[4][0]) for one in socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)]
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
