"""Checks of a load and of what came back: client, delivery, lengths and quality of answers, metrics of programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from assay.analyse.checks.evidence import CheckEvidence, Finding, all_of
from assay.analyse.checks.numbers import gates_of
from assay.analyse.headline import declared, is_quality
from assay.analyse.text import count, listed, number, percent, run_name, run_names
from assay.metrics import base_name
from assay.plan.job import Job
from assay.run.records import OUT_OF_REACH, SingleRunResult
from assay.spec.target import CommandTarget
from assay.spec.workload import Load, Tokens

# A token more or less for the end of an answer is no difference.
_LENGTH = 0.05
# With prompts that mean something, an answer may end by itself; only made-up ones ask for a length.
_EXACT_TASKS = (None, "synthetic", "conversation")


def output_length(evidence: CheckEvidence) -> Finding:
    """Whether answers had the length that the file asks for."""
    requested = evidence.job.definition.workload.output_tokens
    if requested is None:
        return None, "no length of the answers was asked for"
    lengths = _lengths(evidence, requested)
    if lengths is None:
        return None, "the tokens of the answers were not counted"
    wanted, got = lengths
    summary = f"answers have {number(got)} tokens where {number(wanted)} were asked for"
    if evidence.job.definition.workload.task not in _EXACT_TASKS and got <= wanted * (1 + _LENGTH):
        return True, f"{summary} at most"
    if abs(got - wanted) <= max(_LENGTH * wanted, 1.0):
        return True, summary
    reasons = _finish_reasons(evidence)
    why = f" (they ended by: {reasons})" if reasons else ""
    remedy = "set target.options.ignore_eos where the server knows it" if got < wanted else "the limit was not kept"
    return False, f"{summary}{why}; {remedy}"


def _lengths(evidence: CheckEvidence, requested: int | Tokens) -> tuple[float, float] | None:
    """Tokens asked for and delivered: medians request by request where they were kept, else of the whole."""
    for lengths in evidence.facts("lengths").values():
        if isinstance(side := lengths.get("output"), Mapping):
            wanted, off = (_median(side.get(name)) for name in ("asked", "difference"))
            if wanted is not None and off is not None:
                return wanted, wanted + off
    stats = evidence.metrics.get("output_tokens")
    if stats is None:
        return None
    return (requested.mean, stats.mean) if isinstance(requested, Tokens) else (float(requested), stats.median)


def _median(quantity: JsonValue) -> float | None:
    value = quantity.get("median") if isinstance(quantity, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def _finish_reasons(evidence: CheckEvidence) -> str:
    totals: dict[str, int] = {}
    for reasons in evidence.facts("finish_reasons").values():
        for reason, times in reasons.items():
            totals[reason] = totals.get(reason, 0) + (times if isinstance(times, int) else 0)
    return listed([f"{reason} {times:,}" for reason, times in sorted(totals.items(), key=lambda item: -item[1])])


def tokens_counted(evidence: CheckEvidence) -> Finding:
    """Whether tokens were counted by the model's own tokenizer, and each arrival on its own."""
    by_run = evidence.facts("tokens")
    if not by_run:
        return None, "nothing was counted in tokens"
    for run, facts in by_run.items():
        if wrong := _disagreement(facts) or _bundled(facts):
            return False, f"{run_name(run)}: {wrong}"
    facts = next(iter(by_run.values()))
    sources = {side: _source(facts.get(side)) for side in ("input", "output")}
    named = [f"{side} tokens by {source}" for side, source in sources.items() if source]
    if named and facts.get("bundled"):
        named.append("the server sends several tokens in one piece, and a tokenizer counted those of each piece")
    return (True, listed(named)) if named else (None, "who counted the tokens was not recorded")


def _source(side: JsonValue) -> str:
    """Who counted one side's tokens; several sources with how many requests each counted."""
    source = side.get("source") if isinstance(side, Mapping) else side
    if isinstance(source, Mapping):
        return listed([f"{name} ({times})" for name, times in source.items()])
    return source if isinstance(source, str) else ""


def _disagreement(facts: Mapping[str, JsonValue]) -> str:
    """Say so where the server's count and that of the tokenizer named in the file differ."""
    for key, what in (("tokenizer_disagrees", "answers"), ("tokenizer_disagrees_on_prompts", "prompts")):
        counts = facts.get(key)
        if isinstance(counts, Mapping):
            local = counts.get("local_tokenizer")
            both = f"{counts.get('used')} tokens were counted and target.tokenizer makes them {local}"
            return f"of {counts.get(what)} {what} {both}: it is not the tokenizer of this model"
        if counts:
            return counts if isinstance(counts, str) else f"two counts of the tokens of {what} disagree"
    return ""


def _bundled(facts: Mapping[str, JsonValue]) -> str:
    """Say so where a piece of an answer holds several tokens, and no tokenizer counted them."""
    split = facts.get("chunks_split")
    evenly, tokenized = (split.get("evenly"), split.get("by_tokenizer")) if isinstance(split, Mapping) else (None, None)
    if not facts.get("bundled") or evenly == 0:
        return ""
    per_chunk = facts.get("tokens_per_chunk")
    mean = per_chunk.get("mean") if isinstance(per_chunk, Mapping) else per_chunk
    many = f"{number(mean)} tokens each" if isinstance(mean, int | float) else "several tokens each"
    summary = f"the server sends pieces of {many}, so itl_ms is their gap shared out evenly"
    if isinstance(evenly, int) and isinstance(tokenized, int):
        summary += f" in {evenly} of {evenly + tokenized} answers"
    return f"{summary}; chunk_gap_ms is what a reader sees; name target.tokenizer to count the tokens of each piece"


def names_quality(job: Job) -> bool:
    """Whether an objective of the job is about how good answers are."""
    return any(is_quality(name.rpartition(".")[0]) for name in job.definition.objective)


def good_enough(evidence: CheckEvidence) -> Finding:
    """Whether every objective on the quality of answers is met: fast and wrong is no result."""
    gates = [check for check in gates_of(evidence.job, evidence.metrics) if is_quality(check.name.rpartition(".")[0])]
    if not gates:
        return None, "no objective names how good the answers must be"
    missed = [gate.detail for gate in gates if gate.passed is False]
    if missed:
        return False, "; ".join(missed)
    undecided = [gate.detail for gate in gates if gate.passed is None]
    return (None, "; ".join(undecided)) if undecided else (True, "; ".join(gate.detail for gate in gates))


def lost_output(evidence: CheckEvidence) -> Mapping[int, int]:
    """Run id → by how many bytes it wrote more than is kept, for those that did."""
    dropped = {run.run_id: run.facts.get("output_bytes_dropped") for run in evidence.good}
    return {run: size for run, size in dropped.items() if isinstance(size, int) and size > 0}


def declared_reported(evidence: CheckEvidence) -> Finding:
    """Whether every declared metric has a value at all; unknown for those that this engine cannot read."""
    names = declared(evidence.job.definition)
    reported = {base_name(name) for name in evidence.metrics}
    missing = [name for name in names if name not in reported]
    if not missing:
        return True, f"{listed(names)} {'was' if len(names) == 1 else 'were'} reported"
    # One that was reported, and yet has no statistics, was NaN or infinite each time.
    unknown = "all its values are NaN or infinite"
    reasons = {
        name: next((run.absent[name] for run in evidence.good if name in run.absent), unknown) for name in missing
    }
    summary = "; ".join(f"{name} has a value in 0 of {_runs(evidence)}: {why}" for name, why in reasons.items())
    return (None if all(why.endswith(OUT_OF_REACH) for why in reasons.values()) else False), summary


def declared_in_every_run(evidence: CheckEvidence) -> Finding:
    """Whether no run leaves out a declared metric that others have."""
    missing: dict[str, list[int]] = {}
    for name in declared(evidence.job.definition):
        without = [run.run_id for run in evidence.good if not _reports(evidence, run, name)]
        if without and len(without) < len(evidence.good):
            missing[name] = without
    if not missing:
        return True, f"no run of {_runs(evidence)} left out a metric that another one reported"
    summary = "; ".join(f"{name} was not reported in {run_names(runs)}" for name, runs in missing.items())
    return False, f"{summary}, out of {_runs(evidence)}, so its statistics leave them out"


def output_whole(evidence: CheckEvidence) -> Finding:
    """Whether the patterns of the file saw everything that the program wrote."""
    dropped = lost_output(evidence)
    if not dropped:
        return True, "all output was kept"
    run = max(dropped, key=lambda key: dropped[key])
    amount = f"{dropped[run]:,} bytes more than is kept"
    summary = f"{run_name(run)} wrote {amount}, between the beginning and the end of its output"
    target = evidence.job.definition.target
    searched = isinstance(target, CommandTarget) and any(
        metric.pattern and not metric.service for metric in target.metrics
    )
    if not searched:
        return None, f"{summary}; no pattern searches it"
    return False, f"{summary}; values that were printed there are missing, so print less or use assay.emit"


def _reports(evidence: CheckEvidence, run: SingleRunResult, name: str) -> bool:
    sampled = {
        sample_set.metric for sample_set in evidence.samples.get(run.run_id, ()) if sample_set.phase == "measure"
    }
    return any(base_name(metric) == name for metric in (*sampled, *run.metrics))


def _runs(evidence: CheckEvidence) -> str:
    return count(len(evidence.good), "run")


# The limit of each share, in percent, and what is reported about one within it and one beyond it.
_CLIENT_SHARES = (
    # Above it, times begin to be those of the client.
    (
        "client_ceiling_pct",
        70.0,
        "the load took {share} of what this client can do on this machine",
        (
            "the load took {share} of what this client can do on this machine; "
            "above {limit} add clients (load.clients), or lower the load"
        ),
    ),
    # Of one core: a client that never rests is late for what comes next.
    (
        "client_cpu_pct",
        90.0,
        "its busiest process used {share} of a core",
        "the busiest client process used {share} of its core, so it was late for what arrived",
    ),
    # Of the window: a client that is ready and gets no processor notes arrivals late, and nothing else shows it.
    (
        "client_wait_pct",
        10.0,
        "it waited for a processor {share} of the time",
        ("the client waited for a processor {share} of the time, so what arrived was noted late (limit {limit})"),
    ),
)
# How long the loop may be away from the network, as a share of the shortest time that the headline is about; less
# than the floor hides in the noise of any system that is shared.
_LAG_SHARE = 0.10
_LAG_FLOOR_MS = 2.0
# How late requests may be sent beside how long they take.
_DELAY_SHARE = 0.10
_DELAY_FLOOR_MS = 5.0
_DELIVERED = 0.95
# Share of the requested duration in which all machines that were to begin together must have been loading, and how far
# apart they may have begun. Where each began when it could, a run without half of it in common has no numbers anyway.
_TOGETHER = 0.8
_SKEW_S = 0.5
_SURE = 3.0  # standard deviations of the number of arrivals
_TIMES = ("itl_ms", "ttft_ms", "latency_ms", "e2e_ms")


def below_ceiling(evidence: CheckEvidence) -> Finding:
    """Whether the client had room to spare: of its measured ceiling, of its core, and in its loop."""
    return all_of((*_shares(evidence), _lag(evidence)), "what the client can do on this machine was not measured")


def _shares(evidence: CheckEvidence) -> Iterator[Finding]:
    for metric, limit_pct, fine, bad in _CLIENT_SHARES:
        if (pct := evidence.worst(metric)) is not None:
            sentence = fine if pct <= limit_pct else bad
            yield pct <= limit_pct, sentence.format(share=percent(pct / 100), limit=percent(limit_pct / 100))


def _lag(evidence: CheckEvidence) -> Finding | None:
    lag = evidence.worst("loop_lag_ms", "p99")
    beside = _shortest(evidence)
    if lag is None or beside is None:
        return None
    name, median = beside
    limit = max(_LAG_FLOOR_MS, _LAG_SHARE * median)
    if lag <= limit:
        return True, f"its loop was away from the network for at most {number(lag)} ms"
    summary = f"the client's loop was away from the network for {number(lag)} ms, beside a median {name} of"
    return False, f"{summary} {number(median)} ms (limit {number(limit)} ms)"


def _shortest(evidence: CheckEvidence) -> tuple[str, float] | None:
    """The shortest time that the headline is about, by its median."""
    medians = {name: evidence.metrics[name].median for name in _TIMES if name in evidence.metrics}
    shown = {name: value for name, value in medians.items() if name in evidence.headline} or medians
    return min(shown.items(), key=lambda item: item[1]) if shown else None


def load_delivered(evidence: CheckEvidence) -> Finding:
    """Whether the load that the file asks for is the one that the target got."""
    if not evidence.is_served:
        return None, "calls follow one another inside the same process, so nothing can be left unsent"
    parts = (_stopped(evidence), _skipped(evidence), _delay(evidence), _level(evidence), _together(evidence))
    return all_of(parts, "how much of the load was delivered was not recorded")


def _stopped(evidence: CheckEvidence) -> Finding | None:
    """Whether a run was ended before its time."""
    load_facts = evidence.facts("load")
    for run in evidence.good:
        why = run.facts.get("stopped") or load_facts.get(run.run_id, {}).get("stopped")
        if isinstance(why, str) and why != "finished":
            return False, f"{run_name(run.run_id)} was ended early: {why}"
    return None


def _skipped(evidence: CheckEvidence) -> Finding | None:
    skipped = evidence.worst("skipped")
    if not skipped:
        return None
    open_ = evidence.job.definition.load.max_in_flight
    summary = f"{count(round(skipped), 'request')} of a run were due and not sent, since {open_:,} were open"
    return False, f"{summary} (load.max_in_flight)"


def _delay(evidence: CheckEvidence) -> Finding | None:
    """Whether requests left when they were due."""
    delay = evidence.worst("schedule_delay_ms", "p99")
    medians = [evidence.metrics[name].median for name in _TIMES[1:] if name in evidence.metrics]
    if delay is None or not medians:
        return None
    limit = max(_DELAY_FLOOR_MS, _DELAY_SHARE * min(medians))
    if delay <= limit:
        return True, f"requests were sent at most {number(delay)} ms after they were due (p99)"
    return False, f"requests were sent {number(delay)} ms after they were due (p99; limit {number(limit)} ms)"


def _level(evidence: CheckEvidence) -> Finding | None:
    """Whether the rate or the concurrency was the one asked for, in the run where it was least."""
    load = evidence.job.definition.load
    share = 1 / load.hosts if load.host is not None else 1.0  # of a load that several machines share
    if load.rate == "search" or load.trace is not None or load.stages:
        return None
    if isinstance(load.rate, float | int):
        return _rate(evidence, load, share * float(load.rate))
    wanted = share * (load.concurrency or 1)
    stats = evidence.metrics.get("concurrency")
    if stats is None or load.think is not None:
        return None  # a user who thinks has no request in flight meanwhile
    summary = f"{number(stats.min)} of {number(wanted)} requests were in flight on average"
    return stats.min >= _DELIVERED * wanted, summary


def _together(evidence: CheckEvidence) -> Finding | None:
    """Whether the machines of a shared load began and loaded together, in the run where they did so least."""
    by_run = evidence.facts("merged")
    if not by_run:
        return None
    failed: list[str] = []
    skews: list[float] = []
    for run, merged in by_run.items():
        starts = merged.get("starts")
        if not isinstance(starts, dict) or not starts.get("met"):
            continue  # they were not asked to begin at one moment
        length, asked_s = merged.get("length_s"), merged.get("asked_s")
        if isinstance(length, float | int) and isinstance(asked_s, float | int) and length < _TOGETHER * asked_s:
            failed.append(
                f"in {run_name(run)} all machines loaded together for {number(length)} s of {number(asked_s)} s"
            )
        skew, apart = starts.get("skew_s"), starts.get("clocks_apart_s_at_least")
        skews += [float(skew)] if isinstance(skew, float | int) else []
        if skews and skews[-1] > _SKEW_S:
            apart_s = f"{number(skews[-1])} s apart (limit {_SKEW_S:g} s)"
            failed.append(f"in {run_name(run)} the clients began {apart_s}")
        if isinstance(apart, float | int) and apart > _SKEW_S:
            failed.append(f"the clocks of the clients' machines are at least {number(float(apart))} s apart")
    if failed:
        return False, "; ".join(failed)
    return (True, f"the clients began within {number(max(skews))} s of each other") if skews else None


def _rate(evidence: CheckEvidence, load: Load, wanted: float) -> Finding | None:
    stats = evidence.metrics.get("offered_per_s")
    if stats is None:
        return None
    seconds = min(evidence.windows(lambda window: window.wall_s).values(), default=load.duration or 1.0)
    # Arrivals of a burstier process spread more: their variance is that of Poisson's over the shape.
    spread = _SURE * math.sqrt(wanted / max(seconds, 1e-9) / (load.burstiness or 1.0))
    far = max((1 - _DELIVERED) * wanted, spread if load.arrivals != "constant" else 0.0)
    value = max(stats.run_values.values(), key=lambda run_value: abs(run_value - wanted), default=stats.median)
    return abs(value - wanted) <= far, f"{number(value)} requests/s were due where {number(wanted)} were asked for"
