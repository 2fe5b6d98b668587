"""Which rules are about what, what they answer, and when they keep quiet."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.alert.setups import failed, finding, interval, limit, moved, rule

from assay.alert.evaluate import quiet_until
from assay.alert.records import Event
from assay.alert.rules import (
    file_rules,
    given_rule,
    in_words,
    judge,
    matching,
    parsed,
    rule_of,
)
from assay.errors import UsageError


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("when", "low", "high", "answer"),
    [
        ("latency_ms > 50", 51, 60, "yes"),
        ("latency_ms > 50", 49, 60, "cannot tell"),
        ("latency_ms > 50", 50, 60, "cannot tell"),
        ("latency_ms > 50", 40, 50, "no"),
        ("latency_ms > 50", 40, 49, "no"),
        ("latency_ms < 50", 40, 49, "yes"),
        ("latency_ms < 50", 40, 51, "cannot tell"),
        ("latency_ms < 50", 50, 51, "no"),
        ("latency_ms < 0", -2, -1, "yes"),
    ],
)
def test_a_limit_has_three_answers(when, low, high, answer):
    event = replace(limit(45), interval=interval(low, high))
    said = judge(rule(when), event)
    assert said.answer == answer
    assert bool(said.because) == (answer == "cannot tell")


def test_a_value_without_an_interval_cannot_be_decided():
    said = judge(rule("latency_ms > 50"), replace(limit(500, None), doubt="it was measured in one run"))
    assert (said.answer, said.because) == ("cannot tell", "it was measured in one run")


@given(st.floats(-1e6, 1e6), st.floats(0, 1e5), st.floats(-1e6, 1e6))
def test_no_limit_is_broken_both_ways(value, half, border):
    event = replace(limit(value), interval=interval(value - half, value + half))
    above = judge(rule({"metric": "latency_ms", "when": "above", "value": border}), event).answer
    below = judge(rule({"metric": "latency_ms", "when": "below", "value": border}), event).answer
    assert (above, below) != ("yes", "yes")
    if value - half > border:
        assert (above, below) == ("yes", "no")


@pytest.mark.parametrize(
    ("when", "more", "answer"),
    [
        ("latency_ms worse", {}, "yes"),
        ("latency_ms worse by 5%", {"change": 0.05}, "yes"),
        ("latency_ms worse by 5%", {"change": 0.049}, "no"),
        ("latency_ms worse", {"change": -0.2}, "no"),
        ("latency_ms worse", {"answer": "cannot tell", "because": ("too few points",)}, "cannot tell"),
        ("latency_ms worse by 5%", {"change": None, "answer": "worse"}, "cannot tell"),
        ("latency_ms worse", {"state": "expected"}, "no"),
    ],
)
def test_a_change_has_to_be_for_the_worse_and_large_enough(when, more, answer):
    change = moved(**{key: value for key, value in more.items() if value is not None or key != "change"})
    event = replace(finding(), finding=replace(change, change=None) if more.get("change", 0) is None else change)
    assert judge(rule(when), event).answer == answer


@pytest.mark.parametrize(
    ("asked", "metric", "fits"),
    [
        ("ttft_ms.p99", "ttft_ms.p99", True),
        ("ttft_ms.p99", "ttft_ms", False),
        ("ttft_ms", "ttft_ms.p99", False),
        ("ttft_ms", "ttft_ms", True),
        ("ttft_ms.median", "ttft_ms", True),
        ("ttft_ms", "ttft_ms.p50", True),
        ("*", "ttft_ms", True),
        ("*", "ttft_ms.p99", False),
        ("*.p99", "ttft_ms.p99", True),
        ("speed", "speed{batch=8}", True),
        ("speed{batch=8}", "speed{batch=8}", True),
        ("speed{batch=8}", "speed{batch=1}", False),
        ("speed.p99", "speed{batch=8}.p99", True),
    ],
)
def test_a_rule_is_about_its_metric(asked, metric, fits):
    one = rule({"metric": asked, "when": "worse"})
    assert bool(matching(finding(metric=metric), [one])) == fits


def test_a_rule_is_about_its_benchmarks():
    rules = [
        rule("job failed", name="all"),
        rule("job failed", name="chats", benchmark="chat-*"),
        rule("job failed", name="one", benchmark="chat-a"),
        rule("agent lost", name="other"),
    ]
    assert [one.name for one in matching(failed(benchmark="chat-a"), rules)] == ["all", "chats", "one"]
    assert [one.name for one in matching(failed(benchmark="vector"), rules)] == ["all"]
    lost = Event("agent-lost", 0.0, "agent-1", "lost", name="box")
    assert [one.name for one in matching(lost, [rule("agent lost", benchmark="chat-*")])] == ["r"]


def test_the_rule_of_a_file_is_for_that_benchmark_alone_whatever_its_name_looks_like():
    name = "chat [v2] *"
    (kept,) = file_rules(name, {"alerts": ["job failed"]}, 0.0)
    own = rule_of(kept)
    assert matching(failed(benchmark=name), [own])
    assert not matching(failed(benchmark="chat v x"), [own])
    assert not matching(failed(benchmark="chat [v2] more"), [own])


def test_rules_of_a_file_keep_their_names_while_they_ask_for_the_same():
    said = {
        "alerts": [
            {"when": "latency_ms > 50"},
            {"metric": "latency_ms", "when": "above", "value": 50.00001},
            "job failed",
            "job failed",
            {"when": "nonsense"},
            7,
        ]
    }
    first = file_rules("chat", said, 1.0)
    assert [one.rule["when"] for one in first] == ["above", "above", "failed"]
    assert len({one.name for one in first}) == 3
    harsher = {"alerts": [{"when": "latency_ms > 50", "severity": "critical", "notify": ["team"]}]}
    (again,) = file_rules("chat", harsher, 2.0)
    assert (again.id, again.name) == (first[0].id, first[0].name)
    assert rule_of(again).alert.severity == "critical"
    long = file_rules("x" * 200, {"alerts": ["job failed"]}, 1.0)[0]
    assert len(long.name) <= 200


def test_a_rule_that_cannot_be_read_any_more_is_left_out():
    kept = given_rule("r", "*", parsed("job failed"), by="ada", now=1.0)
    assert rule_of(kept).alert.when == "failed"
    assert rule_of(replace(kept, rule={"when": "moon"})) is None


@pytest.mark.parametrize("document", [{"when": "moon"}, {"when": "p99 > 50"}, 7, {"when": "failed", "colour": "red"}])
def test_what_is_no_rule_is_refused_with_the_reason(document):
    with pytest.raises(UsageError) as said:
        parsed(document)
    assert said.value.problem.code == "value"


@pytest.mark.parametrize(
    "text", ["latency_ms > 50", "latency_ms < 0.25", "latency_ms worse by 5.0 %", "latency_ms worse", "job failed",
             "worse", "agent lost", "no data for 24 h"]
)  # fmt: skip
def test_a_rule_in_words_reads_as_the_rule(text):
    assert in_words(parsed(text)) == text
    assert parsed(in_words(parsed(text))) == parsed(text)


@pytest.mark.parametrize(
    ("quiet", "zone", "now", "until"),
    [
        ("22:00-07:00", "UTC", "2026-01-01 21:59", None),
        ("22:00-07:00", "UTC", "2026-01-01 22:00", "2026-01-02 07:00"),
        ("22:00-07:00", "UTC", "2026-01-02 06:59:59", "2026-01-02 07:00"),
        ("22:00-07:00", "UTC", "2026-01-02 07:00", None),
        ("12:00-13:30", "UTC", "2026-01-02 13:29", "2026-01-02 13:30"),
        ("12:00-13:30", "UTC", "2026-01-02 11:00", None),
        ("22:00-07:00", "Europe/Luxembourg", "2026-01-01 21:30", "2026-01-02 06:00"),  # 22:30 there
        ("22:00-07:00", "Europe/Luxembourg", "2026-07-01 20:30", "2026-07-02 05:00"),  # summer time
        ("22:00-07:00", "Europe/Luxembourg", "2026-03-28 23:00", "2026-03-29 05:00"),  # the clocks go forward
        ("22:00-07:00", "Europe/Luxembourg", "2026-10-24 22:00", "2026-10-25 06:00"),  # and back
        ("22:00-07:00", "America/New_York", "2026-01-01 12:00", None),
        (None, "UTC", "2026-01-01 00:00", None),
    ],
)
def test_quiet_hours_are_those_of_the_clocks_on_the_wall(quiet, zone, now, until):
    assert quiet_until(quiet, zone, at(now)) == (None if until is None else at(until))


@given(
    st.integers(0, 1439),
    st.integers(0, 1439),
    st.floats(at("2026-01-01"), at("2027-01-01")),
    st.sampled_from(["UTC", "Europe/Luxembourg", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
)
def test_quiet_hours_end_and_then_are_over(begin, end, now, zone):
    if begin == end:
        return
    quiet = f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}"
    until = quiet_until(quiet, zone, now)
    if until is not None:
        assert now < until <= now + 26 * 3600
        assert quiet_until(quiet, zone, until) is None or _clocks_go_back(zone, until)


def _clocks_go_back(zone, moment):
    from datetime import timedelta
    from zoneinfo import ZoneInfo

    here = datetime.fromtimestamp(moment, ZoneInfo(zone))
    return any((here + timedelta(hours=hours)).utcoffset() != here.utcoffset() for hours in (-26, -2, 2, 26))
