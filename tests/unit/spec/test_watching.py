"""What a schedule may say, and what is said about one that cannot be right."""

import pytest

from assay.errors import SpecError
from assay.plan.schedule import MOST_AT_ONCE
from assay.spec.load import load
from assay.spec.schedule import ALIASES, Schedule
from assay.spec.schema import benchmark_schema


def benchmark(schedule):
    return {"benchmark": "b", "target": {"model": "squeezenet"}, "schedule": schedule}


def refused(schedule):
    with pytest.raises(SpecError) as wrong:
        load(benchmark(schedule))
    return str(wrong.value)


def test_an_expression_alone_is_enough():
    schedule = load(benchmark("0 3 * * mon-fri")).benchmark.schedule
    assert schedule == Schedule(cron="0 3 * * mon-fri")
    assert (schedule.timezone, schedule.jitter, schedule.missed, schedule.overlap) == ("UTC", 0.0, "once", "skip")


def test_everything_can_be_said():
    section = {"cron": "@daily", "timezone": "Europe/Luxembourg", "jitter": "10m", "missed": "all", "overlap": "queue"}
    schedule = load(benchmark(section)).benchmark.schedule
    assert (schedule.fields, schedule.jitter) == ("0 0 * * *", 600.0)
    assert Schedule.model_validate(schedule.model_dump(mode="json")) == schedule


@pytest.mark.parametrize("cron", ["", "* * * *", "0 * * * * *", "@reboot", "daily", "@daily *"])
def test_a_wrong_number_of_fields_is_reported_with_the_aliases(cron):
    said = refused(cron)
    assert f'schedule is "{cron}": ' in said
    assert all(alias in said for alias in ALIASES)


def test_an_alias_that_is_nearly_right_is_guessed():
    assert "did you mean @daily?" in refused("@dayly")
    assert "did you mean" not in refused("* * * *")


@pytest.mark.parametrize(
    ("cron", "field", "allowed"),
    [
        ("60 * * * *", "minute", "0-59"),
        ("*/0 * * * *", "minute", "0-59"),
        ("5-1 * * * *", "minute", "ranges"),
        ("x * * * *", "minute", "0-59"),
        ("0 24 * * *", "hour", "0-23"),
        ("0 0 0 * *", "day-of-month", "1-31"),
        ("0 0 30 2 *", "day-of-month", "exist"),
        ("0 0 * 13 *", "month", "jan-dec"),
        ("0 0 * juli *", "month", "jan-dec"),
        ("0 0 * * 8", "day-of-week", "sun-sat"),
        ("0 0 * * fri-mon", "day-of-week", "sun-sat"),
        ("0 0 * * 1#6", "day-of-week", "sun-sat"),
    ],
)
def test_the_field_that_is_wrong_is_named_with_what_it_may_be(cron, field, allowed):
    said = refused(cron)
    assert f'schedule is "{cron}": the {field} is not right' in said
    assert allowed in said


def test_a_day_that_never_comes_is_refused():
    assert "never comes" in refused("0 0 */20 * 1L")


@pytest.mark.parametrize("cron", ["9" * 499 + " * * * *", "1," * 260 + "1 * * * *", "² * * * *", "\0 * * * *"])
def test_nonsense_is_refused_and_breaks_nothing(cron):
    assert "schedule" in refused(cron)


@pytest.mark.parametrize(
    ("zone", "hint"),
    [("Europe/Luxemburg", "did you mean Europe/Luxembourg?"), ("Europe", ""), ("", ""), ("../etc/passwd", ""),
     ("x" * 10_000, "")],
)  # fmt: skip
def test_a_time_zone_that_is_not_there_is_reported_with_the_nearest(zone, hint):
    said = refused({"cron": "@daily", "timezone": zone})
    assert "no time zone" in said
    assert hint in said


def test_utc_needs_no_database_of_time_zones(monkeypatch):
    import zoneinfo

    monkeypatch.setattr(zoneinfo, "ZoneInfo", lambda name: (_ for _ in ()).throw(zoneinfo.ZoneInfoNotFoundError(name)))
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    assert load(benchmark("@daily")).benchmark.schedule.zone.utcoffset(None).total_seconds() == 0
    assert "install tzdata" in refused({"cron": "@daily", "timezone": "Europe/Luxembourg"})


def test_jitter_has_a_bound():
    assert "jitter" in refused({"cron": "@daily", "jitter": "25h"})


def test_the_bound_that_the_reference_names_is_the_one_that_counts():
    keys = benchmark_schema()["$defs"]["Schedule"]["anyOf"][0]["properties"]
    assert f"the newest {MOST_AT_ONCE}" in keys["missed"]["description"]
