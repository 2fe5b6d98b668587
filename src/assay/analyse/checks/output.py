"""Checks of what came back: answers as long as asked, tokens counted, quality, and every metric a program declares."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from assay.analyse.checks.evidence import CheckEvidence, Finding
from assay.analyse.checks.gates import gates_of
from assay.analyse.headline import declared, is_quality
from assay.analyse.text import count, listed, number
from assay.metrics import base_name
from assay.plan.job import Job
from assay.run.records import SingleRunResult
from assay.spec.target import CommandTarget
from assay.spec.workload import Tokens

# A token more or less for the end of an answer is no difference.
_LENGTH = 0.05
# With prompts that mean something, an answer may end by itself; only made-up ones ask for a length.
_EXACT_TASKS = (None, "synthetic", "conversation")


def as_long_as_asked(evidence: CheckEvidence) -> Finding:
    """Whether answers had the length that the file asks for."""
    asked = evidence.job.definition.workload.output_tokens
    if asked is None:
        return None, "no length of the answers was asked for"
    found = _lengths(evidence, asked)
    if found is None:
        return None, "the tokens of the answers were not counted"
    wanted, got = found
    told = f"answers have {number(got)} tokens where {number(wanted)} were asked for"
    if evidence.job.definition.workload.task not in _EXACT_TASKS and got <= wanted * (1 + _LENGTH):
        return True, f"{told} at most"
    if abs(got - wanted) <= max(_LENGTH * wanted, 1.0):
        return True, told
    reasons = _finish_reasons(evidence)
    why = f" (they ended by: {reasons})" if reasons else ""
    remedy = "set target.options.ignore_eos where the server knows it" if got < wanted else "the limit was not kept"
    return False, f"{told}{why}; {remedy}"


def _lengths(evidence: CheckEvidence, asked: int | Tokens) -> tuple[float, float] | None:
    """Tokens asked for and delivered: medians request by request where they were kept, else of the whole."""
    for lengths in evidence.facts("lengths").values():
        side = lengths.get("output")
        wanted, off = (
            (_median(side.get(name)) for name in ("asked", "difference")) if isinstance(side, Mapping) else (None, None)
        )
        if wanted is not None and off is not None:
            return wanted, wanted + off
    stats = evidence.metrics.get("output_tokens")
    if stats is None:
        return None
    return (asked.mean, stats.mean) if isinstance(asked, Tokens) else (float(asked), stats.median)


def _median(told: JsonValue) -> float | None:
    value = told.get("median") if isinstance(told, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def _finish_reasons(evidence: CheckEvidence) -> str:
    totals: dict[str, int] = {}
    for reasons in evidence.facts("finish_reasons").values():
        for reason, times in reasons.items():
            totals[reason] = totals.get(reason, 0) + (times if isinstance(times, int) else 0)
    return listed([f"{reason} {times:,}" for reason, times in sorted(totals.items(), key=lambda item: -item[1])])


def tokens_counted(evidence: CheckEvidence) -> Finding:
    """Whether tokens were counted by who knows them, and each arrival on its own."""
    told = evidence.facts("tokens")
    if not told:
        return None, "nothing was counted in tokens"
    for run, facts in told.items():
        wrong = _disagreement(facts) or _bundled(facts)
        if wrong:
            return False, f"run {run}: {wrong}"
    facts = next(iter(told.values()))
    sources = {side: _source(facts.get(side)) for side in ("input", "output")}
    named = [f"{side} tokens by {source}" for side, source in sources.items() if source]
    if named and facts.get("bundled"):
        named.append("the server sends several tokens in one piece, and a tokenizer told how many each piece has")
    return (True, listed(named)) if named else (None, "who counted the tokens was not recorded")


def _source(side: JsonValue) -> str:
    """Who counted one side's tokens; several sources with how many requests each counted."""
    found = side.get("source") if isinstance(side, Mapping) else side
    if isinstance(found, Mapping):
        return listed([f"{name} ({times})" for name, times in found.items()])
    return found if isinstance(found, str) else ""


def _disagreement(facts: Mapping[str, JsonValue]) -> str:
    """Say so where the server's count and that of the tokenizer named in the file differ."""
    for key, what in (("tokenizer_disagrees", "answers"), ("tokenizer_disagrees_on_prompts", "prompts")):
        given = facts.get(key)
        if isinstance(given, Mapping):
            local = given.get("local_tokenizer")
            both = f"{given.get('used')} tokens were counted and target.tokenizer makes them {local}"
            return f"of {given.get(what)} {what} {both}: it is not the tokenizer of this model"
        if given:
            return given if isinstance(given, str) else f"two counts of the tokens of {what} disagree"
    return ""


def _bundled(facts: Mapping[str, JsonValue]) -> str:
    """Say so where a piece of an answer holds several tokens, and no tokenizer told how many."""
    split = facts.get("chunks_split")
    evenly, known = (split.get("evenly"), split.get("by_tokenizer")) if isinstance(split, Mapping) else (None, None)
    if not facts.get("bundled") or evenly == 0:
        return ""
    each = facts.get("tokens_per_chunk")
    mean = each.get("mean") if isinstance(each, Mapping) else each
    many = f"{number(mean)} tokens each" if isinstance(mean, int | float) else "several tokens each"
    told = f"the server sends pieces of {many}, so itl_ms is their gap shared out evenly"
    if isinstance(evenly, int) and isinstance(known, int):
        told += f" in {evenly} of {evenly + known} answers"
    return f"{told}; chunk_gap_ms is what a reader sees; target.tokenizer would tell how many tokens each piece has"


def names_quality(job: Job) -> bool:
    """Whether an objective of the job is about how good answers are."""
    return any(is_quality(name.rpartition(".")[0]) for name in job.definition.objective)


def good_enough(evidence: CheckEvidence) -> Finding:
    """Whether every objective on the quality of answers is met: fast and wrong is no result."""
    gates = [one for one in gates_of(evidence.job, evidence.metrics) if is_quality(one.name.rpartition(".")[0])]
    if not gates:
        return None, "no objective names how good the answers must be"
    missed = [gate.detail for gate in gates if gate.passed is False]
    if missed:
        return False, "; ".join(missed)
    untold = [gate.detail for gate in gates if gate.passed is None]
    return (None, "; ".join(untold)) if untold else (True, "; ".join(gate.detail for gate in gates))


def declares(evidence: CheckEvidence) -> bool:
    """Whether the file declares metrics of a program."""
    return bool(declared(evidence.job.definition))


def lost_output(evidence: CheckEvidence) -> bool:
    """Whether a run wrote more than is kept."""
    return bool(_dropped(evidence))


def declared_reported(evidence: CheckEvidence) -> Finding:
    """Whether every declared metric has a value at all."""
    names = declared(evidence.job.definition)
    known = {base_name(name) for name in evidence.metrics}
    missing = [name for name in names if name not in known]
    if not missing:
        return True, f"{listed(names)} {'was' if len(names) == 1 else 'were'} reported"
    told = "; ".join(f"{name} has a value in 0 of {_runs(evidence)}{_why(evidence, name)}" for name in missing)
    return False, f"{told}; check target.metrics against what the program prints or emits"


def declared_in_every_run(evidence: CheckEvidence) -> Finding:
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


def output_whole(evidence: CheckEvidence) -> Finding:
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


def _dropped(evidence: CheckEvidence) -> Mapping[int, int]:
    found = {run.run_id: run.facts.get("output_bytes_dropped") for run in evidence.good}
    return {run: size for run, size in found.items() if isinstance(size, int) and size > 0}


def _reports(evidence: CheckEvidence, run: SingleRunResult, name: str) -> bool:
    sampled = {one.metric for one in evidence.samples.get(run.run_id, ()) if one.phase == "measure"}
    return any(base_name(metric) == name for metric in (*sampled, *run.metrics))


def _why(evidence: CheckEvidence, name: str) -> str:
    reasons = dict.fromkeys(run.absent[name] for run in evidence.good if name in run.absent)
    # One that was reported, and yet has no statistics, was NaN or infinite each time.
    return f": {next(iter(reasons), 'all its values are NaN or infinite')}"


def _runs(evidence: CheckEvidence) -> str:
    return count(len(evidence.good), "run")


def _named(runs: list[int]) -> str:
    return f"run{'' if len(runs) == 1 else 's'} {listed([str(run) for run in runs])}"
