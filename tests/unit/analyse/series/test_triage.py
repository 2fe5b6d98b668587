"""Histories with one known cause each: the triage must name it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.histories import nights, result

from assay.analyse.series import detect, series_of
from assay.analyse.series.causes import triage
from assay.analyse.series.identity import context
from assay.analyse.series.records import Unconfirmed

pytestmark = pytest.mark.simulated

COUNT, AT = 60, 40


def commit(number, every=1):
    return f"{number // every:040x}"


def explained(around, *, size=0.06, better="lower", spread=0.01, seed=1, count=COUNT, at=AT):
    """The triage of the one step of a history."""
    results = [one for one, _ in nights(count, at, size, around, spread=spread, seed=seed)]
    values = [next(iter(one.metrics.values())).median if one.metrics else np.nan for one in results]
    report = detect(series_of(values, better))
    assert len(report.findings) == 1, report.findings
    (finding,) = report.findings
    contexts = [context(one) for one in results]
    return finding, triage(finding, contexts[: finding.last_good + 1][-30:], contexts[finding.first_bad :][:30])


def after(number):
    return number >= AT


HISTORIES = {
    "a driver, with new code every night": (
        lambda n: {"commit": commit(n), "driver": "560.35" if after(n) else "550.54"}, "environment", "driver"),
    "a kernel": (lambda n: {"commit": commit(n, 3), "kernel": "6.6" if after(n) else "6.1"}, "environment", "kernel"),
    "a package": (
        lambda n: {"commit": commit(n, 2), "packages": {"onnxruntime": "1.21" if after(n) else "1.20"}},
        "environment", "package onnxruntime"),
    "a package that was not there": (
        lambda n: {"packages": {"onnxruntime": "1.21"} if after(n) else {}}, "environment", "package onnxruntime"),
    "an image": (
        lambda n: {"definition": {"services": {"llm": {"image": f"x:{1 + after(n)}", "command": "serve"}}}},
        "environment", "image"),
    "another host": (lambda n: {"commit": commit(n), "host": "b" if after(n) else "a"}, "machine", "machine"),
    "one commit": (lambda n: {"commit": commit(after(n))}, "code", "commit"),
    "one of many commits": (lambda n: {"commit": commit(n)}, "code", "commit"),
    "a commit every third night": (lambda n: {"commit": commit(n + 2, 3)}, "code", "commit"),
    "a model": (lambda n: {"commit": commit(n), "model": "b" * 64 if after(n) else "a" * 64}, "data or model", "model"),
    "the files of a program": (
        lambda n: {"definition": {"target": {"command": "./run"}}, "files": after(n), "model": None}, "code", "files"),
    "a data file": (lambda n: {"files": after(n)}, "data or model", "files"),
    "a setting of the file": (
        lambda n: {"commit": commit(n), "measure": {"warmup": 20.0} if after(n) else {}}, "method", "measure.warmup"),
    "a new assay": (lambda n: {"commit": commit(n), "assay": "0.2" if after(n) else "0.1"}, "method", "assay"),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_the_one_thing_that_changed_is_the_cause(name):
    around, cause, factor = HISTORIES[name]
    finding, found = explained(around)
    assert abs(finding.index - AT) <= 1
    assert found.cause == cause, found
    assert factor in [one.name for one in found.differs]
    assert factor in found.because[0]


def test_the_difference_has_both_values_and_says_how_often_it_changes_anyway():
    _, found = explained(lambda n: {"commit": commit(n), "driver": "560.35" if after(n) else "550.54"})
    by_name = {one.name: one for one in found.differs}
    assert (by_name["driver"].before, by_name["driver"].after, by_name["driver"].elsewhere) == ("550.54", "560.35", 0)
    assert by_name["commit"].elsewhere > 30
    assert set(by_name) == {"driver", "commit"}


def test_a_machine_that_became_slower_is_reported_by_its_control_workload():
    _, found = explained(lambda n: {"commit": commit(after(n)), "control": 0.05 * after(n)})
    assert found.cause == "machine"
    assert "control workload moved too (+5" in found.because[0]
    assert "commit changed too" in found.because[-1]
    finding, found = explained(lambda n: {"control": -0.05 * after(n)}, size=-0.06)
    assert (finding.answer, found.cause) == ("better", "machine")


def test_a_control_workload_that_stays_speaks_against_the_machine():
    _, found = explained(lambda n: {"commit": commit(after(n))})
    assert found.cause == "code"
    assert any("control workload did not move" in reason for reason in found.because)


@pytest.mark.parametrize("control", [-0.05, 0.011])
def test_a_control_workload_that_goes_the_other_way_or_hardly_moves_explains_nothing(control):
    _, found = explained(lambda n: {"commit": commit(after(n)), "control": control * after(n)}, size=0.1)
    assert found.cause == "code"


def test_a_kernel_that_slows_everything_down_is_the_environment():
    _, found = explained(lambda n: {"kernel": "6.6" if after(n) else "6.1", "control": 0.05 * after(n)})
    assert found.cause == "environment"
    assert "kernel" in found.because[0]


@pytest.mark.parametrize("around", [{"throttled": True}, {"doubts": ["machine quiet"]}])
def test_throttling_and_busy_neighbours_are_the_machine(around):
    _, found = explained(lambda n: {"commit": commit(n), **(around if after(n) else {})})
    assert found.cause == "machine"
    _, over = explained(lambda n: {"commit": commit(n), **({} if after(n) else around)}, size=-0.06)
    assert over.cause == "machine"


def test_two_things_that_changed_together_are_both_named_and_none_is_blamed():
    _, found = explained(lambda n: {"commit": commit(after(n)), "driver": "560" if after(n) else "550"})
    assert found.cause == "unknown"
    assert any("environment and code changed together" in reason for reason in found.because)


def test_a_host_that_changes_all_the_time_explains_nothing():
    _, found = explained(lambda n: {"host": f"pod-{n}"})
    assert found.cause == "unknown"
    _, found = explained(lambda n: {"host": f"pod-{n}", "driver": "560" if after(n) else "550"})
    assert found.cause == "environment"


def test_a_value_that_was_there_before_while_all_was_well_explains_nothing():
    _, found = explained(lambda n: {"host": "b" if after(n) or n in (15, 16, 17) else "a", "commit": commit(n)})
    assert found.cause == "code"


def test_a_value_that_came_back_without_effect_explains_nothing():
    around = lambda n: {"driver": "550" if n < AT or n >= 50 else "560", "commit": commit(n)}  # noqa: E731
    assert explained(around)[1].cause == "code"


def test_nothing_recorded_differs():
    finding, found = explained(lambda n: {})
    assert (found.cause, found.differs) == ("unknown", ())
    assert "nothing that is recorded differs" in found.because[0]
    assert finding.chance < 0.003


def test_failed_nights_between_do_not_hide_the_cause():
    """The change came while nothing could be measured: whatever differs over the gap may be it."""
    rng = np.random.default_rng(3)
    results = []
    for n in range(COUNT):
        value = None if AT - 4 <= n < AT else 10 * (1.06 if after(n) else 1.0) * (1 + 0.01 * rng.standard_normal())
        results.append(result(value, n, driver="560" if n >= AT - 2 else "550"))
    values = [one.metrics["latency_ms"].median if one.metrics else np.nan for one in results]
    (finding,) = detect(series_of(values, "lower")).findings
    contexts = [context(one) for one in results]
    found = triage(finding, contexts[: finding.last_good + 1][-30:], contexts[finding.first_bad :][:30])
    assert (finding.last_good, finding.first_bad) == (AT - 5, AT)
    assert found.cause == "environment"


def test_a_step_whose_place_is_not_sharp_finds_a_change_nearby():
    """Noise as large as the step: the place is off by a few nights, and the driver is still found."""
    causes = []
    for seed in range(12):
        results = [
            one
            for one, _ in nights(
                80, 40, 0.03, lambda n: {"driver": "560" if n >= 40 else "550"}, spread=0.015, seed=seed
            )
        ]
        values = [one.metrics["latency_ms"].median for one in results]
        for finding in detect(series_of(values, "lower")).findings:
            contexts = [context(one) for one in results]
            found = triage(finding, contexts[: finding.last_good + 1][-30:], contexts[finding.first_bad :][:30])
            causes.append(found.cause)
    assert len(causes) >= 8
    assert causes.count("environment") >= 0.9 * len(causes)


def test_a_drift_is_blamed_on_what_drifts_and_on_nothing_that_jumps():
    def drifting(control):
        rng = np.random.default_rng(5)
        results = []
        for n in range(120):
            share = min(1.0, max(0.0, (n - 40) / 40))
            value = 10 * (1 + 0.12 * share) * (1 + 0.01 * rng.standard_normal())
            results.append(result(value, n, commit=commit(n, 3), control=control * share))
        values = [one.metrics["latency_ms"].median for one in results]
        (finding,) = detect(series_of(values, "lower")).findings
        assert finding.kind == "drift"
        contexts = [context(one) for one in results]
        return triage(finding, contexts[: finding.last_good + 1][-30:], contexts[finding.first_bad :])

    assert drifting(0.1).cause == "machine"
    found = drifting(0.0)
    assert found.cause == "unknown"
    assert "came slowly" in found.because[0]


def test_a_finding_that_many_series_produce_by_chance_is_noise():
    from dataclasses import replace

    finding, _ = explained(lambda n: {"driver": "560" if after(n) else "550"})
    doubted = replace(finding, answer="cannot tell", because=("chance shows as much in 1 % of series",))
    found = triage(doubted, [{"driver": "550"}], [{"driver": "560"}])
    assert found.cause == "noise"
    assert [one.name for one in found.differs] == ["driver"]
    unknown = replace(finding, direction="unknown", answer="cannot tell", because=("nobody said what is better",))
    assert triage(unknown, [{"driver": "550"}], [{"driver": "560"}]).cause == "environment"


def test_a_finding_that_is_only_new_is_no_noise():
    from dataclasses import replace

    finding, _ = explained(lambda n: {"driver": "560" if after(n) else "550"})
    young = replace(finding, answer="cannot tell", because=("it is new",), unconfirmed=Unconfirmed(3, 8), chance=0.006)
    assert triage(young, [{"driver": "550"}], [{"driver": "560"}]).cause == "environment"
    found = triage(young, [{}], [{}])
    assert found.cause == "unknown"
    assert "chance alone shows as much in 0.6 % of series" in found.because[0]


words = st.sampled_from(
    ["commit", "driver", "machine", "kernel", "spec", "packages", "control", "method", "x", "doubts"]
)
leaves = st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=3)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
contexts = st.lists(st.dictionaries(words, values, max_size=5), max_size=6)


@settings(max_examples=150)
@given(contexts, contexts)
def test_whatever_is_known_of_the_points_there_is_an_answer(before, after_):
    finding, _ = _SOME
    found = triage(finding, before, after_)
    assert found.because
    assert found.cause in ("code", "data or model", "environment", "machine", "method", "noise", "unknown")
    assert all(one.before != one.after for one in found.differs)


_SOME = explained(lambda n: {})
