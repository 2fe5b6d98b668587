"""The table of checks: name, question, and what a failure means for the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from assay.analyse.checks import fitness, machine, numbers, output, runs
from assay.analyse.checks.evidence import NOTHING_MEASURED, CheckEvidence, Finding
from assay.analyse.headline import declared, headline
from assay.analyse.records import Check, MetricStatistics, Verdict, section
from assay.plan.job import Job
from assay.run.records import SampleSet, SingleRunResult

Fit = Literal["fit", "fit with doubts", "not fit"]


def _of_states(judge: Callable[[fitness.State], Finding]) -> Callable[[CheckEvidence], Finding]:
    """A question about a state, asked of those before and after a job."""
    return lambda evidence: fitness.worst(evidence, judge)


CHECKS: Mapping[str, Callable[[CheckEvidence], Finding]] = {
    "requested device used": machine.device_used,
    "errors below the limit": numbers.errors_few,
    "something measured": numbers.something_measured,
    "declared metrics reported": output.declared_reported,
    "declared metrics in every run": output.declared_in_every_run,
    "output read whole": output.output_whole,
    "values finite": numbers.values_finite,
    "enough runs": runs.enough_runs,
    "enough samples": numbers.enough_samples,
    "warm-up over": numbers.warm_up_over,
    "steady state reached": numbers.steady_state,
    "interval narrow enough": runs.interval_narrow,
    "precise as asked": runs.precise_as_asked,
    "one level": runs.one_level,
    "runs independent": runs.runs_independent,
    "tail percentile backed": numbers.tail_backed,
    "machine quiet": machine.machine_quiet,
    "clocks not throttled": machine.clocks_steady,
    "no foreign process on the device": machine.device_alone,
    "device held alone": lambda evidence: fitness.held(evidence.environment),
    "control workload steady": fitness.control_steady,
    "cool enough": _of_states(fitness.cool),
    "memory free": fitness.memory_free,
    "clock source steady": fitness.clock_steady,
    "governor set for speed": _of_states(fitness.governor),
    "turbo off or steady": fitness.turbo_steady,
    "client below its own ceiling": machine.client_below_ceiling,
    "load delivered": output.load_delivered,
    "answers as long as asked": output.output_length,
    "tokens counted": output.tokens_counted,
    "answers good enough": output.good_enough,
}


def _was_read(part: str, name: str) -> Callable[[CheckEvidence], bool]:
    """Whether a state before or after the job tells something."""
    return lambda evidence: any(name in section(state, part) for state in fitness.states(evidence).values())


def _declares(evidence: CheckEvidence) -> bool:
    return bool(declared(evidence.job.definition))


# Questions that only some jobs raise; elsewhere they are left out, since "unknown" would only be noise.
APPLIES: Mapping[str, Callable[[CheckEvidence], bool]] = {
    "precise as asked": lambda evidence: evidence.job.definition.adds_runs,
    "declared metrics reported": _declares,
    "declared metrics in every run": _declares,
    "output read whole": lambda evidence: bool(output.lost_output(evidence)),
    "device held alone": lambda evidence: "lock" in evidence.environment or bool(fitness.states(evidence)),
    "control workload steady": lambda evidence: bool(fitness.states(evidence)),
    "cool enough": lambda evidence: bool(fitness.states(evidence)),
    "memory free": lambda evidence: bool(fitness.states(evidence)),
    # Virtual machines and containers have no say over their clock, and not every system names its source.
    "clock source steady": _was_read("clock", "source"),
    "governor set for speed": _was_read("processor", "governors"),
    "turbo off or steady": _was_read("processor", "turbo"),
    "load delivered": lambda evidence: evidence.is_served,
    "answers as long as asked": lambda evidence: evidence.job.definition.workload.output_tokens is not None,
    "tokens counted": lambda evidence: bool(evidence.facts("tokens")),
    "answers good enough": lambda evidence: output.names_quality(evidence.job),
}

# A failure of these means that the numbers are not what they say they are. Any other failure leaves them true
# but less certain than they look.
INVALIDATING = frozenset(
    {
        "requested device used",
        "errors below the limit",
        "something measured",
        "declared metrics reported",
        "answers good enough",
    }
)
# How a machine is set up as it is delivered. It may cost speed or steadiness; whether it did, the spread between runs
# and the control workload show by themselves. An interval that is wider than was hoped for is still right, and so is
# one over two levels: a verdict that asked for narrow ones would choose those that are narrow by luck. So a failure is
# reported and does not make a result suspect.
ADVISORY = frozenset({"governor set for speed", "turbo off or steady", "precise as asked", "one level"})
# What can be asked also where every run failed.
_OF_FAILED_RUNS = (INVALIDATING | {"enough runs"}) - {"answers good enough", "declared metrics reported"}

# The questions that can be asked of a machine before anything is measured on it, in the order in which they matter.
CONDITIONS: Mapping[str, Callable[[fitness.State], Finding]] = {
    "machine quiet": machine.quiet_now,
    "clocks not throttled": machine.clocks_now,
    "no foreign process on the device": machine.alone_now,
    "device held alone": fitness.held,
    "control workload steady": fitness.control,
    "cool enough": fitness.cool,
    "memory free": fitness.memory,
    "clock source steady": fitness.clock,
    "governor set for speed": fitness.governor,
    "turbo off or steady": fitness.turbo,
}


def checks_of(
    job: Job,
    runs: Sequence[SingleRunResult],
    metrics: Mapping[str, MetricStatistics],
    samples: Mapping[int, tuple[SampleSet, ...]],
    environment: Mapping[str, JsonValue] | None = None,
) -> tuple[Check, ...]:
    """Ask every question of the table that the job raises."""
    evidence = CheckEvidence(job, runs, metrics, samples, headline(job.definition, metrics), environment or {})
    return tuple(
        Check(name, *(judge(evidence) if evidence.good or name in _OF_FAILED_RUNS else NOTHING_MEASURED))
        for name, judge in CHECKS.items()
        if name not in APPLIES or APPLIES[name](evidence)
    )


def verdict_of(checks: Sequence[Check]) -> Verdict:
    """What the checks add up to: invalid, suspect or valid."""
    failed = {check.name for check in checks if check.passed is False}
    if failed & INVALIDATING:
        return "invalid"
    return "suspect" if failed - ADVISORY else "valid"


def conditions_of(state: fitness.State) -> tuple[Check, ...]:
    """Ask every question that the state of a machine answers by itself."""
    return tuple(Check(name, *judge(state)) for name, judge in CONDITIONS.items())


def fit_of(checks: Sequence[Check]) -> Fit:
    """Whether a machine is fit to be measured on, by its conditions."""
    failed = {check.name for check in checks if check.passed is False}
    if failed - ADVISORY:
        return "not fit"
    return "fit with doubts" if failed else "fit"
