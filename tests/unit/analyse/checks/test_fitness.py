"""Checks of the state of the machine: each passes on a good state, and fails or cannot tell on one built for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.analyse.checks import CHECKS, INVALIDATING, checks_of, verdict_of
from assay.analyse.checks.evidence import CheckEvidence
from assay.analyse.checks.table import ADVISORY, APPLIES, CONDITIONS, conditions_of, fit_of
from assay.analyse.judge import judge, metrics_of
from assay.analyse.records import Check
from assay.hardware.fitness.control import usual
from assay.run.records import MachineTelemetry

GIB = 2**30
GOOD = {
    "processor": {"governors": {"performance": 8}, "driver": "intel_pstate", "turbo": "off", "throttle_events": 3},
    "heat": {"sensors": 2, "nearest": {"sensor": "coretemp Package id 0", "celsius": 61.0, "headroom_c": 39.0}},
    "memory": {"total_bytes": 16 * GIB, "available_bytes": 12 * GIB, "swap_total_bytes": 0, "swap_used_bytes": 0,
               "swapped_pages": 100},
    "clock": {"source": "tsc", "available": ["tsc"]},
    "load": {"others_pct": 1.0, "steal_pct": 0.0},
    "control": {"version": 1, "integer_ms": 100.0, "memory_ms": 50.0, "throttle_events": 0, "history": {
        "entries": 40, "integer": {"median_ms": 100.0, "band_pct": 3.0, "drift_pct": 0.0},
        "memory": {"median_ms": 50.0, "band_pct": 6.0, "drift_pct": 1.0}}},
    "lock": {"mode": "wait", "devices": ["cpu"], "held": True, "waited_s": 0.0},
}  # fmt: skip
LOCK = GOOD["lock"]
NEW = ("device held alone", "control workload steady", "cool enough", "memory free", "clock source steady",
       "governor set for speed", "turbo off or steady")  # fmt: skip
BOARD = {"index": 0, "name": "NVIDIA H200", "temperature_c": 40.0, "slowdown_c": 87.0, "headroom_c": 47.0,
         "throttle": [], "foreign": []}  # fmt: skip


def changed(**parts):
    """A good state with keys of its parts replaced; None takes a part away."""
    state = {name: part for name, part in GOOD.items() if name != "lock"}
    for name, part in parts.items():
        state[name] = {**state.get(name, {}), **part} if isinstance(part, dict) else part
    return {name: part for name, part in state.items() if part is not None}


def around(before=None, after=None, lock=LOCK):
    """The environment of a job."""
    states = {"before": changed() if before is None else before, "after": changed() if after is None else after}
    return {**{when: {"fitness": state} for when, state in states.items()}, **({"lock": lock} if lock else {})}


@pytest.fixture
def ask(job, outcome):
    """Ask one check about a good run in some surroundings."""

    def _ask(name, environment, one=None, seen=None, device="cpu"):
        wanted = job(target={"model": "m.onnx", "device": device})
        made = one or outcome(0)
        made = replace(made, result=replace(made.result, seen=seen)) if seen else made
        checks = checks_of(wanted, [made.result], metrics_of(wanted, [made]), {0: made.samples}, environment)
        return next((check for check in checks if check.name == name), None)

    return _ask


@pytest.mark.parametrize("name", NEW)
def test_a_fit_machine_passes(ask, name):
    found = ask(name, around())
    assert found.passed is True, found
    assert "\n" not in found.detail
    assert not found.detail.endswith(".")


@pytest.mark.parametrize("name", NEW)
def test_without_a_state_the_question_is_left_out(ask, name):
    assert ask(name, {}) is None
    assert ask(name, {"before": {"load_average": [1.0]}, "after": None}) is None


def test_a_virtual_machine_is_not_requested_its_clock(ask):
    bare = changed(processor=None, clock=None)
    for name in ("governor set for speed", "turbo off or steady", "clock source steady"):
        assert ask(name, around(bare, bare)) is None


@pytest.mark.parametrize(
    ("processor", "passed", "words"),
    [
        ({"governors": {"performance": 8}}, True, "all 8 cores"),
        (
            {"governors": {"powersave": 8}, "preferences": {"balance_performance": 8}},
            False,
            "powersave on 8 of 8 cores",
        ),
        ({"governors": {"performance": 4, "schedutil": 4}}, False, "schedutil on 4 of 8 cores"),
        ({"governors": {"powersave": 8}, "preferences": {"performance": 8}}, True, "preference is performance"),
        (
            {"governors": {"powersave": 8}, "preferences": {"performance": 8}, "driver": "acpi-cpufreq"},
            False,
            "powersave",
        ),
        ({"governors": {"userspace": 8}, "fixed_mhz": 2400.0}, True, "fixed at 2,400 MHz"),
    ],
)
def test_governor(ask, processor, passed, words):
    found = ask("governor set for speed", around(after=changed(processor=processor)))
    assert found.passed is passed
    assert passed or found.detail.startswith("after the job ")
    assert words in CONDITIONS["governor set for speed"](changed(processor=processor))[1]


def test_turbo_that_held_is_steady(ask):
    on = {"turbo": "on"}

    def found(after_ms):
        after = changed(processor=on, control={"integer_ms": after_ms})
        return ask("turbo off or steady", around(changed(processor=on), after))

    assert found(103.0).passed is True
    assert "+3.0 %" in found(103.0).detail
    assert found(112.0).passed is False


def test_turbo_without_the_control_workload_is_not_believed(ask):
    on = changed(processor={"turbo": "on"}, control=None)
    found = ask("turbo off or steady", around(on, on))
    assert found.passed is False
    assert "heat" in found.detail
    calm = {"history": {"entries": 9, "integer": {"median_ms": 100.0, "band_pct": 2.0, "drift_pct": 1.0}}}
    assert CONDITIONS["turbo off or steady"](changed(processor={"turbo": "on"}, control=calm))[0] is True


@pytest.mark.parametrize(("room", "passed"), [(39.0, True), (10.0, True), (9.9, False), (-3.0, False)])
def test_cool_enough(ask, room, passed):
    warm = changed(heat={"nearest": {"sensor": "acpitz", "celsius": 90.0, "headroom_c": room}})
    found = ask("cool enough", around(after=warm))
    assert found.passed is passed
    assert passed or "acpitz is at 90 °C" in found.detail


def test_a_warm_gpu_counts_as_well(ask):
    found = ask("cool enough", around(after=changed(gpus=[{**BOARD, "temperature_c": 85.0, "headroom_c": 2.0}])))
    assert found.passed is False
    assert "GPU 0 is at 85 °C, only 2 °C below its limit" in found.detail


def test_without_a_sensor_or_a_limit_nobody_can_tell(ask):
    bare = changed(heat=None, absent={"temperature": "the system shows no temperature sensor"})
    found = ask("cool enough", around(bare, bare))
    assert (found.passed, found.detail) == (None, "the system shows no temperature sensor")
    unlimited = changed(heat={"nearest": {}, "hottest": {"sensor": "k10temp Tctl", "celsius": 54.1}})
    found = ask("cool enough", around(unlimited, unlimited))
    assert found.passed is None
    assert "54.1 °C" in found.detail


@pytest.mark.parametrize(
    ("memory", "passed", "words"),
    [
        ({"available_bytes": 2 * GIB}, True, "2.0 GiB of 16.0 GiB"),
        ({"available_bytes": GIB}, False, "at least 10 % is needed"),
        ({"available_bytes": GIB, "limit_bytes": 2 * GIB}, True, "that this container may use"),
        ({"swap_used_bytes": 4 * GIB}, True, "are free"),  # it lies there, and nothing moved
        ({"swap_used_bytes": 4 * GIB, "swapped_pages": 100 + 8192}, False, "32.0 MiB were swapped"),
        ({"swap_used_bytes": 4 * GIB, "swapped_pages": None}, False, "4.0 GiB are in swap"),
    ],
)
def test_memory_free(ask, memory, passed, words):
    found = ask("memory free", around(after=changed(memory=memory)))
    assert found.passed is passed
    told = CONDITIONS["memory free"](changed(memory=memory))[1]
    assert words in f"{found.detail}; {told}"


def test_swap_in_use_is_a_reason_not_to_begin():
    assert CONDITIONS["memory free"](changed(memory={"swap_used_bytes": 4 * GIB}))[0] is False


@pytest.mark.parametrize(
    ("source", "passed"), [("tsc", True), ("kvm-clock", True), ("hpet", False), ("acpi_pm", False), ("sundial", None)]
)
def test_clock_source(ask, source, passed):
    state = changed(clock={"source": source})
    found = ask("clock source steady", around(state, state))
    assert found.passed is passed
    assert source in found.detail


def test_a_clock_source_that_changed_is_not_steady(ask):
    found = ask("clock source steady", around(after=changed(clock={"source": "kvm-clock"})))
    assert found.passed is False
    assert "from tsc to kvm-clock" in found.detail


@pytest.mark.parametrize(
    ("after", "passed", "words"),
    [
        ({"integer_ms": 104.0}, True, "+4.0 %"),
        ({"integer_ms": 106.0}, False, "+6.0 %"),  # above 5 %, and above √2 × 3 %
        ({"memory_ms": 54.0}, True, "+8.0 %"),  # this machine's own band is √2 × 6 %
        ({"memory_ms": 55.0}, False, "+10 %"),
        ({"integer_ms": 94.0}, False, "-6.0 %"),
    ],
)
def test_the_control_workload_before_and_after(ask, after, passed, words):
    found = ask("control workload steady", around(after=changed(control=after)))
    assert found.passed is passed, found
    assert words in found.detail


def test_far_from_its_history(ask):
    history = {**GOOD["control"]["history"], "integer": {"median_ms": 77.0, "band_pct": 3.0, "drift_pct": 30.0}}
    slow = changed(control={"history": history})
    found = ask("control workload steady", around(slow, slow))
    assert found.passed is False
    assert (
        "before the job the control workload takes 30 % longer than usual here (integer loop, 40 entries)"
        in found.detail
    )
    fast = {**history, "integer": {**history["integer"], "drift_pct": -30.0}}
    assert "30 % less" in CONDITIONS["control workload steady"](changed(control={"history": fast}))[1]


@pytest.mark.parametrize(
    ("after_ms", "drift_pct", "passed"),
    [(100.0, 30.0, None), (100.0, 90.0, False), (134.0, 30.0, None), (136.0, 30.0, False)],
)
def test_a_history_that_is_too_wild_reports_nothing(ask, after_ms, drift_pct, passed):
    wild = {"history": {"entries": 9, "integer": {"median_ms": 100.0, "band_pct": 80.0, "drift_pct": drift_pct}}}
    after = changed(control={**wild, "integer_ms": after_ms})
    found = ask("control workload steady", around(changed(control=wild), after))
    assert found.passed is passed, found
    assert passed is False or "too much to judge" in found.detail


@pytest.mark.parametrize(("after_ms", "passed"), [(109.0, True), (111.0, False)])
def test_without_a_history_before_and_after_still_count(ask, after_ms, passed):
    young = {"history": {"entries": 2}}
    after = changed(control={**young, "integer_ms": after_ms})
    found = ask("control workload steady", around(changed(control=young), after))
    assert found.passed is passed


def test_without_a_control_workload_nobody_can_tell(ask):
    off = changed(control=None, absent={"control": "ASSAY_CONTROL is off"})
    found = ask("control workload steady", around(off, off))
    assert (found.passed, found.detail) == (None, "ASSAY_CONTROL is off")


@pytest.mark.parametrize(
    ("lock", "passed", "words"),
    [
        (LOCK, True, "cpu was locked"),
        ({**LOCK, "waited_s": 12.0}, True, "free after 12 s"),
        ({**LOCK, "mode": "try", "held": False, "others": [{"user": "alice", "purpose": "squeezenet", "pid": 123}]},
         False, "alice for squeezenet (pid 123)"),
        ({"mode": "off", "devices": ["cpu"], "held": None}, None, "not locked"),
        ({**LOCK, "held": False, "absent": {"cpu": "no room"}}, None, "could not be locked (cpu: no room)"),
        (None, None, "not locked"),
    ],
)  # fmt: skip
def test_device_held_alone(ask, lock, passed, words):
    found = ask("device held alone", around(lock=lock))
    assert found.passed is passed
    assert words in found.detail


def seen(**parts):
    return MachineTelemetry(window_ns=(0, 1), every_s=0.1, looks=9, **parts)


@pytest.mark.parametrize(
    ("device", "throttled", "passed"),
    [
        ("cuda", {"gpu:0": ("power cap",)}, False),
        ("cuda", {"gpu:0": ()}, True),
        ("cuda:1", {"gpu:0": ("power cap",), "gpu:1": ()}, True),
        ("cpu", {"gpu:0": ("power cap",)}, None),
        ("cpu", {"cpu": ("thermal",)}, False),
    ],
)
def test_throttling_that_was_in_telemetry(ask, outcome, device, throttled, passed):
    one = outcome(0)
    one = replace(one, result=replace(one.result, window=replace(one.result.window, throttle_events=None)))
    found = ask("clocks not throttled", {}, one=one, seen=seen(throttled=throttled), device=device)
    assert found.passed is passed, found
    assert passed is not False or f"({next(iter(next(iter(throttled.values()))))})" in found.detail
    assert passed is not False or "in run 1" in found.detail


def test_events_of_the_kernel_and_reasons_of_the_gpu_are_reported_together(ask, outcome):
    one = outcome(0)
    one = replace(one, result=replace(one.result, window=replace(one.result.window, throttle_events=2)))
    found = ask("clocks not throttled", {}, one=one, seen=seen(throttled={"gpu:0": ("power cap",)}), device="cuda")
    assert "2 thermal throttle events" in found.detail
    assert "power cap" in found.detail


def test_what_a_board_reported_before_and_after_counts_where_nothing_was_sampled_meanwhile(ask):
    hot = changed(gpus=[{**BOARD, "throttle": ["thermal, by hardware"]}])
    found = ask("clocks not throttled", around(after=hot), device="cuda")
    assert found.passed is False
    assert "after the job GPU 0" in found.detail
    looked = seen(throttled={"gpu:0": ()})
    assert ask("clocks not throttled", around(after=hot), seen=looked, device="cuda").passed is True


STRANGER = {"pid": 12, "name": "python", "user": "alice", "memory_bytes": 3 * GIB}


@pytest.mark.parametrize(
    ("foreign", "after", "passed", "words"),
    [
        ({"gpu:0": ("python (pid 12)",)}, BOARD, False, "python (pid 12)"),
        ({"gpu:0": ()}, BOARD, True, "in 1 run"),
        ({"gpu:1": ("python (pid 12)",)}, BOARD, True, "before and after"),
        ({}, {**BOARD, "foreign": [STRANGER]}, False, "python (pid 12, alice, 3.0 GiB)"),
        ({}, BOARD, True, "before and after"),
        ({}, None, None, "NVML is not there"),
    ],
)
def test_no_foreign_process_on_the_device(ask, foreign, after, passed, words):
    before = changed(gpus=[BOARD]) if after else changed(absent={"gpu": "NVML is not there"})
    state = changed(gpus=[after]) if after else before
    found = ask("no foreign process on the device", around(before, state), seen=seen(foreign=foreign), device="cuda:0")
    assert found.passed is passed
    assert words in found.detail


def test_the_processor_is_covered_by_the_quiet_machine(ask):
    found = ask("no foreign process on the device", around(), seen=seen(foreign={"gpu:0": ("x (pid 1)",)}))
    assert found.passed is None


# What failures lead to


@pytest.mark.parametrize("name", CHECKS)
def test_only_advice_leaves_a_result_valid(name):
    word = verdict_of([Check(other, other != name, "") for other in CHECKS])
    assert word == ("invalid" if name in INVALIDATING else "valid" if name in ADVISORY else "suspect")


def test_advice_never_hides_another_failure():
    assert set(CHECKS) >= ADVISORY
    assert not ADVISORY & INVALIDATING
    assert verdict_of([Check(name, False, "") for name in (*ADVISORY, "machine quiet")]) == "suspect"


def test_failed_advice_is_part_of_the_result(job, outcome):
    slow = changed(processor={"governors": {"powersave": 8}})
    found = judge(job(), [outcome(run) for run in range(5)], around(slow, slow))
    assert found.verdict == "valid"
    assert [one.name for one in found.checks if one.passed is False] == ["governor set for speed"]


def test_every_condition_is_a_check_of_results_too():
    assert set(CONDITIONS) <= set(CHECKS)
    assert set(APPLIES) <= set(CHECKS)


@pytest.mark.parametrize(
    ("changes", "fit"),
    [
        ({}, "fit"),
        ({"processor": {"governors": {"powersave": 8}}}, "fit with doubts"),
        ({"load": {"others_pct": 25.0}}, "not fit"),
        ({"load": {"steal_pct": 5.0}}, "not fit"),
        ({"processor": {"held_down": ["the supply voltage is low"]}}, "not fit"),
        ({"control": {"throttle_events": 2}}, "not fit"),
        ({"gpus": [{**BOARD, "foreign": [STRANGER]}]}, "not fit"),
    ],
)
def test_fit_or_not(changes, fit):
    checks = conditions_of({**changed(**changes), "lock": LOCK})
    assert fit_of(checks) == fit, checks
    assert [one.name for one in checks] == list(CONDITIONS)


@pytest.mark.parametrize("state", [{}, {"gpus": "x", "processor": [1], "control": {"integer_ms": "long"}, "lock": 3}])
def test_a_state_that_says_nothing_is_judged_without_a_guess(state):
    checks = conditions_of(state)
    assert {one.passed for one in checks} == {None}
    assert all(one.detail for one in checks)


# Calibration: how often a machine that did not move is said to have moved

NOISE = 0.02


def timed(values, past):
    """The state of one timing beside the history before it."""
    parts = {}
    for part, value in values.items():
        known = usual(past[part])
        parts[part] = {"drift_pct": 100 * known.drift(value), "band_pct": 100 * known.band}
    entries = len(next(iter(past.values())))
    return {"control": {**{f"{part}_ms": v for part, v in values.items()}, "history": {"entries": entries, **parts}}}


def share_failed(job, rounds, entries, shift=1.0):
    rng = np.random.default_rng(entries)
    failed = 0
    for _ in range(rounds):
        past = {part: list(100 * (1 + NOISE * rng.standard_normal(entries))) for part in ("integer", "memory")}
        states = []
        for scale in (1.0, shift):
            values = {part: 100 * scale * (1 + NOISE * rng.standard_normal()) for part in past}
            states.append(timed(values, past))
            for part, value in values.items():
                past[part].append(value)
        evidence = CheckEvidence(job, (), {}, {}, (), around(states[0], states[1]))
        failed += CHECKS["control workload steady"](evidence)[0] is False
    return failed / rounds


@pytest.mark.simulated
@pytest.mark.parametrize("entries", [5, 7, 10, 20, 50, 200])
def test_pure_noise_is_seldom_taken_for_a_machine_that_moved(job, entries):
    assert share_failed(job(), 1000, entries) <= 0.02


@pytest.mark.simulated
@pytest.mark.parametrize(("entries", "shift"), [(5, 1.6), (20, 1.25), (200, 1.2)])
def test_a_machine_that_really_slowed_down_is_seen(job, entries, shift):
    assert share_failed(job(), 300, entries, shift) >= 0.9
