"""What a digest tells: everything of its time, once, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.alert.digest.material import (
    COMMIT,
    DAY,
    DRIVER,
    SINCE,
    UNTIL,
    moved,
    named,
    nightly,
    told,
    watched,
    week,
)

from assay.alert.digest import build
from assay.alert.digest.build import WITHIN, grouped, smallest_change, title_of
from assay.alert.digest.records import DigestMaterial, FailedJob
from assay.analyse.series import detect, series_of


def digest(**parts):
    return build(DigestMaterial("here", **parts), SINCE, UNTIL)


# What moved


def test_a_change_is_reported_when_it_happened_or_was_found_in_the_time():
    inside = moved(at=SINCE + DAY, id="in")
    found_late = moved(at=SINCE - 20 * DAY, found_at=SINCE + DAY, id="late")
    before = moved(at=SINCE - 20 * DAY, found_at=SINCE - 19 * DAY, id="old")
    after = moved(at=UNTIL + DAY, found_at=UNTIL + 2 * DAY, id="new")
    told_of = digest(movements=(inside, found_late, before, after)).movements
    assert {one.id for one in told_of} == {"in", "late"}


def test_changes_are_grouped_by_cause_and_what_differs():
    together = [moved(id="1"), moved(named("p99"), id="2", at=UNTIL - 3 * DAY + 3600)]
    elsewhere = moved(id="3", cause="environment", differs=(DRIVER,))
    later = moved(id="4", at=UNTIL - DAY)
    groups = grouped([*together, elsewhere, later])
    assert [{one.id for one in group.movements} for group in groups] == [{"4"}, {"1", "2"}, {"3"}]
    assert groups[1].title == f"commit {'a' * 12} → {'b' * 12}"
    assert groups[2].title == "driver 550.54.15 → 560.35.03"


def test_changes_without_a_difference_are_together_if_they_are_of_one_benchmark():
    groups = grouped(
        [
            moved(id="1", differs=(), cause="unknown"),
            moved(named("p99"), id="2", differs=(), cause="unknown"),
            moved(named(benchmark="other"), id="3", differs=(), cause="unknown"),
        ]
    )
    assert sorted(len(group.movements) for group in groups) == [1, 2]


def test_what_became_worse_comes_first():
    better = moved(id="better", answer="better", change=-0.3, cause="code")
    worse = moved(id="worse", cause="unknown", differs=())
    settled = moved(id="settled", cause="method", differs=(DRIVER,), state="expected")
    assert [group.movements[0].id for group in grouped([better, settled, worse])] == ["worse", "better", "settled"]
    mixed = grouped(
        [moved(id="a", answer="better", change=-0.2), moved(id="b", change=0.03), moved(id="c", change=0.2)]
    )
    assert [one.id for one in mixed[0].movements] == ["c", "b", "a"]


def test_a_long_list_of_differences_is_cut():
    many = [replace(COMMIT, name=f"package {number}") for number in range(5)]
    assert title_of(many).endswith("2 more")


@given(
    st.lists(st.tuples(st.sampled_from(["code", "machine", "unknown"]), st.floats(0, 7), st.booleans()), max_size=12)
)
def test_every_change_is_in_one_group(drawn):
    movements = [
        moved(id=str(number), cause=cause, at=SINCE + day * DAY, differs=(DRIVER,) if differs else ())
        for number, (cause, day, differs) in enumerate(drawn)
    ]
    groups = grouped(movements)
    assert sorted(one.id for group in groups for one in group.movements) == sorted(one.id for one in movements)
    assert all({one.cause for one in group.movements} == {group.cause} for group in groups)


# What people did


def test_what_was_done_about_a_change_is_reported_with_it():
    made = digest(
        movements=(moved(), moved(named("p99"), id="f2", state="expected")), alerts=(told(findings=("f1", "f2")),)
    )
    assert {one.id: (one.state, one.alert) for one in made.movements} == {
        "f1": ("acknowledged", "a1"),
        "f2": ("expected", "a1"),
    }
    assert [one.id for one in made.handled] == ["a1"]
    assert made.expected == ()  # it is told with its alert


def test_an_expected_change_without_an_alert_is_reported_too():
    made = digest(movements=(moved(state="expected"),))
    assert [one.id for one in made.expected] == ["f1"]


def test_alerts_of_other_times_are_not_reported_and_open_ones_about_something_else_are():
    made = digest(
        movements=(moved(),),
        alerts=(
            told("about it", "open", findings=("f1",)),
            told("lost agent", "open"),
            told("long ago", "resolved", changed_at=SINCE - DAY),
            told("now", "resolved"),
        ),
    )
    assert [one.id for one in made.alerts] == ["lost agent"]
    assert [one.id for one in made.handled] == ["now"]


# What failed


def test_failures_of_one_kind_are_one_line():
    one = FailedJob("chat", "8", "killed", UNTIL - 2 * DAY, UNTIL - 2 * DAY)
    made = digest(
        failed=(
            one,
            replace(one, first_at=UNTIL - DAY, last_at=UNTIL - DAY),
            replace(one, why="lost"),
            replace(one, last_at=SINCE - DAY),
        )
    )
    assert [(line.why, line.times, line.first_at) for line in made.failed] == [
        ("killed", 2, UNTIL - 2 * DAY),
        ("lost", 1, UNTIL - 2 * DAY),
    ]


# What is noisy


def test_series_that_hide_changes_are_noisy_the_worst_first():
    quiet, loud, louder = watched(), watched(named("b"), spread=0.05), watched(named("c"), spread=0.2)
    made = digest(series=(quiet, loud, louder))
    assert [one.series.metric for one in made.noisy] == ["c", "b"]
    assert made.noisy[0].smallest > made.noisy[1].smallest > 0.05


def test_a_series_without_new_results_or_too_few_is_not_called_noisy():
    assert not digest(series=(watched(spread=0.2, last_at=SINCE - DAY),)).noisy
    assert not digest(series=(watched(spread=0.2, points=7),)).noisy
    assert not digest(series=(watched(spread=None),)).noisy


def test_a_burst_of_late_is_reported():
    (one,) = digest(series=(watched(loud_until=UNTIL - DAY, louder=3.5),)).noisy
    assert "3.5 times" in one.because[-1]
    assert not digest(series=(watched(loud_until=SINCE - DAY, louder=3.5),)).noisy


@pytest.mark.simulated
@pytest.mark.parametrize(("memory", "points"), [(0.0, 60), (0.0, 200), (0.5, 120)])
def test_the_smallest_visible_change_is_what_the_detector_shows(memory, points):
    """The promise is four of five; the detector may be a little better or worse than the formula."""
    rng = np.random.default_rng([7, points, int(10 * memory)])
    spread, tries, seen = 0.02, 400, 0
    step = np.log1p(smallest_change(spread, memory, points))
    for _ in range(tries):
        noise = np.empty(points)
        noise[0] = rng.normal()
        fresh = rng.normal(size=points) * np.sqrt(1 - memory**2)
        for place in range(1, points):
            noise[place] = memory * noise[place - 1] + fresh[place]
        values = np.exp(spread * noise + step * (np.arange(points) >= points - WITHIN))
        seen += any(one.index >= points - WITHIN - 4 for one in detect(series_of(values.tolist())).findings)
    assert 0.68 <= seen / tries <= 0.92, seen / tries


def test_more_noise_or_memory_hides_more_and_more_results_show_more():
    assert smallest_change(0.02, 0, 100) < smallest_change(0.03, 0, 100)
    assert smallest_change(0.02, 0, 100) < smallest_change(0.02, 0.6, 100)
    assert smallest_change(0.02, 0, 100, 30) < smallest_change(0.02, 0, 100, 7)


# What is silent


def test_a_series_that_stopped_is_silent():
    made = digest(series=(watched(recent=nightly(UNTIL - 6 * DAY), last_at=UNTIL - 6 * DAY),))
    assert [(one.last_at, one.usual_s) for one in made.silent] == [(UNTIL - 6 * DAY, DAY)]


@pytest.mark.parametrize(
    ("recent", "why"),
    [
        (nightly(UNTIL - 2 * DAY), "one night was left out"),
        (tuple(UNTIL - 60 * DAY + 7 * DAY * week for week in range(8)), "it comes once a week"),
        (tuple(UNTIL - 6 * DAY + 600.0 * place for place in range(30)), "somebody measured for an afternoon"),
        (nightly(UNTIL - 6 * DAY, 5), "too few to know what is usual"),
    ],
)
def test_a_pause_is_no_silence(recent, why):
    assert not digest(series=(watched(recent=recent, last_at=recent[-1]),)).silent, why


def test_what_has_long_been_silent_is_only_counted():
    made = digest(series=(watched(recent=nightly(UNTIL - 90 * DAY), last_at=UNTIL - 90 * DAY),))
    assert (made.silent, made.long_silent) == ((), 1)


def test_the_metrics_of_one_job_fall_silent_together():
    series = tuple(watched(named(name), recent=nightly(UNTIL - 6 * DAY), last_at=UNTIL - 6 * DAY) for name in "abc")
    (one,) = digest(series=series).silent
    assert one.metrics == ("a", "b", "c")


# The whole


def test_counts():
    made = build(week(), SINCE, UNTIL, "1.0")
    assert (made.series, made.fresh, made.last_at) == (5, 5, UNTIL - DAY / 2)
    assert len(made.movements) == 4
    assert not made.is_empty
    assert build(DigestMaterial("here"), SINCE, UNTIL).is_empty


def test_the_digest_survives_the_way_through_json():
    from assay.alert.digest import Digest
    from assay.documents import from_json, to_json

    made = build(week(), SINCE, UNTIL, "1.0")
    assert from_json(Digest, to_json(made), source="test") == made
