"""What two sides of a comparison answer, in sentences, and why some of it is undecided: each reason once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from assay.analyse.records import Comparison
from assay.analyse.text import count
from assay.report.numbers import show_percent
from assay.report.wording import one_line

if TYPE_CHECKING:
    from assay.report.comparison import ComparedJob, ComparisonResult

NOT_ALIKE = "not like for like"
"""What a row is called whose sides do not answer the same question: no doubt about chance, and no verdict."""
WORDS = ("better", "worse", "cannot tell", NOT_ALIKE)
_NUMBER = re.compile(r"[-+±]?\d[\d,.]*")


@dataclass(frozen=True, slots=True)
class UndecidedReason:
    """One reason why rows have no verdict, with the first sentence of its kind."""

    word: str
    """`cannot tell` or `not like for like`."""
    rows: int
    sentence: str


def answer_word(line: Comparison, job: ComparedJob) -> str:
    """The answer of one row: better, worse, cannot tell, or not like for like."""
    return NOT_ALIKE if job.result.pool.refused else line.answer


def comparison_sentences(result: ComparisonResult) -> tuple[str, ...]:
    """Which side is better and by how much, by the metric that answers the question of the jobs; then the others."""
    by_metric: dict[str, list[tuple[Comparison, ComparedJob]]] = {}
    for job in result.jobs:
        for line in job.result.lines:
            by_metric.setdefault(line.metric, []).append((line, job))
    return tuple(_sentence(metric, rows) for metric, rows in by_metric.items())


def _sentence(metric: str, rows: Sequence[tuple[Comparison, ComparedJob]]) -> str:
    parts = []
    for word in WORDS:
        lines = [line for line, job in rows if answer_word(line, job) == word]
        if lines:
            where = "" if len(rows) == 1 else f" in {len(lines)} of {count(len(rows), 'job')}"
            parts.append(f"{_saying(word)}{where}{_by(word, lines)}")
    return f"{one_line(metric)}: {', '.join(parts)}."


def _saying(word: str) -> str:
    return f"b is {word}" if word in ("better", "worse") else word


def _by(word: str, lines: Sequence[Comparison]) -> str:
    """How far b moved: ` by 20 %`, or the range over jobs."""
    changes = sorted(abs((line.b - line.a) / line.a) for line in lines if line.a)
    if word not in ("better", "worse") or not changes:
        return ""
    low, high = (show_percent(end) for end in (changes[0], changes[-1]))
    interval = lines[0].change if len(lines) == 1 else None
    ends = f" ({interval.low * 100:+.1f} to {interval.high * 100:+.1f} %)" if interval else ""
    return f" by {low}{ends}" if low == high else f" by {low} to {high}"


def undecided(result: ComparisonResult) -> tuple[UndecidedReason, ...]:
    """The reasons why rows have no verdict, those of most rows first; sentences that differ in numbers are one."""
    entries = sorted(
        ((_NUMBER.sub("#", sentence), word, sentence) for word, sentence in _reasons(result)),
        key=lambda entry: entry[:2],
    )
    groups = [
        (key, [sentence for *_, sentence in members]) for key, members in groupby(entries, lambda entry: entry[:2])
    ]
    reasons = [UndecidedReason(word, len(sentences), sentences[0]) for (_, word), sentences in groups]
    return tuple(sorted(reasons, key=lambda reason: -reason.rows))


def _reasons(result: ComparisonResult) -> Iterator[tuple[str, str]]:
    for job in result.jobs:
        for line in job.result.lines:
            word = answer_word(line, job)
            if word in ("cannot tell", NOT_ALIKE):
                yield from ((word, one_line(sentence)) for sentence in line.because)
