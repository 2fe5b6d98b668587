"""What forbids a comparison, and what is only told beside it."""

from dataclasses import replace

import pytest

from assay.analyse.compare.comparability import MethodChange, changed_between, not_comparable, warnings
from assay.analyse.records import Check
from assay.run.records import DeviceProof

MACHINE = {"name": "bench-1", "cpu": "EPYC 7763", "cores": 8}
SAME = (1.0, 1.001, 0.999)


def on(machine: dict, **more) -> dict:
    return {"environment": {"machine": {**MACHINE, **machine}, **more}}


def with_device(job, used: str):
    proof = DeviceProof("auto", used, {}, "the session")
    return replace(job, runs=tuple(replace(run, device=proof) for run in job.runs))


def test_like_results_have_nothing_against_them(result) -> None:
    assert not_comparable(result(*SAME), result(*SAME)) == ()
    assert warnings(result(*SAME), result(*SAME)) == ()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (on({"cpu": "M4"}), "different machine: processor EPYC 7763 against processor M4"),
        (on({"cores": 16}), "different machine: cores 8 against cores 16"),
        (
            on({}, kubernetes={"limit_cpus": 2}),
            "different machine: limit of processors none against limit of processors 2",
        ),
        (on({"usable_cores": 8}), None),
        (
            on({"usable_cores": 2}),
            "different machine: limit of processors none against limit of processors 2",
        ),
        (on({"os": "macOS"}), None),  # the first does not tell its system
    ],
)
def test_another_kind_of_machine_forbids_it(result, changes, sentence) -> None:
    assert not_comparable(result(*SAME), result(*SAME, **changes)) == ((sentence,) if sentence else ())


def test_memory_is_compared_by_its_class(result) -> None:
    first, second, larger = (
        result(*SAME, **on({"memory_bytes": size})) for size in (16_642_998_272, 16_700_000_000, 33_300_000_000)
    )
    assert not_comparable(first, second) == ()
    assert "memory (GiB)" in not_comparable(first, larger)[0]


def test_gpus_count_for_what_did_not_run_on_the_processor_alone(result) -> None:
    bare, boards = result(*SAME), result(*SAME, **on({"gpu": "H200", "gpus": 8}))
    assert not_comparable(bare, boards) == ()
    assert not_comparable(with_device(bare, "cuda"), with_device(boards, "cuda")) == (
        "different machine: gpu none, gpus none against gpu H200, gpus 8",
    )


def test_another_device_forbids_it(result) -> None:
    found = not_comparable(result(*SAME), with_device(result(*SAME), "cuda"))
    assert found == ("different device: cpu against cuda",)


def test_other_data_forbids_it(result) -> None:
    def fed(digest: str):
        job = result(*SAME)
        return replace(job, runs=tuple(replace(run, facts={"workload": {"digest": digest}}) for run in job.runs))

    assert not_comparable(fed("a" * 64), fed("b" * 64)) == (f"different data digest: {'a' * 12} against {'b' * 12}",)


def test_prices_and_needs_make_no_difference(result) -> None:
    other = result(*SAME, prices={"*": {"per_hour": 2.0}}, needs={"cpus": 1})
    assert not_comparable(result(*SAME), other) == ()


@pytest.mark.parametrize(
    ("left", "right", "sentence"),
    [
        (on({}), on({"name": "bench-2"}), "machine is bench-1 against bench-2"),
        (on({"kernel": "6.1"}), on({"kernel": "6.8"}), "kernel is 6.1 against 6.8"),
        (on({"driver": "550"}), on({"driver": "570"}), "driver is 550 against 570"),
        (on({"os_version": "Debian 12"}), on({"os_version": "Debian 13"}), "system is Debian 12 against Debian 13"),
        (on({}, governor="performance"), on({}, governor="powersave"), "governor is performance against powersave"),
        (on({}, packages={"onnxruntime": "1.20"}), on({}, packages={"onnxruntime": "1.21"}),
         "onnxruntime is 1.20 against 1.21"),
        (on({}, packages={"torch": "2.6"}), on({}, packages={"numpy": "2.1"}), "numpy is not set against 2.1"),
        (on({}, packages={"assay": "0.1.0"}), on({}, packages={"assay": "0.2.0"}), "assay is 0.1.0 against 0.2.0"),
        ({"measure": {"runs": 3}}, {"measure": {"runs": 9}}, "measure.runs is 3 against 9"),
        ({}, {"measure": {"runs": 9}}, "measure.runs is not set against 9"),
        (on({}), {"environment": {}}, "the machine of the second result is not known"),
        (on({}), on({}, git={"commit": "a", "changed": True}),
         "the second result was measured with changes that are not committed"),
    ],
)  # fmt: skip
def test_what_may_explain_a_change_is_reported_and_forbids_nothing(result, left, right, sentence) -> None:
    a, b = result(*SAME, **left), result(*SAME, **right)
    assert sentence in warnings(a, b)
    assert not_comparable(a, b) == ()


def test_a_suspect_result_is_reported_with_its_reason(result) -> None:
    doubted = replace(result(*SAME), verdict="suspect", checks=(Check("machine quiet", False, "others took 14 %"),))
    assert warnings(result(*SAME), doubted) == ("the second result is suspect: machine quiet: others took 14 %",)
    both = replace(doubted, checks=doubted.checks * 3)
    assert warnings(both, result(*SAME))[0].endswith("others took 14 % (2 more checks failed)")
    assert warnings(doubted, result(*SAME), ("the baseline", "the new"))[0].startswith("the baseline result is suspect")


def controlled(took: float, version: int = 1) -> dict:
    return on({}, before={"fitness": {"control": {"version": version, "integer_ms": took, "memory_ms": 7.0}}})


def test_a_machine_that_itself_became_slower_is_reported(result) -> None:
    found = warnings(result(*SAME, **controlled(10.0)), result(*SAME, **controlled(11.0)))
    assert found == (
        "the machine itself moved: the control workload took +10 % around the second result (integer loop)",
    )
    assert warnings(result(*SAME, **controlled(10.0)), result(*SAME, **controlled(10.4))) == ()
    assert warnings(result(*SAME, **controlled(10.0)), result(*SAME, **controlled(20.0, version=2))) == ()


CHANGES = (MethodChange("0.3.0", "latency counts from the due time"), MethodChange("1.0", "memory is the tree's"))


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ("0.1.0", "0.2.9", 0), ("0.2.0", "0.3.0", 1), ("0.3.0", "0.2.0", 1), ("0.3.0", "0.9.1", 0),
        ("0.1.0", "1.0.0", 2), ("0.3.0.dev1", "0.3.0rc2+local", 0), ("", "1.0.0", 0), ("unknown", "1.0.0", 0),
    ],
)  # fmt: skip
def test_a_release_that_measures_in_another_way_forbids_it(a, b, found) -> None:
    told = changed_between(a, b, CHANGES)
    assert len(told) == found
    assert all("measures in another way: " in sentence for sentence in told)


def test_the_method_decides_between_results_of_two_versions(result, monkeypatch) -> None:
    from assay.analyse.compare import comparability as likeness

    monkeypatch.setattr(likeness, "changed_between", lambda a, b: changed_between(a, b, CHANGES))
    a, b = (result(*SAME, **on({}, packages={"assay": version})) for version in ("0.2.0", "0.3.1"))
    assert not_comparable(a, b) == ("assay 0.3.0 measures in another way: latency counts from the due time",)
