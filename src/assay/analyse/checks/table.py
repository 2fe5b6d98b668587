"""The table of checks: name, question, and what a failure means for the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

from assay.analyse.checks import answers, client, machine, numbers
from assay.analyse.checks.evidence import NOTHING_MEASURED, Evidence, Finding
from assay.analyse.headline import headline
from assay.analyse.records import Check, MetricStatistics, Verdict
from assay.plan.job import Job
from assay.run.records import SampleSet, SingleRunResult

CHECKS: Mapping[str, Callable[[Evidence], Finding]] = {
    "requested device used": machine.device_used,
    "errors below the limit": numbers.errors_few,
    "something measured": numbers.something_measured,
    "values finite": numbers.values_finite,
    "enough runs": numbers.enough_runs,
    "enough samples": numbers.enough_samples,
    "warm-up over": numbers.warm_up_over,
    "steady state reached": numbers.steady_state,
    "interval narrow enough": numbers.interval_narrow,
    "tail percentile backed": numbers.tail_backed,
    "machine quiet": machine.machine_quiet,
    "clocks not throttled": machine.clocks_steady,
    "no foreign process on the device": machine.device_alone,
    "client below its own ceiling": machine.client_below_ceiling,
    "load delivered": client.load_delivered,
    "answers as long as asked": answers.as_long_as_asked,
    "tokens counted": answers.tokens_counted,
    "answers good enough": answers.good_enough,
}

# Questions that only some jobs raise; elsewhere they are left out, since "not told" would only be noise.
APPLIES: Mapping[str, Callable[[Evidence], bool]] = {
    "load delivered": lambda evidence: evidence.is_served,
    "answers as long as asked": lambda evidence: evidence.job.definition.workload.output_tokens is not None,
    "tokens counted": lambda evidence: bool(evidence.facts("tokens")),
    "answers good enough": lambda evidence: answers.names_quality(evidence.job),
}

# A failure of these means that the numbers are not what they say they are. Any other failure leaves them true
# but less certain than they look.
INVALIDATING = frozenset(
    {"requested device used", "errors below the limit", "something measured", "answers good enough"}
)
# What can be asked also where every run failed.
_OF_FAILED_RUNS = (INVALIDATING | {"enough runs"}) - {"answers good enough"}


def checks_of(
    job: Job,
    runs: Sequence[SingleRunResult],
    metrics: Mapping[str, MetricStatistics],
    samples: Mapping[int, tuple[SampleSet, ...]],
    environment: Mapping[str, JsonValue] | None = None,
) -> tuple[Check, ...]:
    """Ask every question of the table that the job raises.

    Args:
        job: What was asked for.
        runs: All runs, the failed ones too.
        metrics: The statistics of the runs without an error.
        samples: Run id → its samples.
        environment: Where they ran, and in which state that was before and after.
    """
    evidence = Evidence(job, runs, metrics, samples, headline(job.definition, metrics), environment or {})
    return tuple(
        Check(name, *(ask(evidence) if evidence.good or name in _OF_FAILED_RUNS else NOTHING_MEASURED))
        for name, ask in CHECKS.items()
        if name not in APPLIES or APPLIES[name](evidence)
    )


def verdict_of(checks: Sequence[Check]) -> Verdict:
    """What the checks add up to: invalid, suspect or valid."""
    failed = {check.name for check in checks if check.passed is False}
    if failed & INVALIDATING:
        return "invalid"
    return "suspect" if failed else "valid"
