"""What judges answers: scorers by name, ours and those of others. Runs after the load, never while the clock runs."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from time import monotonic
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import AssayError, MeasureError
from assay.run.scoring.outputs import OUTPUTS, Output, as_asked, read_outputs, write_outputs
from assay.run.scoring.scorers import contains, exact_match, json_valid, length, rouge
from assay.version import __version__

__all__ = [
    "GROUP",
    "OUTPUTS",
    "Output",
    "Scorer",
    "Scores",
    "as_asked",
    "find_scorer",
    "read_outputs",
    "score",
    "scored",
    "scorer_names",
    "scorer_version",
    "write_outputs",
]  # fmt: skip

GROUP = "assay.scorers"
_LIBRARY = {"rouge": "rouge-score"}


class Scorer(Protocol):
    """Judges answers. Registered by name under the entry-point group `assay.scorers`."""

    def __call__(self, outputs: Sequence[Output]) -> Mapping[str, Sequence[float]]:
        """Metric → one value per answer, NaN where there is none. Failed requests are never handed over."""
        ...


_OURS: Mapping[str, Scorer] = {
    "rouge": rouge,
    "exact-match": exact_match,
    "contains": contains,
    "json-valid": json_valid,
    "length": length,
}


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """What scorers said, and what they could not say."""

    values: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """Metric → one value per output, NaN where there is none."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Scorer → why some or all answers have no score."""
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    """Scorer → its version, its metrics, and how many answers it judged."""


def score(outputs: Sequence[Output], scorers: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Judge answers; failed requests have no score.

    Returns:
        Metric → one value per output, NaN where there is none.

    Raises:
        MeasureError: if a scorer is not there, cannot be loaded or fails.
    """
    answered = np.array([one.answered for one in outputs], dtype=np.bool_)
    judged = [one for one in outputs if one.answered]
    values: dict[str, NDArray[np.float64]] = {}
    for name in dict.fromkeys(scorers):
        for metric, given in _ask(name, judged).items():
            column = np.full(len(outputs), np.nan)
            column[answered] = given
            values[metric] = column
    return values


def scored(outputs: Sequence[Output], scorers: Sequence[str], *, within_s: float | None = None) -> Scores:
    """Judge answers and never fail: a load that was measured is not lost because its answers cannot be judged."""
    deadline_s = math.inf if within_s is None else monotonic() + within_s
    values: dict[str, NDArray[np.float64]] = {}
    absent: dict[str, str] = {}
    facts: dict[str, JsonValue] = {}
    for name in dict.fromkeys(scorers):
        try:
            found = _by(deadline_s, name, outputs)
        except AssayError as refused:
            said = refused.problem
            absent[name] = f"{said.message}; try: {said.try_}" if said.try_ else said.message
            continue
        values |= {metric: column for metric, column in found.items() if np.isfinite(column).any()}
        facts[name] = _facts(name, outputs, found)
        if lacking := _lacking(outputs, found):
            absent[name] = lacking
    return Scores(values, absent, facts)


def _by(deadline_s: float, name: str, outputs: Sequence[Output]) -> dict[str, NDArray[np.float64]]:
    """Ask a scorer, and wait no longer than until a moment; one that hangs ends with the process."""
    if deadline_s == math.inf:
        return score(outputs, [name])
    answer: list[dict[str, NDArray[np.float64]] | AssayError] = []

    def ask() -> None:
        try:
            answer.append(score(outputs, [name]))
        except AssayError as refused:
            answer.append(refused)

    thread = threading.Thread(target=ask, name=f"scorer {name}", daemon=True)
    thread.start()
    thread.join(max(deadline_s - monotonic(), 0.0))
    if not answer:
        raise _failed(name, "was not ready when the time of the run was over")
    if isinstance(answer[0], AssayError):
        raise answer[0]
    return answer[0]


def scorer_names() -> list[str]:
    """Every scorer that can be asked for here."""
    return sorted({*_OURS, *(entry.name for entry in entry_points(group=GROUP))})


def find_scorer(name: str) -> Scorer:
    """Load a scorer by name: one of ours, or one that an installed package registers.

    Raises:
        MeasureError: if there is none, or it cannot be loaded.
    """
    if name in _OURS:
        return _OURS[name]
    entry = _entry(name)
    if entry is None:
        raise MeasureError(
            f"no scorer here is called {name!r}",
            code="scorer",
            at="workload.scorers",
            try_=f"use one of {', '.join(scorer_names())}, or install a package that registers it under {GROUP}",
        )
    try:
        return cast("Scorer", entry.load())
    except Exception as failure:  # code of others may do anything when it is imported
        raise _failed(name, f"cannot be loaded: {type(failure).__name__}: {failure}") from None


def scorer_version(name: str) -> str:
    """Which code judges under a name, in words: `rouge-score 0.1.2, assay 0.1.0`."""
    entry = None if name in _OURS else _entry(name)
    if entry is not None:
        return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
    library = _LIBRARY.get(name)
    try:
        return f"{library} {version(library)}, assay {__version__}" if library else f"assay {__version__}"
    except PackageNotFoundError:
        return f"assay {__version__}"


def _entry(name: str) -> EntryPoint | None:
    return next(iter(entry_points(group=GROUP, name=name)), None)


def _ask(name: str, outputs: Sequence[Output]) -> dict[str, NDArray[np.float64]]:
    """What one scorer says, held to its contract."""
    scorer = find_scorer(name)
    wrong = partial(_failed, name)
    try:
        given = dict(scorer(outputs))
        found = {str(metric): np.asarray(column, dtype=np.float64) for metric, column in given.items()}
    except AssayError:
        raise
    except Exception as failure:  # code of others may raise anything
        raise wrong(f"failed: {type(failure).__name__}: {failure}") from None
    for metric, column in found.items():
        if column.shape != (len(outputs),):
            raise wrong(f"gave {column.size} values of {metric} for {len(outputs)} answers")
    return found


def _failed(name: str, what: str) -> MeasureError:
    return MeasureError(
        f"the scorer {name!r} {what}",
        code="scorer",
        at="workload.scorers",
        try_="`assay score` asks it again, on the kept answers",
    )


def _facts(name: str, outputs: Sequence[Output], found: Mapping[str, NDArray[np.float64]]) -> dict[str, JsonValue]:
    has_score = _has_score(outputs, found)
    return {
        "version": scorer_version(name),
        "metrics": list(found),
        "scored": int(has_score.sum()),
        "empty": sum(one.answered and not one.text.strip() for one in outputs),
        "failed": sum(not one.answered for one in outputs),
        "without_score": int((~has_score).sum()) - sum(not one.answered for one in outputs),
    }


def _has_score(outputs: Sequence[Output], found: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
    has_score = np.zeros(len(outputs), dtype=np.bool_)
    for column in found.values():
        has_score |= np.isfinite(column)
    return has_score


def _lacking(outputs: Sequence[Output], found: Mapping[str, NDArray[np.float64]]) -> str:
    """How many requests have no score and why, in words; empty when all have one."""
    failed = sum(not one.answered for one in outputs)
    others = int((~_has_score(outputs, found)).sum()) - failed
    without = sum(one.answered and one.reference is None for one in outputs) if others else 0
    parts = [
        (failed, "failed and have no answer"),
        (min(without, others), "have nothing to be compared with"),
        (others - min(without, others), "have a reference or answer that this scorer cannot judge"),
    ]
    told = [f"{count:,} {what}" for count, what in parts if count]
    return f"of {len(outputs):,} requests {' and '.join(told)}" if told else "" if outputs else "there are no answers"
