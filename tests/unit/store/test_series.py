"""Series in a store: points in, findings out, the same ones again and again."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from sqlalchemy import text
from tests.support.histories import FIRST, NIGHT_S, nights, result

from assay.errors import UsageError
from assay.report.series import findings_table, render_finding
from assay.series.repository import LONGEST, SeriesStore
from assay.store.series import SeriesFilter
from assay.store.series_file import FilePoint


@pytest.fixture
def series(fleet, clock):
    return SeriesStore(fleet, clock)


def stepped(around=lambda n: {}, count=60, at=40, size=0.08, **more):
    return list(nights(count, at, size, around, **more))


def fill(series, results, benchmark="bench", labels=None):
    """Add results, and give back the series of the last one."""
    ids = ()
    for one, at in results:
        ids = series.add(one, benchmark, labels or {}, at)
    return ids


def points_of(values, name="s", **more):
    return [FilePoint(name, FIRST + n * NIGHT_S, value, **more) for n, value in enumerate(values)]


def noisy(count, *steps, seed=2, spread=0.01):
    values = 10 * (1 + spread * np.random.default_rng(seed).standard_normal(count))
    for at, size in steps:
        values[at:] *= 1 + size
    return [float(one) for one in values]


def test_results_become_points_with_what_was_around_them(series):
    (name,) = fill(series, stepped(lambda n: {"commit": f"{n:040x}"}), labels={"team": "x"})
    record = series.get(name[:6])
    assert (record.benchmark, record.metric, record.unit, record.better) == ("bench", "latency_ms", "ms", "lower")
    assert (record.labels, record.machine["cores"], record.points) == ({"team": "x"}, 8, 60)
    points = series.points(name)
    assert [one.at for one in points] == [FIRST + n * NIGHT_S for n in range(60)]
    assert points[7].context["commit"] == f"{7:040x}"
    assert points[7].job == "c7-job-0"
    assert points[7].standard_error > 0
    assert series.points(name, newest=3) == points[-3:]


def test_a_result_is_taken_once_and_its_last_word_counts(series):
    results = stepped(count=3)
    for _ in range(2):
        (name,) = fill(series, results)
    assert len(series.points(name)) == 3
    series.add(result(77.0, 1, spread=0.0), "bench", {}, FIRST + NIGHT_S)  # the job was measured again
    assert [round(one.value) for one in series.points(name)] == [10, 77, 10]


def test_failed_jobs_are_points_without_a_value(series):
    (name,) = fill(series, stepped(count=20))
    assert fill(series, [(result(None, 20), FIRST + 20 * NIGHT_S)]) == (name,)
    newest = series.points(name)[-1]
    assert (newest.value, newest.verdict, newest.counts) == (None, "failed", False)
    assert newest.context["machine"] == "bench-1"
    series.check([name])
    assert series.get(name).report["missing"] == 1
    # One that never gave a number has no series to be missing in.
    assert series.add(result(None, 21), "another", {}, FIRST) == ()


def test_invalid_results_are_kept_and_not_believed(series):
    rows = [
        (
            result(10.0 * (3.0 if n >= 30 else 1.0), n, verdict="invalid" if n >= 30 else "valid", spread=0.003),
            FIRST + n * NIGHT_S,
        )
        for n in range(60)
    ]
    (name,) = fill(series, rows)
    assert series.points(name)[-1].value == pytest.approx(30, rel=0.02)
    assert series.check([name]) == ()


def test_another_kind_of_machine_another_label_and_another_point_are_other_series(series):
    names = {
        series.add(result(10.0, 1), "bench", {}, FIRST),
        series.add(result(10.0, 2, cpu="M3 Max"), "bench", {}, FIRST),
        series.add(result(10.0, 3), "bench", {"team": "x"}, FIRST),
        series.add(result(10.0, 4, point={"workload.batch": 8}), "bench", {}, FIRST),
        series.add(result(10.0, 5), "other", {}, FIRST),
        series.add(result(10.0, 6, host="b", driver="9", measure={"runs": 3}), "bench", {}, FIRST),  # the first again
    }
    assert len(names) == 5
    assert len(series.list()) == 5
    assert len(series.list(benchmark="bench")) == 4
    assert len(series.list(text="team")) == 1
    page = series.page(SeriesFilter(benchmark="bench"), limit=3)
    rest = series.page(SeriesFilter(benchmark="bench"), page.next, limit=3)
    assert len({one.id for one in (*page.items, *rest.items)}) == 4
    assert rest.next is None


def test_what_is_named_is_watched_too(series):
    told = result(10.0, 1, objective={"latency_ms.p99": 20.0})
    assert len(series.add(told, "bench", {}, FIRST, ["latency_ms.mean"])) == 3


def test_a_step_is_found_with_its_cause(series):
    driver = lambda n: {"commit": f"{n:040x}", "driver": "560" if n >= 40 else "550"}  # noqa: E731
    (name,) = fill(series, stepped(driver))
    (found,) = series.check([name])
    assert found.state == "open"
    assert found.series.id == name
    assert found.finding.answer == "worse"
    assert 0.06 < found.finding.change < 0.1
    assert found.triage.cause == "environment"
    assert (found.last_good.context["driver"], found.first_bad.context["driver"]) == ("550", "560")
    assert found.last_good.at < found.first_bad.at
    assert series.finding(found.id[:8]) == found
    assert series.findings(benchmark="bench") == (found,)
    assert series.findings(benchmark="other") == series.findings(state="gone") == ()


def test_the_same_step_found_again_is_the_same_finding(series, clock):
    results = stepped(count=100, at=40)
    ids, changes = set(), []
    for number, (one, at) in enumerate(results):
        names = series.add(one, "bench", {}, at)
        clock.pass_s(NIGHT_S)
        for found in series.check(names):
            if found.finding.answer != "cannot tell":
                ids.add(found.id)
                changes.append(number)
    assert len(ids) == 1
    assert 41 <= changes[0] <= 46
    # News is rare: where the place moved, or the cause.
    assert len(changes) <= 5
    (known,) = series.findings(state="open")
    assert abs(known.finding.index - 40) <= 1
    assert known.found_at < clock.utc().timestamp() - 50 * NIGHT_S


def test_nothing_new_is_no_news(series):
    (name,) = fill(series, stepped())
    assert len(series.check([name])) == 1
    assert series.check([name]) == ()
    assert series.check([]) == ()
    assert series.check(["0" * 16]) == ()


def test_a_step_down_and_a_later_step_up_are_two_findings(series):
    values = noisy(120, (40, 0.08), (80, -0.074))
    taken = series.take(points_of(values, better="lower"))
    found = series.check(taken.series)
    assert [one.finding.answer for one in sorted(found, key=lambda one: one.finding.index)] == ["worse", "better"]


def test_a_finding_that_vanishes_with_more_points_is_gone_and_may_come_back(series, fleet):
    (name,) = series.take(points_of(noisy(60, (40, 0.08)), better="lower")).series
    (found,) = series.check([name])
    with fleet.engine.begin() as connection:  # what was measured wrongly is repaired
        connection.execute(text("UPDATE points SET value = value / 1.08 WHERE at >= :at"), {"at": FIRST + 40 * NIGHT_S})
    (gone,) = series.check([name])
    assert (gone.id, gone.state, gone.finding) == (found.id, "gone", found.finding)
    assert series.check([name]) == ()
    with fleet.engine.begin() as connection:
        connection.execute(text("UPDATE points SET value = value * 1.08 WHERE at >= :at"), {"at": FIRST + 40 * NIGHT_S})
    (back,) = series.check([name])
    assert (back.id, back.state) == (found.id, "open")
    assert len(series.findings()) == 1


def test_an_expected_change_is_the_new_level(series):
    values = noisy(100, (40, 0.08), (75, 0.08))
    (name,) = series.take(points_of(values[:60], better="lower")).series
    (first,) = series.check([name])
    expected = series.expect(first.id)
    assert expected.state == "expected"
    assert series.expect(first.id).state == "expected"
    series.take(points_of(values, better="lower"))
    (second,) = series.check([name])
    assert second.id != first.id
    assert abs(second.finding.index - 75) <= 1
    assert second.first_bad.at == FIRST + second.finding.index * NIGHT_S
    assert second.finding.change == pytest.approx(0.08, abs=0.02)
    assert series.finding(first.id).state == "expected"
    # Back to where it was before the expected change is a change.
    lower = [*values, *[one / 1.166 for one in noisy(30, seed=9)]]
    series.take(points_of(lower, better="lower"))
    assert [one.finding.answer for one in series.check([name])] == ["better"]


def test_what_is_gone_cannot_be_expected(series, fleet):
    (name,) = series.take(points_of(noisy(60, (40, 0.08)), better="lower")).series
    (found,) = series.check([name])
    with fleet.engine.begin() as connection:
        connection.execute(text("UPDATE points SET value = 10"))
    series.check([name])
    with pytest.raises(UsageError) as caught:
        series.expect(found.id)
    assert caught.value.problem.code == "lifecycle"


def test_unknown_and_ambiguous_names_are_reported(series):
    with pytest.raises(UsageError) as caught:
        series.get("nothing")
    assert caught.value.problem.code == "unknown-series"
    with pytest.raises(UsageError) as caught:
        series.finding("")
    assert caught.value.problem.code == "unknown-finding"
    taken = series.take([one for n in range(30) for one in points_of([1.0], name=f"s{n}")])
    crowded = max((one[0] for one in taken.series), key=[one[0] for one in taken.series].count)
    with pytest.raises(UsageError) as caught:
        series.get(crowded)
    assert caught.value.problem.code == "ambiguous"


def test_an_import_adds_each_point_once_and_loses_none(series):
    points = [*points_of([1.0, 2.0, None]), *points_of([1.0, 2.0])]  # twice the same time, once even the same value
    first = series.take(points)
    assert (first.added, first.known) == (5, 0)
    again = series.take(points)
    assert (again.added, again.known) == (0, 5)
    more = series.take([*points, FilePoint("s", FIRST, 9.0)])
    assert (more.added, more.known) == (1, 5)
    assert len(series.points(first.series[0])) == 6
    assert series.get(first.series[0]).origin == "import"


def test_a_later_import_may_say_what_is_better(series):
    values = noisy(60, (40, 0.08))
    (name,) = series.take(points_of(values)).series
    (found,) = series.check([name])
    assert found.finding.answer == "cannot tell"
    series.take(points_of(values, better="higher", unit="1/s"))
    (told,) = series.check([name])
    assert (told.id, told.finding.answer, told.series.unit) == (found.id, "better", "1/s")


def test_a_new_jump_is_unconfirmed_and_counts_its_results_until_it_is_believed(series):
    """Looked at after each night, as a server does: a jump of three spreads that is no clearer than chance at first."""
    points = points_of(noisy(60, (40, 0.03), seed=5), better="lower")
    (name,) = series.take(points[:40]).series
    series.check([name])
    told = []
    for count in range(41, 61):
        series.take(points[:count])
        series.check([name])
        for found in series.findings(series=name, state="open"):
            told.append((found.finding.label, found.triage.cause))
            line = "\n".join(findings_table([found], 200))
            assert found.finding.label in line
            assert found.finding.label in render_finding(found, 100)
    words = [word for word, _ in told]
    assert words[0] == "new, unconfirmed (0 of 8)"
    assert words[words.index("worse") - 1].startswith("new, unconfirmed (")
    assert words[-1] == "worse"
    assert {cause for word, cause in told if word != "worse"} == {"unknown"}


def test_older_points_may_come_later(series):
    values = noisy(80, (60, 0.08))
    (name,) = series.take(points_of(values)[30:]).series
    (found,) = series.check([name])
    series.take(points_of(values))
    assert [one.id for one in series.check([name])] in ([], [found.id])
    (known,) = series.findings()
    assert known.id == found.id
    assert abs(known.finding.index - 60) <= 1
    assert known.first_bad.at == FIRST + known.finding.index * NIGHT_S


def test_series_that_are_checked_together_are_judged_together(series):
    """Of 300 series without a change one per hundred shows something; together none of it is believed."""
    points = [one for n in range(300) for one in points_of(noisy(40, seed=n), name=f"s{n}", better="lower")]
    points += points_of(noisy(40, (25, 0.08), seed=999), name="real", better="lower")
    taken = series.take(points)
    series.check(taken.series)
    told = {one.series.benchmark: one.finding.answer for one in series.findings()}
    assert told.pop("real") == "worse"
    assert sum(answer != "cannot tell" for answer in told.values()) <= 1


def test_only_the_newest_points_of_a_long_series_are_checked_and_old_findings_stay(series):
    values = noisy(LONGEST + 400, (200, 0.08), (LONGEST + 300, 0.08))
    (name,) = series.take(points_of(values[:600], better="lower")).series
    (old,) = series.check([name])
    series.take(points_of(values, better="lower"))
    (new,) = series.check([name])
    assert abs(new.finding.index - (LONGEST + 300)) <= 1
    assert new.first_bad.at == FIRST + new.finding.index * NIGHT_S
    assert {one.id: one.state for one in series.findings()} == {old.id: "open", new.id: "open"}


def test_two_who_check_at_once_keep_one_finding(series, fleet, clock):
    results = stepped(count=60)
    (name,) = fill(series, results[:50])
    failures = []

    def work(part):
        mine = SeriesStore(fleet, clock)
        try:
            for one, at in part:
                mine.check(mine.add(one, "bench", {}, at))
        except Exception as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work, args=(results[50 + n :: 4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(series.points(name)) == 60
    assert series.get(name).checked == 60
    assert len(series.findings(series=name)) == 1


def test_a_new_point_costs_little_however_many_series_there_are(series):
    """Adding a point and checking its series asks for nothing of the others."""
    points = [one for n in range(150) for one in points_of(noisy(20, seed=n), name=f"s{n}")]
    series.check(series.take(points).series)
    results = stepped(count=120, at=200)
    (name,) = fill(series, results[:100])
    began = time.process_time()
    for one, at in results[100:]:
        series.check(series.add(one, "bench", {}, at))
    assert (time.process_time() - began) / 20 < 0.25
    assert series.get(name).checked == 120


def test_findings_are_listed_in_pages_the_newest_first(series, clock):
    for n in range(5):
        clock.pass_s(60)
        series.check(series.take(points_of(noisy(60, (40, 0.08)), name=f"s{n}", better="lower")).series)
    page = series.findings_page(limit=3)
    rest = series.findings_page(cursor=page.next, limit=3)
    assert [one.series.benchmark for one in (*page.items, *rest.items)] == ["s4", "s3", "s2", "s1", "s0"]
    assert rest.next is None
    since = page.items[1].found_at
    assert [one.series.benchmark for one in series.findings(since=since)] == ["s4", "s3"]
