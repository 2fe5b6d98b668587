"""Checks of what came back: were answers as long as asked, how were tokens counted, were they good enough."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from assay.analyse.checks.evidence import Evidence, Finding
from assay.analyse.checks.gates import gates_of
from assay.analyse.quality import is_quality
from assay.analyse.words import listed, number
from assay.plan.job import Job
from assay.spec.workload import Tokens

# A token more or less for the end of an answer is no difference.
_LENGTH = 0.05
# With prompts that mean something, an answer may end by itself; only made-up ones ask for a length.
_EXACT_TASKS = (None, "synthetic", "conversation")


def as_long_as_asked(evidence: Evidence) -> Finding:
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


def _lengths(evidence: Evidence, asked: int | Tokens) -> tuple[float, float] | None:
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


def _finish_reasons(evidence: Evidence) -> str:
    totals: dict[str, int] = {}
    for reasons in evidence.facts("finish_reasons").values():
        for reason, times in reasons.items():
            totals[reason] = totals.get(reason, 0) + (times if isinstance(times, int) else 0)
    return listed([f"{reason} {times:,}" for reason, times in sorted(totals.items(), key=lambda item: -item[1])])


def tokens_counted(evidence: Evidence) -> Finding:
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


def good_enough(evidence: Evidence) -> Finding:
    """Whether every objective on the quality of answers is met: fast and wrong is no result."""
    gates = [one for one in gates_of(evidence.job, evidence.metrics) if is_quality(one.name.rpartition(".")[0])]
    if not gates:
        return None, "no objective names how good the answers must be"
    missed = [gate.detail for gate in gates if gate.passed is False]
    if missed:
        return False, "; ".join(missed)
    untold = [gate.detail for gate in gates if gate.passed is None]
    return (None, "; ".join(untold)) if untold else (True, "; ".join(gate.detail for gate in gates))
