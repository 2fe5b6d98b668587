"""A growing series says what a look at everything would say."""

import math

import numpy as np
import pytest

from assay.analyse.series import Series, State, detect
from assay.analyse.series.detection import REFRESH


def grown(values: np.ndarray, begin: int, **how):
    """The state's and the whole look's findings after each point."""
    state = State(Series(values[:begin], **how))
    for end in range(begin + 1, values.size + 1):
        report = state.append(float(values[end - 1]))
        yield end, report, detect(Series(values[:end], **how))


@pytest.mark.parametrize("seed", range(4))
def test_a_new_step_is_found_at_the_same_point(seed) -> None:
    values = 100 + 2 * np.random.default_rng(seed).standard_normal(150)
    values[120:] += 6
    first = [next((end for end, *reports in grown(values, 100) if reports[which].findings), None) for which in (0, 1)]
    assert first[0] is not None
    assert abs(first[0] - first[1]) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_findings_are_the_same_but_for_what_is_documented(seed) -> None:
    values = 100 + 2 * np.random.default_rng(seed).standard_normal(160)
    values[60:] -= 10
    values[110:] += 8
    different = 0
    for end, ours, whole in grown(values, 40):
        assert (ours.points, ours.missing) == (whole.points, whole.missing) == (end, 0)
        different += [one.index for one in ours.findings] != [one.index for one in whole.findings]
    # A place may be moved by points that came since the last look at everything.
    assert different <= 2 * REFRESH
    assert [one.index for one in ours.findings] == [one.index for one in whole.findings]


def test_missing_results_are_counted_and_nothing_else() -> None:
    values = 100 + 2 * np.random.default_rng(1).standard_normal(100)
    state = State(Series(values, "lower"))
    before = state.report
    after = state.append(math.nan)
    assert after.missing == before.missing + 1
    assert after.findings == before.findings
    assert state.series.values.size == 101


def test_a_short_history_grows_into_a_long_one() -> None:
    values = 100 + 2 * np.random.default_rng(2).standard_normal(60)
    values[30:] += 12
    state = State(Series(values[:0], "lower"))
    for value in values:
        report = state.append(float(value))
    (one,) = report.findings
    assert one.index == 30


def test_known_errors_and_labels_grow_too() -> None:
    rng = np.random.default_rng(3)
    values, errors = 100 + 2 * rng.standard_normal(80), rng.uniform(0.5, 1.5, 80)
    labels = tuple(f"c{number}" for number in range(80))
    state = State(Series(values[:50], "lower", errors[:50], labels[:50]))
    for value, error, label in zip(values[50:], errors[50:], labels[50:], strict=True):
        state.append(value, error, label)
    assert state.series.labels == labels
    assert np.array_equal(state.series.standard_errors, errors)


def test_most_points_cost_no_look_at_everything(monkeypatch) -> None:
    values = 100 + 2 * np.random.default_rng(4).standard_normal(300)
    state = State(Series(values[:236]))
    looks = []
    module = __import__("assay.analyse.series.detection", fromlist=["detect"])
    monkeypatch.setattr(module, "detect", lambda *given: looks.append(1) or detect(*given))
    for value in values[236:]:
        state.append(float(value))
    assert len(looks) <= 2 * 64 // REFRESH
