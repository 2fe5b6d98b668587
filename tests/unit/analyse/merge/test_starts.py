"""How far apart the machines of a load began, and what that says about it."""

from __future__ import annotations

import pytest
from tests.unit.analyse.merge.test_merge import EPOCH, Machine, S, job, merged, result_of

from assay.analyse.merge import PartResult, merge_point


def machine(host: int, begin_s: float = 0.0, *, offset=(-0.01, 0.02), met: bool = True, **more) -> Machine:
    made = Machine(host, begin_s, **more)
    begin = EPOCH + round(begin_s * S)
    made.facts["clock"] = {
        "window_begin_epoch_ns": begin,
        "window_end_epoch_ns": begin + round(made.length_s * S),
        "load_begin_epoch_ns": begin - S,
    }
    if met:
        bounds = None if host == 0 else list(offset)
        made.facts["barrier"] = {"waited_s": 0.5 + host, "clock_offset_from_host_0_s": bounds}
    return made


def delivered(*machines: Machine):
    parts = [PartResult(one.host, result_of(one), tuple(one.run(run) for run in range(3))) for one in machines]
    found, _ = merge_point(job(hosts=len(machines)), parts)
    return next(check for check in found.checks if check.name == "load delivered")


def test_the_skew_is_a_fact():
    starts = merged(machine(0), machine(1, 0.25), machine(2, 0.1)).result.facts["merged"]["starts"]
    assert starts["skew_s"] == pytest.approx(0.25)
    assert starts["after_first_s"] == pytest.approx({"0": 0.0, "1": 0.25, "2": 0.1})
    assert (starts["met"], starts["waited_s"]) == (True, 2.5)
    assert starts["clocks_apart_s_at_least"] == 0.0
    assert merged(Machine(0), Machine(1)).result.facts["merged"]["starts"] is None


def test_clients_that_began_together_say_so():
    check = delivered(machine(0), machine(1, 0.1))
    assert check.passed is True
    assert "the clients began within 0.1 s of each other" in check.detail


def test_clients_that_did_not_begin_together_are_found_out():
    check = delivered(machine(0), machine(1, 0.7))
    assert check.passed is False
    assert "began 0.7 s apart" in check.detail


@pytest.mark.parametrize("offset", [(0.8, 1.2), (-2.0, -0.8)])
def test_clocks_that_are_surely_apart_are_found_out(offset):
    check = delivered(machine(0), machine(1, offset=offset))
    assert check.passed is False
    assert "at least 0.8 s apart" in check.detail


def test_loads_that_hardly_overlap_are_found_out_where_they_were_to_meet():
    check = delivered(machine(0), machine(1, 1.0))
    assert check.passed is False
    assert "all machines loaded together for 3 s of 4 s" in check.detail
    assert delivered(machine(0, met=False), machine(1, 1.0, met=False)).passed is True
