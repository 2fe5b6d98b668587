"""The address of a node: one that others reach, and never one of another machine."""

from __future__ import annotations

import socket

import pytest

from assay.run.services import discovery
from assay.run.services.discovery import node_address, node_name


def names(monkeypatch, **known: str) -> None:
    def resolve(name, *_):
        if name not in known:
            raise socket.gaierror(name)
        return [(None, None, None, "", (one, 0)) for one in known[name].split()]

    monkeypatch.setattr(discovery.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(discovery.platform, "node", lambda: "machine")


def ours(monkeypatch, *addresses: str) -> None:
    monkeypatch.setattr(discovery, "_is_ours", lambda one: one in addresses)


def test_what_is_set_wins():
    assert node_address({"ASSAY_NODE_ADDRESS": "10.1.1.1", "SLURMD_NODENAME": "n1"}) == "10.1.1.1"


def test_the_name_that_slurm_gives_comes_first(monkeypatch):
    names(monkeypatch, n1="127.0.1.1 10.0.0.7", machine="192.168.0.2")
    ours(monkeypatch, "10.0.0.7", "192.168.0.2", "127.0.1.1")
    assert node_address({"SLURMD_NODENAME": "n1"}) == "10.0.0.7", "the loopback is no address for others"
    assert node_address({}) == "192.168.0.2"


def test_a_name_of_another_machine_is_passed_over(monkeypatch):
    names(monkeypatch, n1="10.0.0.9", machine="192.168.0.2")
    ours(monkeypatch, "192.168.0.2")
    assert node_address({"SLURMD_NODENAME": "n1"}) == "192.168.0.2"


def test_without_any_it_is_the_loopback(monkeypatch):
    names(monkeypatch, machine="127.0.1.1", login="127.0.0.1")
    assert node_address({"SLURM_SUBMIT_HOST": "login"}) == "127.0.0.1"


@pytest.mark.parametrize(("environ", "name"), [({"SLURMD_NODENAME": "n1"}, "n1"), ({}, socket.gethostname())])
def test_the_name_of_a_node(environ, name):
    assert node_name(environ) == name


def test_only_an_address_of_this_machine_is_ours():
    assert discovery._is_ours("127.0.0.1")
    assert not discovery._is_ours("192.0.2.1")
