"""What becomes of due times that have passed."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.plan.schedule import LATE_AFTER_S, MOST_AT_ONCE, decide

NOW = datetime(2026, 5, 5, 12, 0, 30, tzinfo=UTC)


def ago(*minutes):
    return tuple(NOW - timedelta(seconds=30, minutes=one) for one in minutes)


def words(found):
    return [one.word for one in found]


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_what_is_on_time_fires_without_a_word(missed):
    (only,) = decide(ago(0), NOW, missed)
    assert (only.word, only.because) == ("fire", "")


@pytest.mark.parametrize(
    ("missed", "expected"),
    [("skip", ["miss", "miss", "miss"]), ("once", ["miss", "miss", "fire"]), ("all", ["wait", "wait", "wait"])],
)
def test_after_an_outage(missed, expected):
    found = decide(ago(180, 120, 60), NOW, missed)
    assert words(found) == expected
    assert all("no server ran" in one.because for one in found)
    if missed == "once":
        assert "the run of 2026-05-05 11:00 UTC stands for it" in found[0].because
        assert "60 min late" in found[2].because


@pytest.mark.parametrize(
    ("missed", "expected"),
    [("skip", ["miss", "miss", "fire"]), ("once", ["miss", "miss", "fire"]), ("all", ["wait", "wait", "fire"])],
)
def test_after_an_outage_that_ends_just_in_time(missed, expected):
    found = decide(ago(120, 60, 0), NOW, missed)
    assert words(found) == expected
    assert found[2].because == ""


def test_all_has_a_bound():
    found = decide(ago(*range(60 * 40, 0, -60)), NOW, "all")
    assert words(found) == ["miss"] * (40 - 1 - MOST_AT_ONCE + 1) + ["wait"] * MOST_AT_ONCE
    assert f"only the newest {MOST_AT_ONCE}" in found[0].because


def test_those_that_were_not_even_listed_are_mentioned():
    for missed in ("skip", "once", "all"):
        assert decide(ago(120, 60), NOW, missed, more=True)[0].because.endswith("there were earlier ones too")


def test_lateness_is_counted_from_the_start_that_jitter_gives():
    due = ago(5)
    assert words(decide(due, NOW, "skip")) == ["miss"]
    assert words(decide(due, NOW, "skip", start=lambda one: one + timedelta(minutes=5))) == ["fire"]


@given(st.sets(st.integers(0, 5000), max_size=120), st.sampled_from(["skip", "once", "all"]), st.booleans())
def test_every_due_time_is_decided_once_in_order_and_within_the_bounds(minutes, missed, more):
    due = ago(*sorted(minutes, reverse=True))
    found = decide(due, NOW, missed, more=more)
    assert tuple(one.due for one in found) == due
    late = [one for one in found if (NOW - one.due).total_seconds() > LATE_AFTER_S]
    assert all(one.word == "fire" for one in found if one not in late)
    assert all(one.because for one in late)
    made_up = [one for one in late if one.word != "miss"]
    most = {"skip": 0, "once": 1, "all": MOST_AT_ONCE}[missed]
    assert len(made_up) <= most
    assert made_up == late[len(late) - len(made_up) :], "the newest ones"
    if missed == "once" and found:
        assert any(one.word == "fire" for one in found)
