"""Numbers out of a program's output: patterns that may span lines, with the context above them."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.run.targets.capture import MAX_VALUES
from assay.spec.target import MetricPattern

# As many of the matches that are no numbers as somebody will look at.
_MAX_UNREADABLE = 100
_EXPONENT = re.compile(r"\.?[eE][-+]?\d+\b")


@dataclass(frozen=True, slots=True)
class Found:
    """A value that a program reported, and where in its output."""

    metric: str  # with its context: `speed{batch=8}`
    value: float  # NaN where the program printed one
    offset: int  # character of the output at which it stands


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A match that is not a number."""

    metric: str
    text: str
    line: int
    why: str = "which is not a number"


def find_values(
    output: str, metrics: Sequence[MetricPattern], at_most: int = MAX_VALUES
) -> tuple[list[Found], list[Unreadable]]:
    """All values of all patterns, in the order of the output, and the first matches that are no numbers."""
    found: list[Found] = []
    unreadable: list[Unreadable] = []
    for metric in metrics:
        for item in _of_one(output, metric):
            if isinstance(item, Found):
                found.append(item)
            else:
                unreadable.append(item)
            if len(found) > at_most:
                break
    return sorted(found, key=lambda item: item.offset), unreadable


def number(text: str) -> float | None:
    """A number as programs print it: sign, exponent, thousands, `nan`, `inf`; None if it is none."""
    clean = text.strip().replace("_", "")
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?", clean):
        clean = clean.replace(",", "")
    try:
        return float(clean)
    except ValueError:
        return None


def with_context(name: str, labels: dict[str, str]) -> str:
    """A metric's name with the context that tells it from its siblings."""
    if not labels:
        return name
    return name + "{" + ",".join(f"{label}={value}" for label, value in sorted(labels.items())) + "}"


def _of_one(output: str, metric: MetricPattern) -> Iterator[Found | Unreadable]:
    if metric.pattern is None:
        return
    context = {label: _Context(output, pattern) for label, pattern in metric.context.items()}
    bad = 0
    for match in re.finditer(metric.pattern, output, re.MULTILINE):
        text = _group(match)
        if text is None:
            continue
        value, rest = number(text), _exponent_after(output, match)
        if value is None or rest:
            bad += 1
            if bad > _MAX_UNREADABLE:
                continue  # to name its line is to count all lines above it
            why = {"why": "of which its group takes only the beginning"} if rest else {}
            yield Unreadable(metric.name, text + rest, output.count("\n", 0, match.start()) + 1, **why)
            continue
        labels = {label: seen for label, where in context.items() if (seen := where.above(match.end())) is not None}
        yield Found(with_context(metric.name, labels), value, match.start())


def _group(match: re.Match[str]) -> str | None:
    return match.group(_which(match))


def _which(match: re.Match[str]) -> str | int:
    return "value" if "value" in match.groupdict() else 1


def _exponent_after(output: str, match: re.Match[str]) -> str:
    """The exponent that a group leaves behind: a pattern without it would read 1e-05 as 1."""
    end = match.end(_which(match))
    found = _EXPONENT.match(output, end) if output[end - 1 : end].isdigit() else None
    return found[0] if found else ""


class _Context:
    """The last match of a pattern above a place."""

    def __init__(self, output: str, pattern: str) -> None:
        matches = [(match.start(), _group(match)) for match in re.finditer(pattern, output, re.MULTILINE)]
        self._starts = [start for start, _ in matches]
        self._texts = [text for _, text in matches]

    def above(self, offset: int) -> str | None:
        """What the pattern last matched before an offset."""
        position = bisect.bisect_left(self._starts, offset)
        return self._texts[position - 1] if position else None
