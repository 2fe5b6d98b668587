"""When schedules are due, held against a clock that is read minute by minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.plan.schedule import LATE_AFTER_S, MOST_AT_ONCE, decide, due_between, next_times, start_of
from assay.spec.schedule import ALIASES, Schedule

MINUTE = timedelta(minutes=1)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Where calendars and clocks are odd: changes to and from summer time (by an hour, by half an hour, by a whole day),
# a leap day, the end of a year.
ODD = [
    ("Europe/Luxembourg", datetime(2026, 3, 29, 1, tzinfo=UTC)),
    ("Europe/Luxembourg", datetime(2026, 10, 25, 1, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 8, 7, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, 6, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 15, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),
    ("UTC", datetime(2024, 2, 29, 12, tzinfo=UTC)),
    ("UTC", datetime(2025, 12, 31, 23, tzinfo=UTC)),
]


@dataclass(frozen=True)
class Field:
    """One field of an expression, and the numbers that it means; worked out here, not by the library."""

    text: str
    numbers: frozenset[int]


@st.composite
def fields(draw, first, last, names=()):
    """A field: a star, a number, a range, a step, or a list of these."""

    def word(number):
        named = names and number - first < len(names) and draw(st.booleans())
        return draw(st.sampled_from((str.lower, str.upper)))(names[number - first]) if named else str(number)

    def term():
        low = draw(st.integers(first, last))
        high = draw(st.integers(low, last))
        step = draw(st.integers(1, 20))
        kind = draw(st.sampled_from(["number", "range", "range step", "star step"]))
        if kind == "number":
            return word(low), {low}
        if kind == "star step":
            return f"*/{step}", set(range(first, last + 1, step))
        if kind == "range" or low == high:
            return f"{word(low)}-{word(high)}", set(range(low, high + 1))
        return f"{word(low)}-{word(high)}/{step}", set(range(low, high + 1, step))

    if draw(st.integers(0, 2)) == 0:
        return Field("*", frozenset(range(first, last + 1)))
    terms = [term() for _ in range(draw(st.integers(1, 3)))]
    return Field(",".join(text for text, _ in terms), frozenset().union(*(numbers for _, numbers in terms)))


@dataclass(frozen=True)
class Expression:
    """Five fields, and whether they mean a time on the wall."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def text(self):
        return " ".join(one.text for one in (self.minute, self.hour, self.day, self.month, self.weekday))

    def means(self, wall):
        if wall.minute not in self.minute.numbers or wall.hour not in self.hour.numbers:
            return False
        weekday = wall.isoweekday() % 7
        by_day = wall.day in self.day.numbers
        by_weekday = weekday in self.weekday.numbers or (weekday == 0 and 7 in self.weekday.numbers)
        both = self.day.text.startswith("*") or self.weekday.text.startswith("*")
        return wall.month in self.month.numbers and (by_day and by_weekday if both else by_day or by_weekday)


def hours(numbers):
    return Field(",".join(map(str, sorted(numbers))), frozenset(numbers))


expressions = st.builds(
    Expression, fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12, MONTHS), fields(0, 7, DAYS)
)
# Times of day alone, which meet the hour of a change far more often.
times_of_day = st.builds(
    Expression,
    fields(0, 59),
    st.sets(st.integers(0, 5), min_size=1).map(hours),
    st.just(Field("*", frozenset(range(1, 32)))),
    st.just(Field("*", frozenset(range(1, 13)))),
    st.just(Field("*", frozenset(range(8)))),
)


def minute_by_minute(expression, zone, start, end):
    """Due times after a moment and up to another, from a look at the clock in every single minute."""
    found = []
    now = start.replace(second=0, microsecond=0) + MINUTE
    while now <= end:
        shown = now.astimezone(zone)
        wall = shown.replace(tzinfo=None)
        before = (now - MINUTE).astimezone(zone).replace(tzinfo=None)
        left_out = [before + MINUTE * n for n in range(1, max(1, round((wall - before) / MINUTE)))]
        if (expression.means(wall) and not shown.fold) or any(map(expression.means, left_out)):
            found.append(now)
        now += MINUTE
    return found


def schedule_of(expression, zone="UTC"):
    return Schedule(cron=expression.text, timezone=zone)


@given(st.one_of(expressions, times_of_day), st.sampled_from(ODD), st.integers(-1500, 100), st.integers(1, 1700))
@settings(max_examples=250)
def test_due_times_are_those_that_a_clock_shows(expression, odd, start_min, minutes):
    name, around = odd
    start = around + timedelta(minutes=start_min, seconds=7)
    end = start + timedelta(minutes=minutes)
    try:
        schedule = schedule_of(expression, name)
    except ValueError:  # 30 February
        return
    expected = minute_by_minute(expression, schedule.zone, start, end)
    assert list(due_between(schedule, start, end)) == expected
    assert list(due_between(schedule, start, end, 3)) == expected[-3:]
    assert list(next_times(schedule, start, len(expected))) == expected


@given(
    expressions,
    st.datetimes(datetime.fromisoformat("2020-01-01"), datetime.fromisoformat("2030-01-01"), timezones=st.just(UTC)),
)
@settings(max_examples=200)
def test_forwards_and_backwards_agree(expression, after):
    try:
        schedule = schedule_of(expression, "America/New_York")
    except ValueError:
        return
    times = next_times(schedule, after, 5)
    assert list(times) == sorted(set(times))
    for one in times:
        assert expression.means(one.astimezone(schedule.zone).replace(tzinfo=None)) or jumped(one, schedule.zone)
    if times:
        assert due_between(schedule, after, times[-1]) == times
        assert due_between(schedule, times[0], times[-1]) == times[1:]


def jumped(moment, zone):
    before = (moment - MINUTE).astimezone(zone).replace(tzinfo=None)
    return moment.astimezone(zone).replace(tzinfo=None) - before > MINUTE


def local(schedule, start, end):
    zone = schedule.zone
    times = due_between(schedule, start.replace(tzinfo=zone), end.replace(tzinfo=zone))
    return [one.astimezone(zone).isoformat(timespec="minutes") for one in times]


@pytest.mark.parametrize(
    ("zone", "day", "after"),
    [
        ("Europe/Luxembourg", datetime.fromisoformat("2026-03-29"), "2026-03-29T03:00+02:00"),
        ("America/New_York", datetime.fromisoformat("2026-03-08"), "2026-03-08T03:00-04:00"),
    ],
)
def test_a_time_that_does_not_exist_is_due_when_the_clocks_go_on(zone, day, after):
    end = day + timedelta(hours=12)
    assert local(Schedule(cron="30 2 * * *", timezone=zone), day, end) == [after]
    several = local(Schedule(cron="*/10 2 * * *", timezone=zone), day, end)
    assert several == [after], "the times of one gap are one run"
    beside = local(Schedule(cron="30 2,3 * * *", timezone=zone), day, end)
    assert beside == [after, after.replace("03:00", "03:30")]
    assert local(Schedule(cron="0 2-3 * * *", timezone=zone), day, end) == [after], "03:00 itself is not due twice"


@pytest.mark.parametrize(
    ("zone", "day", "first"),
    [
        ("Europe/Luxembourg", datetime.fromisoformat("2026-10-25"), "2026-10-25T02:30+02:00"),
        ("America/New_York", datetime.fromisoformat("2026-11-01"), "2026-11-01T01:30-04:00"),
    ],
)
def test_a_time_that_exists_twice_is_due_once(zone, day, first):
    hour = int(first[11:13])
    schedule = Schedule(cron=f"30 {hour} * * *", timezone=zone)
    assert local(schedule, day, day + timedelta(hours=12)) == [first]
    repeated = datetime.fromisoformat(first) + timedelta(minutes=59)
    # Asked in the hour that is shown again.
    assert next_times(schedule, repeated, 1)[0] > repeated + timedelta(hours=20)
    assert due_between(schedule, repeated - timedelta(minutes=30), repeated) == ()
    assert len(local(Schedule(cron="@hourly", timezone=zone), day, day + timedelta(days=1, minutes=-1))) == 23


def test_days_keep_their_length_in_utc():
    schedule = Schedule(cron="@hourly")
    assert len(due_between(schedule, datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 3, 30, tzinfo=UTC))) == 48


def test_the_same_moment_is_not_due_again_and_the_end_counts():
    schedule = Schedule(cron="*/5 * * * *")
    at = datetime(2026, 5, 5, 5, 5, tzinfo=UTC)
    assert next_times(schedule, at, 2) == (at + 5 * MINUTE, at + 10 * MINUTE)
    assert next_times(schedule, at - timedelta.resolution, 1) == (at,)
    assert due_between(schedule, at, at) == ()
    assert due_between(schedule, at - MINUTE, at) == (at,)
    assert due_between(schedule, at - MINUTE, at - timedelta.resolution) == ()


def test_an_outage_of_years_costs_no_more_than_what_is_requested():
    schedule = Schedule(cron="* * * * *", timezone="Europe/Luxembourg")
    now = datetime(2026, 5, 5, 5, 5, 30, tzinfo=UTC)
    found = due_between(schedule, now - timedelta(days=3650), now, 100)
    assert len(found) == 100
    assert found[-1] == now.replace(second=0)


@pytest.mark.parametrize(("alias", "fields"), ALIASES.items())
def test_aliases_mean_their_fields(alias, fields):
    after = datetime(2026, 5, 5, 5, 5, tzinfo=UTC)
    assert next_times(Schedule(cron=alias.upper()), after, 3) == next_times(Schedule(cron=fields), after, 3)


def test_the_last_day_and_the_second_monday():
    after = datetime(2028, 2, 1, tzinfo=UTC)
    assert next_times(Schedule(cron="0 0 L * *"), after, 1) == (datetime(2028, 2, 29, tzinfo=UTC),)
    assert next_times(Schedule(cron="0 0 * * 1#2"), after, 1) == (datetime(2028, 2, 14, tzinfo=UTC),)
    assert next_times(Schedule(cron="0 0 * * 5L"), after, 1) == (datetime(2028, 2, 25, tzinfo=UTC),)


# Jitter


@given(st.integers(0, 10_000), st.floats(0.1, 86_400))
def test_jitter_is_the_same_for_everybody_and_within_its_bound(minute, jitter):
    schedule = Schedule(cron="* * * * *", jitter=jitter)
    due = datetime(2026, 1, 1, tzinfo=UTC) + minute * MINUTE
    start = start_of(schedule, "nightly", due)
    assert due <= start <= due + timedelta(seconds=jitter)
    elsewhere = due.astimezone(ZoneInfo("Asia/Tokyo"))
    assert start == start_of(Schedule(cron="0 0 * * *", jitter=jitter), "nightly", elsewhere)


def test_jitter_spreads_schedules_and_days():
    schedule = Schedule(cron="@daily", jitter="10m")
    due = datetime(2026, 1, 1, tzinfo=UTC)
    by_name = sorted((start_of(schedule, f"benchmark {n}", due) - due).total_seconds() for n in range(500))
    by_day = [(start_of(schedule, "one", due + timedelta(days=n)) - due - timedelta(days=n)) for n in range(500)]
    assert len(set(by_name)) == len(set(by_day)) == 500
    for share in (0.25, 0.5, 0.75):
        assert abs(by_name[int(500 * share)] - 600 * share) < 60, "evenly over the ten minutes"
    assert start_of(Schedule(cron="@daily"), "one", due) == due


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
