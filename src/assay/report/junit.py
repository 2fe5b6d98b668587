"""A gate as JUnit XML, which build servers show beside their tests: one test case per number, objective and job.

Red is a failure. What was not measured or may not be compared is an error: neither red nor green. What cannot be told
is skipped with its reason, or an error where the gate is strict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from xml.etree import ElementTree as Xml

from assay.analyse.compare.limits import Line
from assay.analyse.gating import JobGate
from assay.analyse.records import Check
from assay.report.gate import Gated, line_sentence
from assay.report.wording import check_sentence, one_line

_OUTCOME = Literal["failure", "error", "skipped"]
# What XML 1.0 cannot hold, beside the control characters that no line of ours holds.
_NOT_XML = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    found = [
        (f"{benchmark}.{_text(label)}", case)
        for label, job in zip(gated.labels, gated.gate.jobs, strict=True)
        for case in _cases(job, gated)
    ]
    counts = {
        "tests": str(len(found)),
        "failures": str(sum(case.outcome == "failure" for _, case in found)),
        "errors": str(sum(case.outcome == "error" for _, case in found)),
        "skipped": str(sum(case.outcome == "skipped" for _, case in found)),
        "time": f"{sum(case.seconds for _, case in found):.3f}",
    }
    root = Xml.Element("testsuites", {"name": "assay gate", **counts})
    created = gated.result.records[0].created_at[:19]
    suite = Xml.SubElement(root, "testsuite", {"name": benchmark, **counts, "timestamp": _text(created)})
    properties = Xml.SubElement(suite, "properties")
    for name, value in _properties(gated):
        Xml.SubElement(properties, "property", {"name": name, "value": _text(value)})
    for classname, case in found:
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
    for one in gated.warnings:
        yield "note", one


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
        return _Case("measured", "error" if missing else _untold(gated), "no-baseline", message, seconds)
    return _Case("measured", "error", job.kind.replace(" ", "-"), message, seconds)


def _number(line: Line, gated: Gated) -> _Case:
    message = line_sentence(line)
    if line.answer == "green":
        return _Case(line.name)
    if line.answer == "red":
        return _Case(line.name, "failure", "worse", message)
    return _Case(line.name, _untold(gated), "cannot-tell", message)


def _objective(check: Check, gated: Gated) -> _Case:
    name = f"objective {check.name}"
    if check.passed:
        return _Case(name)
    if check.passed is False:
        return _Case(name, "failure", "objective", check_sentence(check))
    return _Case(name, _untold(gated), "cannot-tell", check_sentence(check))


def _untold(gated: Gated) -> _OUTCOME:
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
        told = Xml.SubElement(element, case.outcome, {"message": _text(case.message), "type": case.kind})
        told.text = _text(case.message)


def _text(text: str) -> str:
    return _NOT_XML.sub("�", one_line(text))
