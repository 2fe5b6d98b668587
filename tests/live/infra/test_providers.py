"""Options that have no meaning somewhere are refused there, never dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import UsageError
from assay.infra.providers import create, refuse_meaningless
from assay.infra.record import InfraOptions

SAID = {
    "--with": {"with_": "processes"},
    "--host": {"host": "0.0.0.0"},
    "--port": {"port": 1},
    "--without": {"without": ("redis",)},
    "--allow": {"allow": ("command",)},
    "--no-fetch": {"fetch": False},
    "--namespace": {"namespace": "x"},
    "--context": {"context": "x"},
    "--values": {"values": (Path("x"),)},
    "--set": {"settings": ("a=b",)},
    "--within": {"within_s": 1.0},
}
MEANS = {
    "processes": {"--with", "--host", "--port", "--without", "--allow", "--no-fetch", "--within"},
    "compose": {"--with", "--host", "--port", "--allow", "--within"},
    "kubernetes": {"--namespace", "--context", "--values", "--set", "--within"},
    "aws": {"--values", "--set"},
}


@pytest.mark.parametrize("where", MEANS)
@pytest.mark.parametrize("flag", SAID)
def test_an_option_works_where_it_means_something_and_is_refused_elsewhere(where, flag):
    options = InfraOptions(**SAID[flag])
    if flag in MEANS[where]:
        refuse_meaningless(options, where)
        return
    with pytest.raises(UsageError) as wrong:
        refuse_meaningless(options, where)
    assert (wrong.value.problem.code, wrong.value.problem.at) == ("option", flag)


def test_every_option_is_checked():
    known = {name for given in SAID.values() for name in given} | {"name", "yes"}
    assert known == set(InfraOptions.__slots__)


def test_an_agent_is_allowed_only_what_is_known(place, told):
    with pytest.raises(UsageError, match="--allow everything"):
        create("local", InfraOptions(allow=("everything",)), told.append)
    assert not place.exists()


def test_parts_that_cannot_be_left_out_are_reported(place, told):
    with pytest.raises(UsageError) as wrong:
        create("local", InfraOptions(without=("server",)), told.append)
    assert wrong.value.problem.at == "--without"
    assert not place.exists()


@pytest.mark.parametrize("with_", ["processes", "podman"])
@pytest.mark.parametrize("host", ["nobody.invalid", "192.0.2.1"])
def test_an_address_that_is_not_of_this_machine_is_reported(place, told, host, with_):
    with pytest.raises(UsageError, match=f"nothing can listen on '{host}' here") as caught:
        create("local", InfraOptions(host=host, with_=with_), told)
    assert caught.value.problem.at == "--host"
