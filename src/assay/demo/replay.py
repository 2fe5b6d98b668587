"""A simulated history played into a store: every night becomes a campaign, as if it had been measured here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from pydantic import JsonValue

from assay.analyse.checks import verdict_of
from assay.analyse.judge import judge
from assay.analyse.records import Check, MultiRunJobResult
from assay.clock import iso
from assay.demo.machines import machine_facts
from assay.documents import to_json
from assay.plan.job import Event, Job, campaign_state
from assay.plan.plan import Plan, make_plan
from assay.run.records import Failure, RunOutcome, SingleRunResult
from assay.sim.history import History, NightResult, SimulatedClock, first_night, nights
from assay.sim.history.generator import NightEnvironment
from assay.spec.benchmark import Definition
from assay.spec.load import Loaded, load
from assay.spec.matrix import apply
from assay.spec.target import ModelTarget
from assay.store.store import Store
from assay.version import __version__

if TYPE_CHECKING:
    from assay.series.repository import KnownFinding


# A run of a simulated night takes this long.
_RUN_S = 60.0
# So long after a night begins, all of its results are there.
_MORNING_S = 4 * 3600.0


def play(history: History, store: Store, observer: DetectionObserver, today: datetime) -> int:
    """Play a history into a store; return how many jobs there were."""
    files = {bench.name: bench.file for bench in history.benchmarks}
    plans: dict[str, tuple[Loaded, Plan]] = {}
    jobs = 0
    first = first_night(history, today)
    for number, results in enumerate(nights(history, today)):
        for name, group in groupby(results, key=lambda result: result.benchmark):
            batch = list(group)
            key = json.dumps([name, dict(batch[0].file), batch[0].around.model])
            if key not in plans:
                plans[key] = _planned(files[name], batch[0])
            observer.campaign(store, *_campaign(store, *plans[key], batch))
            jobs += len(batch)
        observer.morning(store, first + timedelta(days=number, seconds=_MORNING_S))
    return jobs


def _planned(document: Mapping[str, JsonValue], first: NightResult) -> tuple[Loaded, Plan]:
    """The plan of a benchmark as its file is in a night."""
    changed = {**apply(document, first.file), **({"matrix": document["matrix"]} if "matrix" in document else {})}
    loaded = load(changed)

    def contents(definition: Definition) -> Mapping[str, str]:
        target = definition.target
        return {target.model: first.around.model} if isinstance(target, ModelTarget) else {}

    return loaded, make_plan(loaded, contents)


def _campaign(store: Store, loaded: Loaded, plan: Plan, results: Iterable[NightResult]) -> tuple[str, datetime]:
    """One campaign of the past: its id, and when it ended."""
    by_job = {past.job: past for past in results}
    begin = min(past.at for past in by_job.values())
    labels = loaded.benchmark.labels
    submitted = store.create_campaign(plan, loaded.source.document, labels, "simulated", SimulatedClock(begin))
    end = begin
    for job in submitted.jobs:
        result = result_of(job, by_job[job.index])
        store.move_job(job.id, "start")
        event: Event = "finish" if result.state == "done" else "fail"
        seconds = _RUN_S * max(result.total_runs, 1)
        store.end_job(job.id, event, verdict=result.verdict, result=to_json(result), seconds=seconds)
        end = max(end, by_job[job.index].at + timedelta(seconds=seconds))
    campaign = submitted.jobs[0].campaign
    states = Counter("failed" if past.failure else "done" for past in by_job.values())
    store.end_campaign(campaign, campaign_state(states), SimulatedClock(end))
    return campaign, end


def result_of(job: Job, drawn: NightResult) -> MultiRunJobResult:
    """The result of a job, as if its runs had given the numbers that were drawn.

    Of the checks it has the one question that the settings answer.
    """
    result = judge(job, _runs(job, drawn), _environment(drawn.around))
    hot = drawn.around.throttled
    detail = "the kernel counted thermal throttle events" if hot else "no thermal throttling"
    checks = () if result.error else (Check("clocks not throttled", not hot, detail),)
    return replace(result, checks=checks, verdict="invalid" if result.error else verdict_of(checks))


def _runs(job: Job, drawn: NightResult) -> list[RunOutcome]:
    count = 1 if drawn.failure else len(next(iter(drawn.values.values())))
    code, _, message = drawn.failure.partition(": ")
    error = Failure(code.replace(" ", "-"), message or drawn.failure, phase="load") if drawn.failure else None
    target = job.definition.target
    facts: dict[str, JsonValue] = {}
    if isinstance(target, ModelTarget):
        facts["model"] = {"file": target.model, "sha256": drawn.around.model}
    runs = (
        SingleRunResult(
            run_id=run,
            is_cold_start=run == 0,
            started_at=iso(drawn.at + timedelta(seconds=_RUN_S * run)),
            completed_at=iso(drawn.at + timedelta(seconds=_RUN_S * (run + 1))),
            duration_seconds=_RUN_S,
            metrics={name: values[run] for name, values in drawn.values.items()},
            facts=facts,
            error=error,
        )
        for run in range(count)
    )
    return [RunOutcome(run) for run in runs]


def _environment(night: NightEnvironment) -> dict[str, JsonValue]:
    """What was around a result, in the words of a real environment record."""
    rounds_ms = {"integer_ms": round(night.integer_ms, 4), "memory_ms": round(night.memory_ms, 4)}
    control: dict[str, JsonValue] = {"control": {"version": 1, **rounds_ms}}
    return {
        "machine": machine_facts(night.host, night.host, night.machine),
        "packages": {**night.machine.packages, "assay": __version__},
        "git": {"commit": night.commit, "changed": False},
        "before": {"fitness": control},
        "after": {"fitness": control},
    }


class DetectionObserver:
    """Checks a store as a server does while results come in."""

    def campaign(self, store: Store, campaign: str, at: datetime) -> tuple[KnownFinding, ...]:
        """Take the results of a campaign into their series: points, findings, alerts."""
        from assay.alert.ingest import observe
        from assay.report.result import read_campaign

        return observe(store, read_campaign(store, campaign), SimulatedClock(at))

    def morning(self, store: Store, at: datetime) -> None:
        from assay.alert.ingest import check_silence
        from assay.alert.rules import rules_of
        from assay.store.alerts import AlertRules

        check_silence(store, rules_of(AlertRules(store.engine).list()), SimulatedClock(at))
