"""What a gate says: for a terminal, for programs, for a comment on a pull request, and as JUnit XML."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from xml.etree import ElementTree as Xml

from assay.analyse.gate import GateAnswer, GateResult, JobGate, LimitVerdict, RegressionLimits
from assay.analyse.headline import split_statistic
from assay.analyse.records import Check
from assay.documents import to_plain
from assay.report.comparison import (
    Side,
    answers_table,
    decimals_together,
    labels_of,
    sentences,
    show_relative,
    show_side,
)
from assay.report.markdown import escape
from assay.report.numbers import NOTHING, name_with_unit, show_percent
from assay.report.wording import check_sentence, gate_word, one_line

SCHEMA = "assay.gate/1"
# A comment of a pull request may hold some 65,000 characters; far less is read.
_MOST_ROWS = 20
_SIGNS: dict[GateAnswer, str] = {"green": "✅", "red": "❌", "cannot tell": "⚠️", "nothing": "⚠️"}
_WORDS: dict[GateAnswer, str] = {
    "green": "green",
    "red": "red",
    "cannot tell": "cannot tell",
    "nothing": "neither red nor green: nothing could be judged",
}
_OUTCOME = Literal["failure", "error", "skipped"]
# What XML 1.0 cannot hold, beside the control characters that no line here holds.
_NOT_XML = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Gated:
    """A gate with the names of what it is about."""

    gate: GateResult
    result: Side
    baseline: Side | None
    """None where only objectives and verdict are judged."""
    limits: RegressionLimits
    strict: bool = False
    allow_missing: bool = False

    @property
    def exit_code(self) -> int:
        return self.gate.exit_code(strict=self.strict, allow_missing=self.allow_missing)

    @property
    def labels(self) -> list[str]:
        return labels_of([job.result for job in self.gate.jobs], self.result)

    @property
    def refused(self) -> tuple[str, ...]:
        """Why jobs are not judged, one sentence each."""
        return sentences(self._by_job(lambda job: job.because))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What else is to be known, one sentence each."""
        missing = labels_of(self.gate.missing, self.baseline) if self.baseline and self.gate.missing else []
        lost = [f"in the baseline and not in the new result: {', '.join(missing)}"] if missing else []
        return (*lost, *sentences(self._by_job(lambda job: (*job.left_out, *job.warnings))))

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        return f"{_WORDS[self.gate.answer]}: {'; '.join(self.gate.because)}"

    def _by_job(self, of: Callable[[JobGate], Sequence[str]]) -> list[tuple[str, Sequence[str]]]:
        return [(label, of(job)) for label, job in zip(self.labels, self.gate.jobs, strict=True)]


def gate_text(gated: Gated, width: int) -> str:
    """Write a gate for a terminal; the last line is the answer."""
    lines = [f"not judged: {reason}" for reason in gated.refused]
    lines += [f"note: {warning}" for warning in gated.warnings]
    rows = [_cells(label, line) for label, line in _lines(gated)]
    if rows:
        head = ("job", "metric", "baseline", "new", "change", "limit", "answer")
        lines += answers_table(head, rows, width)
    lines += [
        f"objective {gate_word(check)}: {_of(label, gated)}{check_sentence(check)}"
        for label, job in zip(gated.labels, gated.gate.jobs, strict=True)
        for check in job.objectives
    ]
    lines += [f"{word:<8}  {result}" for word, side in _sides(gated) for result in _results(side)]
    return "\n".join([*lines, f"gate      {gated.sentence}"])


def gate_json(gated: Gated) -> str:
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "answer": gated.gate.answer,
        "exit_code": gated.exit_code,
        "because": list(gated.gate.because),
        "result": gated.result.names[0],
        "benchmark": gated.result.benchmark,
        "baseline": list(gated.baseline.names) if gated.baseline else None,
        "limits": {"worse_than": gated.limits.worse_than, "of": dict(gated.limits.of), "level": gated.limits.level},
        "not_judged": list(gated.refused),
        "warnings": list(gated.warnings),
        "missing": [job.job for job in gated.gate.missing],
        "jobs": [_job_document(label, job) for label, job in zip(gated.labels, gated.gate.jobs, strict=True)],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _job_document(label: str, job: JobGate) -> dict[str, Any]:
    return {
        "label": label,
        "job": job.result.job,
        "point": to_plain(dict(job.result.point)),
        "answer": job.answer,
        "kind": job.kind,
        "because": list(job.because),
        "verdict": job.result.verdict,
        "baseline": list(job.baseline),
        "left_out": list(job.left_out),
        "warnings": list(job.warnings),
        "objectives": [to_plain(check) for check in job.objectives],
        "numbers": [to_plain(line) for line in job.lines],
    }


def marker(benchmark: str) -> str:
    """The hidden first line by which a bot finds its comment again: the same for every gate of a benchmark."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", benchmark).strip("-").lower()[:40]
    digest = hashlib.sha256(benchmark.encode()).hexdigest()[:8]
    return f"<!-- assay-gate {plain}-{digest} -->" if plain else f"<!-- assay-gate {digest} -->"


def gate_markdown(gated: Gated) -> str:
    """Write a gate as a short comment for a pull request; its first line is a hidden marker."""
    answer = gated.gate.answer
    rows = _lines(gated)
    notable = [row for row in rows if row[1].answer != "green"]
    good = [row for row in rows if row[1].answer == "green"]
    blocks = (
        [marker(gated.result.benchmark)],
        [f"### {_SIGNS[answer]} {escape(gated.result.benchmark or gated.result.names[0])}: {_WORDS[answer]}"],
        [f"{escape('; '.join(gated.gate.because))}."],
        [f"- not judged: {escape(reason)}" for reason in gated.refused[:_MOST_ROWS]],
        _objectives(gated),
        _markdown_table(notable),
        _folded(f"{len(good)} within the limit", _markdown_table(good)),
        _folded("notes", [f"- {escape(warning)}" for warning in gated.warnings[:_MOST_ROWS]]),
        [f"<sub>{escape(_footer(gated))}</sub>"],
    )
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _objectives(gated: Gated) -> list[str]:
    lines = [
        f"- objective {gate_word(check)}: {escape(_of(label, gated) + check_sentence(check))}"
        for label, job in zip(gated.labels, gated.gate.jobs, strict=True)
        for check in job.objectives
        if check.passed is not True
    ]
    return _cut(lines)


def _markdown_table(lines: Sequence[tuple[str, LimitVerdict]]) -> list[str]:
    if not lines:
        return []
    several = any(label for label, _ in lines)
    head = ("job", "metric", "baseline", "new", "change", "limit", "")[0 if several else 1 :]
    rule = ("---", "---", "---:", "---:", "---:", "---:", "---")[0 if several else 1 :]
    rows = [_cells(label, line)[0 if several else 1 :] for label, line in lines[:_MOST_ROWS]]
    table = [f"| {' | '.join(cells)} |" for cells in (head, rule, *([escape(cell) for cell in row] for row in rows))]
    rest = len(lines) - _MOST_ROWS
    return [*table, "", f"and {rest} more"] if rest > 0 else table


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>"] if lines else []


def _cut(lines: list[str]) -> list[str]:
    rest = len(lines) - _MOST_ROWS
    return [*lines[:_MOST_ROWS], f"- and {rest} more"] if rest > 0 else lines


def _footer(gated: Gated) -> str:
    new = f"{gated.result.names[0]} of {gated.result.records[0].created_at[:19]}"
    if gated.baseline is None:
        return f"{new}, by its objectives and its verdict"
    names = gated.baseline.names
    if not names:
        return f"{new}, without a baseline"
    old = names[0] if len(names) == 1 else f"{len(names)} results, {names[-1]} to {names[0]}"
    references = ", ".join(gated.baseline.references)
    return f"{new} against {old}" + (f" ({references})" if references not in (old, names[0]) else "")


def _lines(gated: Gated) -> list[tuple[str, LimitVerdict]]:
    """Every number with the name of its job, which is empty where there is only one job; red ones first."""
    several = len(gated.gate.jobs) > 1
    rows = [
        (label if several else "", line)
        for label, job in zip(gated.labels, gated.gate.jobs, strict=True)
        for line in job.lines
    ]
    order = {"red": 0, "cannot tell": 1, "green": 2}
    return sorted(rows, key=lambda row: order[row[1].answer])


def _cells(label: str, line: LimitVerdict) -> tuple[str, ...]:
    """One line of a table: job, number, baseline, new, change, limit, answer."""
    sides = [(line.baseline, line.baseline_interval), (line.value, line.value_interval)]
    pairs = [(value, interval) for value, interval in sides if value is not None]
    places = decimals_together(*pairs) if pairs else 0
    shown = [NOTHING if value is None else show_side(value, interval, places) for value, interval in sides]
    change = NOTHING if line.change is None else show_relative(line.change, line.interval)
    limit = show_percent(line.limit)
    return (one_line(label), _metric(line), *shown, change, limit, one_line(f"{line.answer}: {line.because}"))


def _of(label: str, gated: Gated) -> str:
    return f"{label}: " if len(gated.gate.jobs) > 1 else ""


def _sides(gated: Gated) -> list[tuple[str, Side]]:
    return [*([("baseline", gated.baseline)] if gated.baseline else []), ("new", gated.result)]


def _results(side: Side) -> list[str]:
    return [
        one_line(f"{name} {record.benchmark} {record.created_at[:19]}")
        for name, record in zip(side.names, side.records, strict=True)
    ]


def _metric(line: LimitVerdict) -> str:
    """The name of a number, with its unit where the name of its metric does not say it."""
    metric, statistic = split_statistic(line.name)
    unit = name_with_unit(metric, line.unit).removeprefix(metric)
    return one_line(f"{metric}{f'.{statistic}' if statistic else ''}{unit}")


def line_sentence(line: LimitVerdict) -> str:
    """One number of a gate in one sentence: both sides, the change, the limit, and the answer with its reason."""
    _, metric, baseline, new, change, limit, answer = _cells("", line)
    return f"{metric} is {new} against {baseline}, {change}, limit {limit}: {answer}"


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    outcome: _OUTCOME | None = None
    """None: passed."""
    kind: str = ""
    message: str = ""
    seconds: float = 0.0


def gate_junit(gated: Gated) -> str:
    benchmark = _text(gated.result.benchmark or "assay")
    cases = [
        (f"{benchmark}.{_text(label)}", case)
        for label, job in zip(gated.labels, gated.gate.jobs, strict=True)
        for case in _cases(job, gated)
    ]
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.outcome == "failure" for _, case in cases)),
        "errors": str(sum(case.outcome == "error" for _, case in cases)),
        "skipped": str(sum(case.outcome == "skipped" for _, case in cases)),
        "time": f"{sum(case.seconds for _, case in cases):.3f}",
    }
    root = Xml.Element("testsuites", {"name": "assay gate", **counts})
    created = gated.result.records[0].created_at[:19]
    suite = Xml.SubElement(root, "testsuite", {"name": benchmark, **counts, "timestamp": _text(created)})
    properties = Xml.SubElement(suite, "properties")
    for name, value in _properties(gated):
        Xml.SubElement(properties, "property", {"name": name, "value": _text(value)})
    for classname, case in cases:
        _write(suite, classname, case)
    out = Xml.SubElement(suite, "system-out")
    out.text = _text(gated.sentence)
    Xml.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(root, encoding="unicode")}\n'


def _properties(gated: Gated) -> Iterator[tuple[str, str]]:
    yield "answer", gated.gate.answer
    yield "result", gated.result.names[0]
    for name in gated.baseline.names if gated.baseline else ():
        yield "baseline", name
    for warning in gated.warnings:
        yield "note", warning


def _cases(job: JobGate, gated: Gated) -> Iterator[_Case]:
    yield _measured(job, gated)
    for line in job.lines:
        yield _number(line, gated)
    for check in job.objectives:
        yield _objective(check, gated)


def _measured(job: JobGate, gated: Gated) -> _Case:
    message, seconds = "; ".join(job.because), _seconds(job)
    if job.kind == "judged":
        return _Case("measured", seconds=seconds)
    if job.kind == "invalid":
        return _Case("measured", "failure", "invalid", message, seconds)
    if job.kind == "no baseline":
        missing = gated.gate.has_no_baseline and not gated.allow_missing
        return _Case("measured", "error" if missing else _undecided(gated), "no-baseline", message, seconds)
    return _Case("measured", "error", job.kind.replace(" ", "-"), message, seconds)


def _number(line: LimitVerdict, gated: Gated) -> _Case:
    message = line_sentence(line)
    if line.answer == "green":
        return _Case(line.name)
    if line.answer == "red":
        return _Case(line.name, "failure", "worse", message)
    return _Case(line.name, _undecided(gated), "cannot-tell", message)


def _objective(check: Check, gated: Gated) -> _Case:
    name = f"objective {check.name}"
    if check.passed:
        return _Case(name)
    if check.passed is False:
        return _Case(name, "failure", "objective", check_sentence(check))
    return _Case(name, _undecided(gated), "cannot-tell", check_sentence(check))


def _undecided(gated: Gated) -> _OUTCOME:
    return "error" if gated.strict else "skipped"


def _seconds(job: JobGate) -> float:
    """How long the job was measured; 0 where that is not known."""
    begin, end = job.result.started_at, job.result.completed_at
    if not begin or not end:
        return 0.0
    try:
        return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds())
    except (ValueError, TypeError):  # no moment, or one of them without a time zone
        return 0.0


def _write(suite: Xml.Element, classname: str, case: _Case) -> None:
    shown = {"classname": classname, "name": _text(case.name), "time": f"{case.seconds:.3f}"}
    element = Xml.SubElement(suite, "testcase", shown)
    if case.outcome == "skipped":
        Xml.SubElement(element, "skipped", {"message": _text(case.message)})
    elif case.outcome is not None:
        child = Xml.SubElement(element, case.outcome, {"message": _text(case.message), "type": case.kind})
        child.text = _text(case.message)


def _text(text: str) -> str:
    return _NOT_XML.sub("�", one_line(text))
