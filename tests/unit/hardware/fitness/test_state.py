"""The whole state of a machine: plain JSON, reasons for what is missing, and nothing read twice."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from tests.unit.hardware.fitness.conftest import laptop

from assay.hardware.fitness import session as module
from assay.hardware.fitness.control import NAME
from assay.hardware.fitness.session import Fitness, fitness

CLOCK = {
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm",
}


def timed(integer_ms=100.0):
    whole = {"version": 1, "rounds_ms": {"integer": [integer_ms], "memory": [50.0]}, "absent": "", "cpu_s": 0.1}
    return lambda *_, **__: SimpleNamespace(returncode=0, stdout=json.dumps(whole), stderr="")


@pytest.fixture(autouse=True)
def _control_is_on(monkeypatch):
    monkeypatch.delenv("ASSAY_CONTROL", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_whole_machine_is_plain_json(tree, tmp_path, boards):
    meminfo = {"proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 900 kB\n"}
    root = tree(laptop() | CLOCK | meminfo)
    found = fitness("cuda:0", True, tmp_path, root=root, reader=boards(), run=timed())
    assert set(found) >= {"at", "device", "processor", "heat", "memory", "clock", "gpus", "control", "load", "absent"}
    assert json.loads(json.dumps(found)) == found
    assert found["clock"] == {"source": "tsc", "available": ["tsc", "hpet", "acpi_pm"]}
    assert found["control"]["throttle_events"] == 0
    assert found["absent"] == {"control history": "no history yet: 0 of 5 entries"}


def test_each_control_workload_is_added_to_the_history_and_held_against_it(tree, tmp_path):
    root = tree({})
    for _ in range(5):
        fitness("cpu", True, tmp_path, root=root, run=timed())
    found = fitness("cpu", True, tmp_path, root=root, run=timed(130.0))
    assert found["control"]["history"]["entries"] == 5
    assert found["control"]["history"]["integer"]["drift_pct"] == pytest.approx(30.0)
    assert found["control"]["history"]["memory"]["drift_pct"] == 0.0
    assert "control history" not in found["absent"]
    assert len((tmp_path / "fitness" / NAME).read_text().splitlines()) == 6


def never(*_, **__):
    raise AssertionError("the control workload was started")


def test_the_control_workload_is_left_out_where_nobody_wants_it(tree, tmp_path, monkeypatch):
    found = fitness("cpu", False, tmp_path, root=tree({}), run=never)
    assert "control" not in found
    assert found["absent"]["control"] == "no control workload was asked for"
    monkeypatch.setenv("ASSAY_CONTROL", "off")
    assert "ASSAY_CONTROL" in fitness("cpu", True, tmp_path, root=tree({}), run=never)["absent"]["control"]


def test_an_empty_container_has_a_reason_for_everything(tree):
    found = fitness("cpu", True, None, root=tree({}), run=lambda *_, **__: SimpleNamespace(returncode=9, stderr=""))
    assert set(found) <= {"at", "device", "load", "absent"}
    wanted = {"governor", "turbo", "throttle events", "temperature", "memory", "clock source", "control"}
    assert set(found["absent"]) == wanted
    assert all(found["absent"].values())


def test_boards_are_asked_only_where_a_job_may_use_them(tree, boards):
    def state(device, reader=None):
        return fitness(device, False, root=tree({}), reader=reader)

    class Never:
        absent = property(never)

    assert "gpus" not in state("cpu", Never())
    assert "gpus" not in state("coreml-gpu", Never())
    assert [one["index"] for one in state(None, boards({}, {}))["gpus"]] == [0, 1]
    assert [one["index"] for one in state("cuda:1", boards({}, {}))["gpus"]] == [1]
    assert state("cuda", boards(absent="no driver"))["absent"]["gpu"] == "no driver"


class Moved:
    """A clock that is moved by hand."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def utc(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now_s)


@pytest.fixture
def campaign():
    """A campaign whose states are numbered, with its clock."""
    clock, asked = Moved(), []

    def read(device, control, folder):
        asked.append((device, control))
        return {"number": len(asked)}

    return Fitness(None, read=read, clock=clock), clock, asked


def test_the_state_after_a_job_is_the_one_before_the_next(campaign):
    states, clock, asked = campaign
    assert states.before("cpu", True) == {"number": 1}
    assert states.after("cpu", True) == {"number": 2}
    clock.now_s = 4.9
    assert states.before("cpu", True) == {"number": 2, "taken": "after the job before"}
    assert states.after("cpu", True) == {"number": 3}
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("later_s", "device", "control"),
    [(5.1, "cpu", False), (1.0, "cuda", False), (1.0, None, False), (1.0, "cpu", True)],
)
def test_an_old_or_another_state_is_read_again(campaign, later_s, device, control):
    states, clock, asked = campaign
    states.after("cpu", False)
    clock.now_s = later_s
    assert states.before(device, control) == {"number": 2}
    assert asked[-1] == (device, control)


def test_a_state_with_the_control_workload_serves_a_job_without(campaign):
    states, _, asked = campaign
    states.after("cpu", True)
    states.before("cpu", False)
    assert len(asked) == 1


def test_this_machine_without_the_control_workload():
    found = fitness("cpu", False)
    assert found["memory"]["total_bytes"] > 0
    if sys.platform == "linux":
        assert found["clock"]["source"] in found["clock"]["available"] or "clock source" in found["absent"]


def test_reading_a_processor_loads_no_library_for_boards(monkeypatch, tree):
    monkeypatch.setattr(module, "nvml", never)
    fitness("cpu", False, root=tree({}))
