"""Checks of what a program reports: every metric that its file declares, out of all that it wrote."""

from __future__ import annotations

from collections.abc import Mapping

from assay.analyse.checks.evidence import Evidence, Finding
from assay.analyse.headline import declared
from assay.analyse.words import count, listed
from assay.metrics import base_name
from assay.run.records import SingleRunResult
from assay.spec.target import CommandTarget


def declares(evidence: Evidence) -> bool:
    """Whether the file declares metrics of a program."""
    return bool(declared(evidence.job.definition))


def lost_output(evidence: Evidence) -> bool:
    """Whether a run wrote more than is kept."""
    return bool(_dropped(evidence))


def declared_reported(evidence: Evidence) -> Finding:
    """Whether every declared metric has a value at all."""
    names = declared(evidence.job.definition)
    known = {base_name(name) for name in evidence.metrics}
    missing = [name for name in names if name not in known]
    if not missing:
        return True, f"{listed(names)} {'was' if len(names) == 1 else 'were'} reported"
    told = "; ".join(f"{name} has a value in 0 of {_runs(evidence)}{_why(evidence, name)}" for name in missing)
    return False, f"{told}; check target.metrics against what the program prints or emits"


def declared_in_every_run(evidence: Evidence) -> Finding:
    """Whether no run leaves out a declared metric that others have."""
    missing: dict[str, list[int]] = {}
    for name in declared(evidence.job.definition):
        without = [run.run_id for run in evidence.good if not _reports(evidence, run, name)]
        if without and len(without) < len(evidence.good):
            missing[name] = without
    if not missing:
        return True, f"no run of {_runs(evidence)} left out a metric that another one reported"
    told = "; ".join(f"{name} was not reported in {_named(runs)}" for name, runs in missing.items())
    return False, f"{told}, out of {_runs(evidence)}, so its statistics leave them out"


def output_whole(evidence: Evidence) -> Finding:
    """Whether the patterns of the file saw everything that the program wrote."""
    dropped = _dropped(evidence)
    if not dropped:
        return True, "all output was kept"
    run = max(dropped, key=lambda one: dropped[one])
    told = f"run {run} wrote {dropped[run]:,} bytes more than is kept, between the beginning and the end of its output"
    target = evidence.job.definition.target
    searched = isinstance(target, CommandTarget) and any(one.pattern and not one.service for one in target.metrics)
    if not searched:
        return None, f"{told}; no pattern searches it"
    return False, f"{told}; values that were printed there are missing, so print less or use assay.emit"


def _dropped(evidence: Evidence) -> Mapping[int, int]:
    found = {run.run_id: run.facts.get("output_bytes_dropped") for run in evidence.good}
    return {run: size for run, size in found.items() if isinstance(size, int) and size > 0}


def _reports(evidence: Evidence, run: SingleRunResult, name: str) -> bool:
    sampled = {one.metric for one in evidence.samples.get(run.run_id, ()) if one.phase == "measure"}
    return any(base_name(metric) == name for metric in (*sampled, *run.metrics))


def _why(evidence: Evidence, name: str) -> str:
    reasons = dict.fromkeys(run.absent[name] for run in evidence.good if name in run.absent)
    # One that was reported, and yet has no statistics, was NaN or infinite each time.
    return f": {next(iter(reasons), 'all its values are NaN or infinite')}"


def _runs(evidence: Evidence) -> str:
    return count(len(evidence.good), "run")


def _named(runs: list[int]) -> str:
    return f"run{'' if len(runs) == 1 else 's'} {listed([str(run) for run in runs])}"
