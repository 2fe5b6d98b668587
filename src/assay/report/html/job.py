"""The section of one job: its verdict and the reasons first, then pictures, tables and evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assay.analyse.records import Check, MultiRunJobResult
from assay.report.energy import energy_sentence
from assay.report.html.markup import Child, Markup, el, join
from assay.report.html.pictures import Samples, job_pictures
from assay.report.html.tables import (
    answers_tables,
    energy_line,
    facts_table,
    hardware_tables,
    metrics_table,
    runs_table,
    verdict_mark,
)
from assay.report.html.telemetry import Files
from assay.report.numbers import name_with_unit, show_statistics
from assay.report.wording import (
    MEANING,
    check_word,
    failed,
    failure_of,
    failure_sentence,
    flat,
    gate_word,
    headline_of,
    indented,
    machine_sentence,
    unmeasured_sentence,
    verdict_word,
)
from assay.run.records import Failure

_SIGNS = {True: ("✓", "passed"), False: ("✕", "failed"), None: ("–", "not told")}


def job_section(
    job: MultiRunJobResult,
    label: str,
    anchor: str,
    samples: Samples,
    files: Files,
    same_environment: tuple[str, str] | None,
) -> Markup:
    """Everything about one job; `same_environment` is the label and anchor of a job that ran in the same one."""
    measured = job.state == "done"
    word = verdict_word(job)
    return el(
        "section",
        el("h2", label, " ", verdict_mark(word)),
        el("p", *_sentence(job), class_="lead"),
        energy_line(job) if measured else None,
        _why(job) if not measured else _judgement(job),
        el("div", *_pictures(job, samples, files), class_="figures") if measured else None,
        _folded("Metrics", _metrics(job), opened=True) if measured and job.metrics else None,
        *([_folded(title, content, opened=True) for title, content in answers_tables(job)] if measured else ()),
        *(_folded(title, content, opened=shown) for title, content, shown in hardware_tables(job)),
        _folded("Runs", join((runs_table(job), _run_failures(job))), opened=True) if job.runs else None,
        _folded("Environment", _environment(job, same_environment)),
        _folded("Definition", el("pre", indented(job.definition))) if job.definition else None,
        class_=f"job {word}",
        id=anchor,
    )


def _pictures(job: MultiRunJobResult, samples: Samples, files: Files) -> list[Markup]:
    return [one.figure() for one in job_pictures(job, samples, files)]


def _sentence(job: MultiRunJobResult) -> Iterable[Child]:
    where = machine_sentence(job)
    if job.state == "done":
        yield from (_headline(job, name) for name in headline_of(job)[:4])
    yield el("span", f"{job.successful_runs} of {job.total_runs} runs succeeded", class_="quiet")
    yield el("span", where, class_="quiet") if where else None


def _headline(job: MultiRunJobResult, name: str) -> Markup:
    stats = job.metrics[name]
    shown = show_statistics(stats, name)
    number = el("strong", shown.median, " ", stats.unit)
    return el("span", name_with_unit(name, stats.unit), " ", number, " ", shown.interval, " ", shown.spread)


def _why(job: MultiRunJobResult) -> Markup:
    error = failure_of(job)
    remedy = el("p", el("strong", "Try: "), error.try_) if error and error.try_ else None
    content = (el("p", unmeasured_sentence(job)), remedy, _log(error))
    return el("div", *content, class_="why")


def _log(error: Failure | None) -> Markup | None:
    if error is None or not error.log_tail:
        return None
    return join((el("p", "Last lines of its log:", class_="quiet"), el("pre", "\n".join(error.log_tail))))


def _run_failures(job: MultiRunJobResult) -> Markup | None:
    """The evidence of failed runs of a job that was measured nonetheless; a failed job tells it above."""
    if job.state != "done":
        return None
    broken = [run for run in job.runs if run.error]
    return join(
        el("div", el("p", f"Run {run.run_id}: ", failure_sentence(run.error)), _log(run.error), class_="why")
        for run in broken
        if run.error
    )


def _judgement(job: MultiRunJobResult) -> Markup:
    word = verdict_word(job)
    bad = failed(job.checks)
    untold = [check for check in job.checks if check.passed is None]
    good = [check for check in job.checks if check.passed]
    gates = el("ul", *(_gate(gate) for gate in job.gates), class_="checks") if job.gates else None
    return join(
        (
            el("p", f"Verdict {word}: {MEANING[word]}."),
            el("ul", *map(_check, bad), class_="checks") if bad else None,
            join((el("h3", "Objectives"), gates)) if gates else None,
            _folded(f"Checks passed: {len(good)}, could not be told: {len(untold)}", _others(good, untold))
            if good or untold
            else None,
        )
    )


def _others(good: Iterable[Check], untold: Iterable[Check]) -> Markup:
    return el("ul", *map(_check, (*untold, *good)), class_="checks")


def _check(check: Check) -> Markup:
    sign, word = _SIGNS[check.passed]
    word = check_word(check) if check.passed is False else word
    return _entry(sign, word, {True: "good", False: "bad", None: "untold"}[check.passed], check)


def _gate(gate: Check) -> Markup:
    kind = {True: "good", False: "bad", None: "untold"}[gate.passed]
    return _entry(_SIGNS[gate.passed][0], gate_word(gate), kind, gate)


def _entry(sign: str, word: str, kind: str, check: Check) -> Markup:
    mark = el("span", el("span", sign, aria_hidden="true", class_="glyph"), word, class_=f"mark {kind}")
    return el("li", mark, el("span", el("strong", check.name), ": ", check.detail))


def _metrics(job: MultiRunJobResult) -> Markup:
    absent: Mapping[str, str] = {name: why for run in job.runs for name, why in run.absent.items()}
    told = {*job.metrics, *(["energy_j"] if energy_sentence(job) else [])}  # energy has a sentence of its own
    reasons = [el("li", el("code", name), ": ", why) for name, why in absent.items() if name not in told]
    missing = join((el("p", "Not measured:", class_="quiet"), el("ul", *reasons))) if reasons else None
    return join((metrics_table(job), missing))


def _environment(job: MultiRunJobResult, same: tuple[str, str] | None) -> Markup:
    if same is not None:
        return el("p", "The same as of ", el("a", same[0], href=f"#{same[1]}"), ".")
    pairs = flat(job.environment)
    return facts_table(pairs, "Environment") if pairs else el("p", "Nothing was recorded.")


def _folded(title: str, content: Child, *, opened: bool = False) -> Markup:
    return el("details", el("summary", title), content, open=opened)
