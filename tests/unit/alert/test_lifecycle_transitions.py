"""What becomes of an alert, step by step, without any store."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.alert.setups import DAY, T0, commit, done, failed, finding, interval, limit, moved, rule

from assay.alert.lifecycle import (
    GROWN_EVERY_S,
    acted,
    called_expected,
    is_back,
    key_of,
    occurred,
    recovered,
    without_rules,
    woken,
)
from assay.alert.records import kept_of, record_of
from assay.errors import UsageError

FAILED = rule("job failed")
WORSE = rule("* worse", name="w")


def opened(event=None, rules=(FAILED,), now=T0):
    event = event or failed()
    alert, instead = occurred(None, event, rules, key=key_of(event, rules[0]), now=now)
    assert not instead
    return alert


def again(alert, event, rules=(FAILED,), now=T0):
    outcome = occurred(alert, event, rules, key=alert.key, now=now)
    return None if outcome is None else outcome[0]


def states(alert):
    return {one.subject: one.state for one in alert.members}


def steps(alert):
    return [(line.happening, line.state) for line in alert.history]


def test_an_alert_opens_with_what_happened_and_is_to_be_reported():
    alert = opened(now=T0 + 5)
    assert (alert.state, alert.kind, alert.benchmark, alert.severity) == ("open", "failed", "chat", "warning")
    assert alert.title == "chat a failed"
    assert alert.sentences == ("chat a failed: error[crashed]: the process died",)
    assert (alert.telling.turn, alert.telling.news, alert.telling.owed) == (1, "opened", True)
    assert steps(alert) == [("occur", "open")]
    assert alert.history[0].why == alert.sentences[0]
    assert record_of(kept_of(alert)) == alert


def test_the_same_event_and_a_late_one_are_no_news():
    alert = opened(failed(at=T0))
    assert again(alert, failed(at=T0)) is None
    assert again(alert, failed(at=T0 - DAY)) is None
    newer = again(alert, failed(at=T0 + DAY), now=T0 + DAY)
    assert (len(newer.members), newer.history, newer.changed_at) == (1, alert.history, alert.changed_at)
    assert newer.members[0].at == T0 + DAY
    assert newer.members[0].since == T0, "it fails since then"


def test_an_alert_grows_and_ends_when_the_last_member_recovered():
    alert = again(opened(failed("a")), failed("b"))
    assert alert.title == "2 jobs of chat failed"
    half = recovered(alert, ["point a"], done("a", at=T0 + 1), T0 + 1)
    assert (half.state, half.title, states(half)) == (
        "open",
        "chat b failed",
        {"point a": "recovered", "point b": "standing"},
    )
    over = recovered(half, ["point b"], done("b", at=T0 + 2), T0 + 2)
    assert (over.state, over.telling.news) == ("resolved", "resolved")
    assert over.history[-1].why == "it was measured again"
    assert recovered(over, ["point b"], done("b", at=T0 + 3), T0 + 3) is None
    back = again(over, failed("b", at=T0 + 9), now=T0 + 9)
    assert (back.id, back.state, back.telling.news) == (over.id, "open", "reopened")


def test_late_news_of_a_recovery_does_not_end_what_failed_since():
    alert = again(opened(failed(at=T0)), failed(at=T0 + 10), now=T0 + 10)
    assert recovered(alert, ["point a"], done(at=T0 + 5), T0 + 11) is None


def test_growth_is_reported_once_an_hour_and_together_with_what_is_owed():
    alert = again(opened(failed("a")), failed("b"))
    assert (alert.telling.turn, alert.telling.news) == (1, "opened"), "not told yet: one message for both"
    told = replace(alert, telling=replace(alert.telling, owed=False, told={FAILED.id: 1}, told_at=T0))
    grown = again(told, failed("c"), now=T0 + 60)
    assert (grown.telling.turn, grown.telling.news, grown.telling.not_before) == (2, "grown", T0 + GROWN_EVERY_S)
    more = again(grown, failed("d"), now=T0 + 61)
    assert more.telling == grown.telling


def test_what_comes_back_long_after_is_a_new_alert_that_remembers():
    first = recovered(opened(failed("a")), ["point a"], done("a", at=T0 + 1), T0 + 1)
    later = T0 + 30 * DAY
    outcome = occurred(first, failed("b", at=later), [FAILED], key=first.key, now=later)
    assert outcome is not None
    second, instead = outcome
    assert instead == first.id != second.id
    assert (second.key, second.state, states(second)) == (first.key, "open", {"point b": "standing"})
    assert again(second, failed("a", at=T0), now=later) is None, "that is an old story"
    assert states(again(second, failed("a", at=later), now=later)) == {"point a": "standing", "point b": "standing"}


def test_people_acknowledge_snooze_expect_resolve_and_reopen():
    alert = opened()
    mine = acted(alert, "acknowledge", by="ada", why=" mine ", now=T0 + 1)
    assert (mine.state, mine.by, mine.history[-1].why) == ("acknowledged", "ada", "mine")
    asleep = acted(mine, "snooze", by="bob", why="", now=T0 + 2, until=T0 + 100)
    assert (asleep.state, asleep.snoozed_until) == ("snoozed", T0 + 100)
    assert asleep.history[-1].why.startswith("until 2026-01-01 00:01")
    assert woken(asleep, T0 + 99) is None
    awake = woken(asleep, T0 + 100)
    assert (awake.state, awake.snoozed_until, awake.telling.news, awake.by) == ("open", None, "woken", "")
    ended = acted(awake, "resolve", by="ada", why="", now=T0 + 101)
    assert (ended.state, states(ended)) == ("resolved", {"point a": "closed"})
    assert acted(ended, "resolve", by="bob", why="", now=T0 + 102) == ended
    back = acted(ended, "reopen", by="ada", why="too early", now=T0 + 103)
    assert (back.state, states(back), back.telling.news) == ("open", {"point a": "standing"}, "reopened")
    assert [line.by for line in back.history] == ["", "ada", "bob", "", "ada", "ada"]


@pytest.mark.parametrize("until", [None, T0, T0 - 1, float("inf"), float("nan")])
def test_a_snooze_ends_in_time_to_come(until):
    with pytest.raises(UsageError) as said:
        acted(opened(), "snooze", by="ada", why="", now=T0, until=until)
    assert said.value.problem.code == "until"


def test_what_recovered_by_itself_cannot_be_reopened_by_hand():
    over = recovered(opened(), ["point a"], done(at=T0 + 1), T0 + 1)
    with pytest.raises(UsageError) as said:
        acted(over, "reopen", by="ada", why="", now=T0 + 2)
    assert said.value.problem.code == "lifecycle"


def test_trouble_that_continues_after_it_was_resolved_by_hand_opens_it_again_unless_it_is_the_same_finding():
    closed = acted(opened(limit(60), [rule("latency_ms > 50")]), "resolve", by="ada", why="", now=T0 + 1)
    assert again(closed, limit(60), [rule("latency_ms > 50")], T0 + 2) is None
    assert again(closed, limit(61, at=T0 + DAY), [rule("latency_ms > 50")], T0 + DAY).state == "open"
    found = acted(opened(finding(), [WORSE]), "resolve", by="ada", why="", now=T0 + 1)
    refreshed = again(found, finding(at=T0 + DAY, change=0.11), [WORSE], T0 + DAY)
    assert (refreshed.state, states(refreshed)) == ("resolved", {"f1": "closed"})
    assert refreshed.members[0].moved.change == 0.11
    gone = recovered(opened(finding(), [WORSE]), ["f1"], finding(state="gone", at=T0 + 5), T0 + 5)
    assert gone.state == "resolved"
    assert again(gone, finding(at=T0 + 9), [WORSE], T0 + 9).state == "open"


def test_what_was_expected_opens_again_for_more_and_ends_when_it_recovers():
    alert = opened(finding("f1", **commit("b")), [WORSE])
    meant = acted(alert, "expect", by="ada", why="twice the context", now=T0 + 1)
    assert (meant.state, states(meant), meant.telling.news) == ("expected", {"f1": "expected"}, "expected")
    more = again(meant, finding("f2", at=T0 + 2, **commit("b")), [WORSE], T0 + 2)
    assert (more.state, states(more)) == ("open", {"f1": "expected", "f2": "standing"})
    over = recovered(meant, ["f1"], finding(state="gone", at=T0 + 3), T0 + 3)
    assert over.state == "resolved"
    elsewhere = called_expected(alert, ["f1"], finding(state="expected"), T0 + 1)
    assert (elsewhere.state, elsewhere.history[-1].by) == ("expected", "")
    mixed = again(opened(finding("f1", **commit("b")), [WORSE]), finding("f2", **commit("b")), [WORSE])
    mixed = called_expected(mixed, ["f1"], finding(state="expected"), T0 + 1)
    assert mixed.state == "open"
    assert recovered(mixed, ["f2"], finding("f2", state="gone", at=T0 + 2), T0 + 2).state == "expected"


def test_the_worst_rule_gives_the_severity_and_all_rules_are_reported():
    rules = [rule("* worse", name="mild", severity="info"), rule("* worse by 5%", name="hard", severity="critical")]
    alert = opened(finding(), rules)
    assert (alert.severity, alert.members[0].rule) == ("critical", "rule-hard")
    assert [note.name for note in alert.rules] == ["mild", "hard"]


def test_a_rule_that_comes_later_is_reported_too():
    alert = opened(finding(), [WORSE])
    told = replace(alert, telling=replace(alert.telling, owed=False, told={WORSE.id: 1}))
    more = again(told, finding(at=T0 + DAY), [WORSE, rule("* worse", name="new")], T0 + DAY)
    assert more.telling.owed
    assert len(more.rules) == 2


def test_without_its_rule_an_alert_ends():
    alert = again(opened(failed("a")), failed("b"), [rule("job failed", name="other")])
    half = without_rules(alert, {FAILED.id}, T0 + 1)
    assert (half.state, states(half)) == ("open", {"point a": "closed", "point b": "standing"})
    over = without_rules(half, {"rule-other"}, T0 + 2)
    assert (over.state, over.history[-1].happening) == ("resolved", "resolve")
    assert without_rules(over, {FAILED.id}, T0 + 3) is None


@pytest.mark.parametrize(
    ("worse", "better", "back"),
    [(0.10, -0.10, True), (0.10, -0.09, True), (0.10, -0.2, True), (0.10, -0.05, False), (0.10, -0.02, False)],
)
def test_a_change_is_undone_when_nothing_may_be_left_of_it(worse, better, back):
    assert is_back(moved(change=worse), moved(change=better)) == back
    # The same for a metric of which more is better: it fell, and rose again.
    assert is_back(moved(change=-worse, answer="worse"), moved(change=-better, answer="better")) == back


@given(st.floats(0.01, 1), st.floats(-1, -0.01))
def test_no_change_for_the_better_that_reaches_the_old_level_leaves_anything_open(worse, better):
    fallen, risen = moved(change=worse), moved(change=better)
    if -better >= worse:
        assert is_back(fallen, risen)
    certain = {"difference_interval": interval(0, 0)}
    assert is_back(replace(fallen, **certain), replace(risen, **certain)) == (-better >= worse)


def test_the_history_stays_of_a_size_and_keeps_its_beginning():
    alert = opened()
    for number in range(1000):
        alert = acted(alert, "acknowledge", by=f"p{number}", why="", now=T0 + number)
    assert len(alert.history) == 300
    assert alert.history[0].happening == "occur"
    assert alert.history[-1].by == "p999"


def test_titles_and_sentences_say_numbers_with_their_interval():
    one = opened(finding(**commit("b" * 12), because=("commit changed",)), [WORSE])
    assert one.title == "chat: latency_ms is 10 % worse"
    assert one.sentences == (
        "chat: latency_ms: 100 ms → 110 ms, +10 % [+8.0 %, +12 %], since 2026-01-01 00:00 UTC",
        f"What may explain it: code: commit {'a' * 12} → {'b' * 12}.",
        "Commit changed.",
    )
    many = one
    for number in range(2, 41):
        many = again(many, finding(f"f{number}", metric=f"m{number % 3}", **commit("b" * 12)), [WORSE])
    assert many.title.startswith("40 series of chat are worse (")
    assert len(many.findings) == 40
    assert "and 20 more" in many.sentences
    over = opened(limit(61.5), [rule("latency_ms > 50", severity="critical")])
    assert over.title == "chat a: latency_ms is 61.5 ms [60.5, 62.5], above the limit of 50 ms"


def test_links_lead_to_pages_that_the_dashboard_has():
    pages = (Path(__file__).parents[3] / "web" / "src" / "pages" / "pages.ts").read_text()
    known = [
        re.compile(re.sub(r"\$\w+", "[^/]+", place)) for place in re.findall(r"^  '(/[^']*)':", pages, re.MULTILINE)
    ]
    assert len(known) > 10
    found = opened(failed()).links | opened(finding(), (WORSE,)).links
    assert {"alert", "finding", "series", "job", "campaign"} <= set(found)
    for name, path in found.items():
        assert any(place.fullmatch(path.partition("#")[0]) for place in known), (name, path)
