"""What results and findings tell, with their doubt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.histories import result
from tests.unit.alert.setups import T0, rule

from assay.alert.events import of_ended, of_finding, of_result
from assay.alert.lifecycle import key_of, occurred
from assay.alert.rules import judge
from assay.analyse.records import Interval
from assay.analyse.series import Finding
from assay.analyse.series.causes import CauseAnalysis, FactorDifference
from assay.analyse.series.identity import identity, machine_kind
from assay.analyse.summary import summarise
from assay.run.records import SampleSet
from assay.series.repository import KnownFinding
from assay.store.overview import EndedJob
from assay.store.series import Point, SeriesRecord

LIMIT = rule("latency_ms > 5")


def told(one, *rules, **more):
    return of_result(one, rules, benchmark="bench", campaign="c1", at=T0, **more)


def limits(one, *rules, **more):
    return [event for event in told(one, *rules, **more) if event.kind == "threshold"]


def test_a_job_that_failed_reports_why_and_one_that_did_not_that_it_is_over():
    (event,) = told(result(None, 1))
    assert (event.kind, event.at, event.job) == ("failed", T0, "c1-job-0")
    assert event.reason == "error[crashed]: the process died"
    events = told(result(10.0, 1))
    assert [(one.kind, one.of) for one in events] == [("recovered", "failed"), ("recovered", "silent")]
    assert events[0].subject == event.subject
    assert events[1].subject == "bench"
    assert told(replace(result(10.0, 1), state="cancelled")) == ()


def test_the_point_is_the_same_whether_a_result_or_the_history_reports_of_it():
    (event,) = told(replace(result(None, 1), point={"workload.batch": 8}))
    history = of_ended(EndedJob(T0, "c1-job-0", "c1", "bench", "batch=8", done=False, reason="no agent"))
    assert (event.subject, event.id, event.name) == (history.subject, history.id, history.name)


def test_only_what_has_a_limit_is_reported_with_its_interval_and_its_series():
    one = result(10.0, 1, spread=0.01)
    assert limits(one, rule("latency_ms worse"), rule("other_ms > 5")) == []
    (event,) = limits(one, LIMIT, rule("latency_ms > 50"))
    assert event.value == pytest.approx(10.0, rel=0.05)
    assert event.interval.low < event.value < event.interval.high
    kind = machine_kind(one.environment)
    assert event.series == identity("bench", one.definition, one.point, kind, "latency_ms", {})
    assert judge(LIMIT, event).answer == "yes"
    elsewhere = of_result(one, [rule("latency_ms > 5", benchmark="chat*")], benchmark="bench", campaign="", at=T0)
    assert len(elsewhere) == 2


def test_two_machines_and_two_points_are_two_subjects():
    (one,) = limits(result(10.0, 1), LIMIT)
    (other,) = limits(result(10.0, 1, cpu="another"), LIMIT)
    (third,) = limits(result(10.0, 1, point={"workload.batch": 8}), LIMIT)
    assert len({one.subject, other.subject, third.subject}) == 3
    (later,) = limits(result(10.0, 2, commit="b" * 40), LIMIT)
    assert later.subject == one.subject


@pytest.mark.parametrize(
    ("change", "because"),
    [
        (lambda one: replace(one, verdict="invalid"), "invalid"),
        (lambda one: replace(one, metrics={"latency_ms": replace(one.metrics["latency_ms"], runs=1)}), "one run"),
        (lambda one: replace(one, metrics={"latency_ms": replace(one.metrics["latency_ms"], median=float("nan"))}),
         "not given"),
    ],
)  # fmt: skip
def test_what_is_not_known_well_enough_cannot_be_decided(change, because):
    (event,) = limits(change(result(10.0, 1)), LIMIT)
    said = judge(LIMIT, event)
    assert said.answer == "cannot tell"
    assert because in said.because


def sampled(means, count=1000, seed=1):
    """A result of runs with samples, and a way to read them."""
    rng = np.random.default_rng(seed)
    values = {run: rng.exponential(mean, count) for run, mean in enumerate(means)}
    one = result(10.0, 1)
    stats = summarise("latency_ms", "ms", "lower", values)
    sets = {run: (SampleSet("latency_ms", "measure", np.arange(count), part),) for run, part in values.items()}
    return replace(one, metrics={"latency_ms": stats}), sets.__getitem__


def test_a_percentile_has_an_interval_from_its_values_in_each_run():
    one, samples = sampled([10.0, 10.5, 9.5])
    p99 = rule("latency_ms.p99 > 40")
    (event,) = limits(one, p99, samples=samples)
    assert event.metric == "latency_ms.p99"
    assert event.value == one.metrics["latency_ms"].p99
    per_run = [float(np.quantile(samples(run)[0].value, 0.99)) for run in range(3)]
    assert event.interval.low < min(per_run)
    assert event.interval.high > max(per_run)
    (blind,) = limits(one, p99)
    assert (blind.value, blind.interval) == (event.value, None)
    assert judge(p99, blind).answer == "cannot tell"
    short, few = sampled([10.0, 10.5, 9.5], count=20)
    (event,) = limits(short, p99, samples=few)
    assert (event.value, "not given" in event.doubt) == (None, True)


def test_one_bad_run_is_no_broken_limit():
    calm, read_calm = sampled([10.0, 10.0, 10.0])
    wild, read_wild = sampled([10.0, 10.0, 40.0])
    above = rule("latency_ms.p95 > 25")
    assert judge(above, limits(calm, above, samples=read_calm)[0]).answer == "yes"
    assert judge(above, limits(wild, above, samples=read_wild)[0]).answer == "cannot tell"


def known(state="open", **more):
    series = SeriesRecord("s" * 16, "bench", "latency_ms", "ms", "lower", {"workload.batch": 8})
    ends = Interval(-float("inf"), 3.0, 0.95, "test")
    found = Finding(
        "step",
        5,
        4,
        5,
        (5, 5),
        10.0,
        12.0,
        2.0,
        ends,
        0.2,
        Interval(0.1, 0.3, 0.95, "test"),
        1e-6,
        0.99,
        "worse",
        "worse",
    )
    said = CauseAnalysis("code", ("commit changed",), (FactorDifference("commit", "a" * 40, "b" * 40),))
    given = {
        "last_good": Point(4, T0 - 9, 10.0),
        "first_bad": Point(5, T0 - 3, 12.0, job="c7-job-2", context={"machine": "node7"}),
        "found_at": T0,
        **more,
    }
    return KnownFinding("f" * 16, series, found, said, state, **given)


def test_a_finding_reports_the_change_its_cause_and_where_it_was_seen():
    event = of_finding(known(), T0)
    assert (event.kind, event.subject, event.series, event.campaign) == ("finding", "f" * 16, "s" * 16, "c7")
    assert event.name == "bench batch=8: latency_ms"
    change = event.finding
    assert (change.cause, change.machine, change.since) == ("code", "node7", T0 - 3)
    assert (change.differs[0].before, change.differs[0].after) == ("a" * 40, "b" * 40)
    alert, _ = occurred(None, event, [rule("latency_ms worse")], key=key_of(event, LIMIT), now=T0)
    from assay.alert.records import kept_of, record_of

    assert record_of(kept_of(alert)) == alert, "JSON has no word for infinity"


@pytest.mark.parametrize("state", ["gone", "expected"])
def test_a_finding_that_is_none_any_more_is_over(state):
    event = of_finding(known(state), T0)
    assert (event.kind, event.of, event.subject) == ("recovered", "finding", "f" * 16)
    assert event.reason


def test_an_imported_series_has_no_campaign():
    event = of_finding(known(first_bad=Point(5, T0, 12.0)), T0)
    assert (event.job, event.campaign) == ("", "")
