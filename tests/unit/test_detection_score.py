"""Findings against the truth: each is counted once, and for what it is."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from scripts.detection_score import DetectedChange, marks, score

from assay.sim.history import TrueChange


def true(night=50, size=0.1, last=None, cause="code", series="s"):
    return TrueChange(series, night, last or night, "drift" if last else "step", size, cause)


def found(night=50, size=0.1, kind="step", cause="code", reach=0, series="s", reported=None):
    return DetectedChange(
        series, night, (night - reach, night + reach), kind, size, size - 0.02, size + 0.02, cause, 0.99, reported
    )


def outcomes(truths, findings):
    return [line.outcome for line in score(truths, findings)]


def test_what_is_found_has_its_errors():
    (line,) = score([true(50, 0.10)], [found(52, 0.11, cause="machine", reported=55)])
    assert (line.outcome, line.position_error, round(line.size_error, 3)) == ("found", 2, 0.01)
    assert (line.holds, line.right_cause, line.waited) == (True, False, 5)


def test_missed_and_false_are_distinguished():
    assert outcomes([true(50)], []) == ["missed"]
    assert outcomes([], [found(50)]) == ["false"]
    assert outcomes([true(50, 0.1)], [found(50, -0.1)]) == ["missed", "false"]  # the other way
    assert outcomes([true(50)], [found(58)]) == ["missed", "false"]  # too far off
    assert outcomes([true(50)], [found(58, reach=9)]) == ["found"]  # and says so itself
    assert outcomes([true(50, series="s")], [found(50, series="other")]) == ["false", "missed"]


def test_a_change_has_one_finding():
    lines = score([true(50)], [found(51), found(50)])
    assert [line.outcome for line in lines] == ["found", "false"]
    assert lines[0].found.night == 50


def test_a_finding_belongs_to_the_nearest_change():
    lines = score([true(322, 0.02), true(341, 0.035)], [found(339, 0.05, reach=20)])
    assert [(line.truth.night, line.outcome) for line in lines] == [(322, "missed"), (341, "found")]


def test_pieces_of_a_drift_are_parts_of_it():
    findings = [found(105, 0.05), found(125, 0.05), found(200, 0.05)]
    assert outcomes([true(100, 0.1, last=130)], findings) == ["found", "part", "false"]
    as_drift = [found(103, 0.1, kind="drift"), found(125, 0.02)]
    lines = score([true(100, 0.1, last=130)], as_drift)
    assert lines[0].found.kind == "drift"


def test_what_was_taken_back_is_no_finding_and_is_reported():
    gone = [replace(found(51), withdrawn=70), replace(found(200), withdrawn=210)]
    lines = score([true(50)], gone)
    assert [(line.outcome, line.truth and line.truth.night) for line in lines] == [
        ("missed", 50),
        ("withdrawn", 50),
        ("withdrawn", None),
    ]
    told = marks(lines)
    assert (told.true, told.found, told.missed, told.false) == (1, 0, 1, 0)
    assert (told.withdrawn, told.withdrawn_false) == (2, 1)


def test_a_cause_may_become_right_with_time():
    (line,) = score([true(50, cause="machine")], [replace(found(50, cause="machine"), first_cause="code")])
    assert (line.right_cause, line.right_at_first) == (True, False)
    assert marks([line]).right_at_first == 0


def test_marks_count():
    lines = score(
        [true(50, 0.1), true(80, 0.2), true(100, 0.1, last=130)],
        [found(53, 0.11), found(105, 0.05, cause="unknown"), found(125, 0.05), found(200, 0.1)],
    )
    told = marks(lines)
    assert (told.true, told.found, told.missed, told.false, told.parts) == (3, 2, 1, 1, 1)
    assert (told.right_cause, told.holds) == (1, 1)
    assert told.place == 5


_NIGHTS = st.integers(1, 365)
_SIZES = st.floats(0.01, 0.5) | st.floats(-0.5, -0.01)


@given(st.lists(st.tuples(_NIGHTS, _SIZES), max_size=8), st.lists(st.tuples(_NIGHTS, _SIZES), max_size=8))
def test_nothing_is_lost_or_counted_twice(truths, findings):
    lines = score([true(*one) for one in truths], [found(*one) for one in findings])
    told = marks(lines)
    assert told.true == len(truths) == told.found + told.missed
    assert sum(line.found is not None for line in lines) == len(findings) == told.found + told.false + told.parts
