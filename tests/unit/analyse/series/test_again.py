"""The same change, found again with more points; and what is believed of it beside many others."""

from dataclasses import replace

import numpy as np
import pytest

from assay.analyse.series import detect, discoveries, series_of
from assay.analyse.series.discoveries import Doubt, believed, runs_around, same_changes, shifted

RNG = np.random.default_rng(7)
NOISE = 0.01 * RNG.standard_normal(200)


def stepped(count, *steps, level=10.0):
    values = np.full(count, level)
    for at, size in steps:
        values[at:] *= 1 + size
    return detect(series_of(values * (1 + NOISE[:count]), "lower"))


def test_a_change_is_the_same_with_more_points():
    early, late = stepped(46, (40, 0.08)), stepped(120, (40, 0.08))
    (one,), (other,) = early.findings, late.findings
    assert same_changes([other], {"a": one}, {"a": one.index}) == {0: "a"}


def test_a_step_down_and_a_later_step_up_are_two():
    (up, down) = stepped(120, (40, 0.08), (80, -0.07)).findings
    known = {"up": up, "down": down}
    places = {name: one.index for name, one in known.items()}
    assert same_changes([up, down], known, places) == {0: "up", 1: "down"}
    turned = replace(down, difference=-down.difference)
    assert same_changes([turned], {"up": up}, {"up": up.index}) == {}


def test_a_change_moves_with_the_points_that_were_added_before_it():
    (one,) = stepped(60, (40, 0.08)).findings
    moved = shifted(stepped(60, (40, 0.08)), 25).findings
    assert moved[0].index == one.index + 25
    assert moved[0].range == (one.range[0] + 25, one.range[1] + 25)
    assert same_changes(moved, {"a": one}, {"a": one.index + 25}) == {0: "a"}
    assert same_changes(moved, {"a": one}, {"a": one.index}) == {}


def test_each_change_is_used_once_and_the_nearest_wins():
    (one,) = stepped(60, (40, 0.08)).findings
    twice = [one, replace(one, index=one.index + 2, range=(one.range[0] + 2, one.range[1] + 2))]
    assert same_changes(twice, {"a": one}, {"a": one.index}) == {0: "a"}


def families(chance, others):
    (one,) = stepped(60, (40, 0.08)).findings
    one = replace(one, chance=chance)
    report = replace(stepped(60, (40, 0.08)), findings=(one,))
    quiet = stepped(60)
    assert not quiet.findings
    among = discoveries([report, *[quiet] * others])
    return one, among.reports[0].findings[0], among


def test_a_weak_finding_among_many_is_doubted_and_stays_so_when_it_is_checked_alone():
    raw, judged, among = families(0.004, 999)
    told, doubt = believed(raw, judged, among, None, None)
    assert told.answer == "cannot tell"
    assert doubt == Doubt(pytest.approx(0.05 / 1000), 1000)
    raw, judged, alone = families(0.004, 0)
    again, still = believed(raw, judged, alone, (told, doubt), 61)
    assert again.answer == "cannot tell"
    assert again.because == told.because
    assert still == doubt


def test_a_doubt_ends_with_better_evidence():
    _, doubt = believed(*families(0.004, 999), None, None)
    raw, judged, alone = families(1e-6, 0)
    told, left = believed(raw, judged, alone, (raw, doubt), 61)
    assert (told.answer, left) == ("worse", None)


def test_what_was_believed_stays_believed_when_more_series_are_checked():
    raw, judged, alone = families(0.004, 0)
    told, doubt = believed(raw, judged, alone, None, None)
    assert (told.answer, doubt) == ("worse", None)
    raw, judged, among = families(0.004, 999)
    assert judged.answer == "cannot tell"
    assert believed(raw, judged, among, (told, None), 61) == (raw, None)


def test_the_runs_around_a_change_end_at_its_neighbours():
    findings = stepped(160, (40, 0.1), (80, 0.1), (120, 0.1)).findings
    assert len(findings) == 3
    before, after = runs_around(findings, 1, (0, 160), 30)
    assert before[-1] == findings[1].last_good
    assert after[0] == findings[1].first_bad
    assert len(before) == len(after) == 30
    before, after = runs_around(findings, 1, (0, 160), 1000)
    assert before[0] >= findings[0].index
    assert after[-1] < findings[2].index
    before, _ = runs_around(findings, 0, (0, 160), 1000)
    assert before[0] == 0


def test_what_turns_up_in_one_of_many_looks_is_believed_if_it_stands_or_is_clear():
    alone = families(0.004, 0)
    young, doubt = believed(*alone, None, 60)
    assert young.answer == "cannot tell"
    assert "it is new" in young.because[0]
    assert young.label == "new, unconfirmed (0 of 8)"
    older, _ = believed(*alone, (young, doubt), 63)
    assert (older.answer, older.label) == ("cannot tell", "new, unconfirmed (3 of 8)")
    assert "has stood for 3 of 8 further results" in older.because[0]
    assert older.record()["unconfirmed"] == {"results": 3, "needed": 8}
    assert believed(*alone, (young, doubt), 64)[0].answer == "cannot tell"
    assert alone[0].label == "worse"
    assert believed(*alone, (young, doubt), 68) == (alone[0], None)
    clear = families(0.0009, 0)
    assert believed(*clear, None, 60) == (clear[0], None)
    assert believed(*clear, (young, doubt), 61) == (clear[0], None)


def test_a_jump_that_is_large_beyond_doubt_needs_fewer_results():
    raw, judged, among = families(0.004, 0)
    large = [replace(one, change=0.6, difference=6.0) for one in (raw, judged)]
    young, doubt = believed(*large, among, None, 60, 0.1)
    assert young.label == "new, unconfirmed (0 of 2)"
    assert believed(*large, among, (young, doubt), 61, 0.1)[0].label == "new, unconfirmed (1 of 2)"
    assert believed(*large, among, (young, doubt), 62, 0.1) == (large[0], None)
    for spread, share in ((1.0, 0.6), (0.1, 0.4), (None, 0.6)):
        small = [replace(one, change=share) for one in large]
        assert believed(*small, among, None, 60, spread)[0].label == "new, unconfirmed (0 of 8)"


@pytest.mark.simulated
def test_series_that_are_checked_after_each_result_give_few_false_alarms():
    """Sixty series without a change, looked at forty times; the level alone would let ten of them cry."""
    rng = np.random.default_rng(11)
    raised = believed_ones = 0
    for _ in range(60):
        values = 10 * (1 + 0.02 * rng.standard_normal(90))
        told = None
        found = trusted = False
        for count in range(10, 91, 2):
            report = detect(series_of(values[:count], "lower"))
            if not report.findings:
                told = None
                continue
            found = True
            among = discoveries([report])
            told = believed(report.findings[-1], among.reports[0].findings[-1], among, told, count)
            trusted = trusted or told[1] is None
        raised += found
        believed_ones += trusted
    assert raised >= 4
    assert believed_ones <= 2
