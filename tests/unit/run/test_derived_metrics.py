"""Metrics made of others: energy per item, per joule, per price; and why one cannot be made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.run.derived_metrics import derived, gpus_used, labels_of
from assay.run.records import Energy, MachineTelemetry
from assay.spec.benchmark import Definition

S = 1_000_000_000
CPU = {"target": {"model": "m.onnx"}}
GPU = {"target": {"model": "m.onnx", "device": "cuda"}}
PACKAGE = Energy("RAPL counter of package-0", "package", 100.0, 2.0, "counter", idle_w=20.0)
DRAM = Energy("RAPL counter of package-0-dram", "dram", 10.0, 2.0, "counter", idle_w=3.0)
PSYS = Energy("RAPL counter of psys", "system", 150.0, 2.0, "counter")
BOARD = Energy("NVML energy counter of GPU 0", "gpu", 800.0, 2.0, "counter", idle_w=70.0)
SAMPLED = Energy("NVML power of GPU 0", "gpu", 800.0, 2.0, "sampled")


def definition(raw, **more) -> Definition:
    return Definition.model_validate({**raw, **more})


def seen(*energy: Energy, absent=None, **statistics: dict[str, float]) -> MachineTelemetry:
    told = {name.replace("gpu", "gpu:", 1).replace("__", "."): one for name, one in statistics.items()}
    return MachineTelemetry((0, 2 * S), 0.1, 20, statistics=told, energy=energy, absent=absent or {})


def flat(value: float) -> dict[str, float]:
    return {"mean": value, "min": value, "max": value}


def made(metrics, look, raw=CPU, labels=None, machine="box", counted=None, **more):
    return derived(metrics, look, definition(raw, **more), labels or {}, machine, counted=counted)


def test_package_and_memory_add_up_and_the_whole_system_is_left_out():
    metrics, absent, facts = made({"throughput_per_s": 10.0}, seen(PACKAGE, DRAM, PSYS))
    assert metrics == {
        "energy_j": 110.0,
        "power_w": 55.0,
        "energy_per_item_j": pytest.approx(5.5),
        "items_per_j": pytest.approx(10 / 55),
    }
    assert absent == {}
    assert facts["energy"] == {
        "grade": "counter",
        "joules": 110.0,
        "low_j": None,
        "high_j": None,
        "seconds": 2.0,
        "watts": 55.0,
        "idle_w": 23.0,
        "sources": [PACKAGE.source, DRAM.source],
    }


def test_the_whole_system_alone_where_nothing_else_is_reported():
    metrics, _, facts = made({}, seen(PSYS))
    assert metrics["energy_j"] == 150.0
    assert facts["energy"]["idle_w"] is None


def test_a_job_on_a_gpu_has_its_energy_and_that_of_the_processor():
    look = seen(
        PACKAGE,
        BOARD,
        gpu0__job_processes=flat(1),
        gpu0__gpu_util_pct=flat(80),
        gpu1__job_processes=flat(0),
        gpu1__gpu_util_pct=flat(20),
    )
    metrics, _, _ = made({"output_tokens_per_s": 450.0, "throughput_per_s": 4.5}, look, GPU)
    assert metrics["energy_j"] == 900.0
    assert metrics["gpu_util_pct"] == 80
    assert metrics["energy_per_token_j"] == pytest.approx(1.0)
    assert metrics["tokens_per_j"] == pytest.approx(1.0)


def test_a_job_on_the_processor_does_not_pay_for_a_gpu_that_it_did_not_use():
    look = seen(PACKAGE, BOARD, gpu0__job_processes=flat(0), gpu0__gpu_util_pct=flat(0))
    assert made({}, look)[0]["energy_j"] == 100.0


def test_grades_never_mix():
    look = seen(PACKAGE, SAMPLED, gpu0__job_processes=flat(1))
    metrics, absent, facts = made({"throughput_per_s": 10.0}, look, GPU)
    assert "energy_j" not in metrics
    assert "power_w" not in metrics
    assert "different grades" in absent["energy_j"]
    assert "NVML power of GPU 0: sampled" in absent["energy_j"]
    assert "energy" not in facts


def test_a_gpu_whose_energy_is_not_known_leaves_no_energy_at_all():
    look = seen(PACKAGE, gpu0__job_processes=flat(1), absent={"energy:gpu:0": "the board has no energy counter"})
    metrics, absent, _ = made({"throughput_per_s": 10.0}, look, GPU)
    assert metrics == {}
    assert absent["energy_j"] == "the job used gpu:0, whose energy is not known: the board has no energy counter"


def test_a_machine_without_counters_gives_the_reason_and_no_watt():
    metrics, absent, facts = made(
        {"throughput_per_s": 10.0}, seen(absent={"rapl": "not shown", "machine.cpu_mhz": "x"})
    )
    assert metrics == {}
    assert absent == {"energy_j": "not shown"}
    assert facts == {}


def test_a_gpu_job_without_a_driver_gives_its_reason():
    _, absent, _ = made({}, seen(PACKAGE, absent={"gpu": "NVML sees no GPU"}), GPU)
    assert absent == {"energy_j": "NVML sees no GPU", "gpu_util_pct": "NVML sees no GPU"}


def test_without_throughput_there_is_nothing_per_item():
    metrics, absent, _ = made({}, seen(PACKAGE))
    assert metrics.keys() == {"energy_j", "power_w"}
    assert absent == dict.fromkeys(("energy_per_item_j", "items_per_j"), "the target reports no throughput_per_s")


def test_a_throughput_of_zero_is_reported():
    _, absent, _ = made({"throughput_per_s": 0.0}, seen(PACKAGE))
    assert absent["energy_per_item_j"] == "throughput_per_s is 0"


def test_readings_of_part_of_the_window_report_power_and_no_energy():
    part = Energy("RAPL counter of package-0", "package", 60.0, 1.2, "counter")
    metrics, absent, _ = made({"throughput_per_s": 10.0}, seen(part))
    assert metrics["power_w"] == pytest.approx(50)
    assert metrics["energy_per_item_j"] == pytest.approx(5)
    assert absent["energy_j"] == "the readings cover 1.2 s of the 2 s that were measured"


def test_what_the_target_measured_stands():
    metrics, _, _ = made({"power_w": 1.0, "throughput_per_s": 10.0}, seen(PACKAGE))
    assert "power_w" not in metrics
    assert metrics["energy_j"] == 100.0


def test_an_endpoint_of_another_else_has_no_energy_of_ours():
    raw = {"target": {"endpoint": "http://127.0.0.1:1", "api": "http", "path": "/"}}
    metrics, absent, _ = made({"throughput_per_s": 5.0}, seen(PACKAGE), raw)
    assert metrics == {}
    assert "not started by this benchmark" in absent["energy_j"]


def test_nothing_was_sampled():
    assert made({"throughput_per_s": 5.0}, None) == ({}, {}, {})


@pytest.mark.parametrize(
    ("statistics", "raw", "used"),
    [
        ({"gpu0__job_processes": flat(0), "gpu1__job_processes": flat(2)}, CPU, ("gpu:1",)),
        (
            {"gpu0__gpu_util_pct": flat(0), "gpu1__gpu_util_pct": flat(9)},
            GPU,
            ("gpu:1",),
        ),  # numbers of another container
        ({"gpu0__gpu_util_pct": flat(0)}, GPU, ("gpu:0",)),
        ({"gpu0__gpu_util_pct": flat(50)}, CPU, ()),
        ({}, GPU, ()),
    ],
)
def test_which_boards_a_job_used(statistics, raw, used):
    assert gpus_used(seen(**statistics), definition(raw)) == used


PRICES = {
    "box": {"per_hour": 2.0, "currency": "EUR", "date": "2026-11-01"},
    "gpu=h200": {"per_hour": 4.0},
    "*": {"per_hour": 1.0},
}


@pytest.mark.parametrize(
    ("machine", "labels", "matched", "items"),
    [
        ("box", {"gpu": "h200"}, "box", 18_000),
        ("other", {"name": "box"}, "box", 18_000),
        ("other", {"site": "x", "gpu": "h200"}, "gpu=h200", 9_000),
        ("other", {"gpu": "a100"}, "*", 36_000),
    ],
)
def test_the_price_of_this_machine(machine, labels, matched, items):
    metrics, absent, facts = made({"throughput_per_s": 10.0}, None, labels=labels, machine=machine, prices=PRICES)
    assert metrics == {"items_per_cost": pytest.approx(items)}
    assert absent == {}
    price = facts["price"]
    assert (price["matched"], price["grade"]) == (matched, "estimated")
    if matched == "box":
        assert (price["per_hour"], price["currency"], price["date"]) == (2.0, "EUR", "2026-11-01")


def test_tokens_have_their_price_too():
    metrics, _, _ = made({"throughput_per_s": 1.0, "output_tokens_per_s": 100.0}, None, prices={"*": {"per_hour": 3.6}})
    assert metrics == {"items_per_cost": pytest.approx(1000), "tokens_per_cost": pytest.approx(100_000)}


def test_a_machine_without_a_price_says_which_there_are():
    _, absent, facts = made(
        {"throughput_per_s": 1.0}, None, labels={"gpu": "l4"}, prices={"gpu=h200": {"per_hour": 4.0}}
    )
    assert absent["items_per_cost"] == "no price for this machine (box, gpu=l4); prices has gpu=h200"
    assert facts == {}


def test_a_price_without_throughput():
    metrics, absent, facts = made({}, None, prices={"*": {"per_hour": 1.0}})
    assert metrics == {}
    assert absent == {"items_per_cost": "the target reports no throughput_per_s"}
    assert facts["price"]["per_hour"] == 1.0


def test_labels_come_from_the_environment():
    assert labels_of({"ASSAY_LABELS": "gpu=h200, site = x,,broken"}) == {"gpu": "h200", "site": "x", "broken": ""}
    assert labels_of({}) == {}


def test_energy_of_an_item_is_that_of_the_window_over_the_items_in_it():
    """Throughput leaves out the pauses between calls; the energy of the window holds them."""
    metrics, _, _ = made(
        {"throughput_per_s": 10.0, "output_tokens_per_s": 100.0},
        seen(PACKAGE, DRAM),
        counted={"items": 19, "output_tokens": 187},
    )
    assert metrics["energy_per_item_j"] == metrics["energy_j"] / 19
    assert metrics["items_per_j"] == 19 / metrics["energy_j"]
    assert metrics["energy_per_token_j"] == metrics["energy_j"] / 187
    assert metrics["tokens_per_j"] == 187 / metrics["energy_j"]


def test_energy_of_an_item_where_readings_cover_a_part_of_the_window():
    part = Energy("RAPL counter of package-0", "package", 50.0, 1.0, "counter")
    metrics, absent, _ = made({"throughput_per_s": 10.0}, seen(part), counted={"items": 19})
    assert "energy_j" in absent
    assert metrics["energy_per_item_j"] == pytest.approx(50.0 * 2 / 19), "the mean power for the whole window"


def test_readings_that_end_a_little_before_the_window_do_not_make_items_cheap():
    part = Energy("RAPL counter of package-0", "package", 96.0, 1.92, "counter")
    metrics, _, _ = made({"throughput_per_s": 10.0}, seen(part), counted={"items": 20})
    assert metrics["energy_j"] == 96.0, "what was read"
    assert metrics["energy_per_item_j"] == pytest.approx(5.0), "50 W for 2 s make 20 items"


def test_what_the_readings_leave_open_adds_up():
    rough = replace(PACKAGE, low_j=90.0, high_j=115.0)
    _, _, facts = made({"throughput_per_s": 10.0}, seen(rough, replace(DRAM, low_j=9.0, high_j=12.0)))
    assert (facts["energy"]["low_j"], facts["energy"]["high_j"]) == (99.0, 127.0)
    _, _, facts = made({"throughput_per_s": 10.0}, seen(rough, DRAM))
    assert (facts["energy"]["low_j"], facts["energy"]["high_j"]) == (None, None)


def test_no_item_in_the_window_has_no_energy_of_an_item():
    metrics, absent, _ = made({"throughput_per_s": 0.0}, seen(PACKAGE), counted={"items": 0})
    assert "energy_per_item_j" not in metrics
    assert absent["energy_per_item_j"] == "throughput_per_s is 0"
