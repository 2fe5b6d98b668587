"""What judges answers: scorers by name, ours and those of others. Runs after the load, never while the clock runs."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from time import monotonic
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import AssayError, MeasureError
from assay.run.scoring.outputs import OUTPUTS, Output, as_asked, read_outputs, write_outputs
from assay.version import __version__

__all__ = ["OUTPUTS", "Output", "as_asked", "read_outputs", "write_outputs"]

GROUP = "assay.scorers"
_LIBRARY = {"rouge": "rouge-score"}


class Scorer(Protocol):
    """Judges answers. Registered by name under the entry-point group `assay.scorers`."""

    def __call__(self, outputs: Sequence[Output]) -> Mapping[str, Sequence[float]]:
        """Metric → one value per answer, NaN where there is none. Failed requests are never handed over."""
        ...


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
    """
    answered = np.array([output.answered for output in outputs], dtype=np.bool_)
    judged = [output for output in outputs if output.answered]
    values: dict[str, NDArray[np.float64]] = {}
    for name in dict.fromkeys(scorers):
        for metric, given in _scores_of(name, judged).items():
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
            columns = _by(deadline_s, name, outputs)
        except AssayError as refused:
            said = refused.problem
            absent[name] = f"{said.message}; try: {said.try_}" if said.try_ else said.message
            continue
        values |= {metric: column for metric, column in columns.items() if np.isfinite(column).any()}
        facts[name], lacking = _judged(name, outputs, columns)
        absent |= {name: lacking} if lacking else {}
    return Scores(values, absent, facts)


def _by(deadline_s: float, name: str, outputs: Sequence[Output]) -> dict[str, NDArray[np.float64]]:
    """Ask a scorer, and wait no longer than until a moment; one that hangs ends with the process."""
    if deadline_s == math.inf:
        return score(outputs, [name])
    answer: list[dict[str, NDArray[np.float64]] | AssayError] = []

    def score_now() -> None:
        try:
            answer.append(score(outputs, [name]))
        except AssayError as refused:
            answer.append(refused)

    thread = threading.Thread(target=score_now, name=f"scorer {name}", daemon=True)
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
    """Load a scorer by name: a built-in one, or one that an installed package registers."""
    if name in _OURS:
        return _OURS[name]
    entry = _entry(name)
    if entry is None:
        message = f"no scorer here is called {name!r}"
        try_ = f"use one of {', '.join(scorer_names())}, or install a package that registers it under {GROUP}"
        raise MeasureError(message, code="scorer", at="workload.scorers", try_=try_)
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


def _scores_of(name: str, outputs: Sequence[Output]) -> dict[str, NDArray[np.float64]]:
    """What one scorer says, held to its contract."""
    scorer = find_scorer(name)
    wrong = partial(_failed, name)
    try:
        given = dict(scorer(outputs))
        columns = {str(metric): np.asarray(column, dtype=np.float64) for metric, column in given.items()}
    except AssayError:
        raise
    except Exception as failure:  # code of others may raise anything
        raise wrong(f"failed: {type(failure).__name__}: {failure}") from None
    for metric, column in columns.items():
        if column.shape != (len(outputs),):
            raise wrong(f"gave {column.size} values of {metric} for {len(outputs)} answers")
    return columns


def _failed(name: str, what: str) -> MeasureError:
    message = f"the scorer {name!r} {what}"
    try_ = "`assay score` asks it again, on the kept answers"
    return MeasureError(message, code="scorer", at="workload.scorers", try_=try_)


def _judged(
    name: str, outputs: Sequence[Output], scores: Mapping[str, NDArray[np.float64]]
) -> tuple[dict[str, JsonValue], str]:
    """Facts about what a scorer judged; and how many requests have no score and why, empty when all have one."""
    has_score = np.zeros(len(outputs), dtype=np.bool_)
    for column in scores.values():
        has_score |= np.isfinite(column)
    failed = sum(not output.answered for output in outputs)
    others = int((~has_score).sum()) - failed
    facts: dict[str, JsonValue] = {
        "version": scorer_version(name),
        "metrics": list(scores),
        "scored": int(has_score.sum()),
        "empty": sum(output.answered and not output.text.strip() for output in outputs),
        "failed": failed,
        "without_score": others,
    }
    if not outputs:
        return facts, "there are no answers"
    without = sum(output.answered and output.reference is None for output in outputs) if others else 0
    parts = [
        (failed, "failed and have no answer"),
        (min(without, others), "have nothing to be compared with"),
        (others - min(without, others), "have a reference or answer that this scorer cannot judge"),
    ]
    reasons = [f"{count:,} {what}" for count, what in parts if count]
    return facts, f"of {len(outputs):,} requests {' and '.join(reasons)}" if reasons else ""


METRICS = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL", "rouge_lsum": "rougeLsum"}
_WORD = re.compile(r"[a-z0-9]")
# A full stop, question or exclamation mark (and what closes after it), white space, then what can begin a sentence.
_END = re.compile(r"""(?<=[.!?…])(["'”’)\]]*)\s+(?=["'“‘(\[]?[A-Z0-9À-ÖØ-Þ])""")
# After these a full stop ends no sentence.
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|vs|etc|approx|ca|cf|No|Vol|Fig|pp?|[A-Z])|(?:[A-Za-z]\.)+[A-Za-z])\.$"
)


def rouge(outputs: Sequence[Output]) -> Mapping[str, Sequence[float]]:
    """ROUGE-1, -2, -L and -Lsum of each answer; NaN where its reference is missing or has no word to compare.

    F1, without stemming, as `ROUGE-1.5.5.pl -e data -n 2` counts it. Words are runs of a–z and 0–9 in lower case: that
    is the library's own rule, and the reason why texts in other scripts have no ROUGE here rather than a zero.
    ROUGE-Lsum compares sentence by sentence; the sentences are split here (see `sentences`), since the library would
    need data of NLTK that has to be downloaded.
    """
    scorer = _scorer()
    cache: dict[tuple[str, str], tuple[float, ...]] = {}  # greedy answers repeat
    rows = []
    for output in outputs:
        if output.reference is None or not _WORD.search(output.reference.lower()):
            rows.append((math.nan,) * len(METRICS))
            continue
        pair = (output.reference, output.text)
        if pair not in cache:
            cache[pair] = _score(scorer, *pair)
        rows.append(cache[pair])
    return {metric: [row[place] for row in rows] for place, metric in enumerate(METRICS)}


def sentences(text: str) -> list[str]:
    """Split a text into sentences, by line ends and by the marks that end a sentence.

    A rule for English and its like, and nothing more: initials, `Dr.`, `e.g.` and such do not end a sentence.
    """
    pieces = []
    for line in text.splitlines():
        begin = ""
        for part in _END.sub("\\1\0", line).split("\0"):
            begin = f"{begin} {part}" if begin else part
            if not _ABBREVIATION.search(begin):
                pieces.append(begin)
                begin = ""
        pieces.append(begin)
    return [sentence for sentence in (part.strip() for part in pieces) if sentence]


def _score(scorer: Any, reference: str, text: str) -> tuple[float, ...]:  # noqa: ANN401  (the library is untyped)
    # Line ends are white space to all but Lsum, for which they end sentences.
    scores = scorer.score("\n".join(sentences(reference)), "\n".join(sentences(text)))
    return tuple(float(scores[name].fmeasure) for name in METRICS.values())


def _scorer() -> Any:  # noqa: ANN401
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as problem:
        message = f"ROUGE needs the library rouge-score, which cannot be loaded: {problem}"
        try_ = "pip install 'assay-bench[llm]', then `assay score` on the kept answers: nothing is measured again"
        raise MeasureError(message, code="scorer", at="workload.scorers", try_=try_) from None
    return RougeScorer(list(METRICS.values()), use_stemmer=False, split_summaries=False)


def exact_match(outputs: Sequence[Output]) -> Mapping[str, Sequence[float]]:
    """Whether an answer is its reference, white space around both aside."""
    return {"exact_match": _against_reference(outputs, lambda text, wanted: text.strip() == wanted.strip())}


def contains(outputs: Sequence[Output]) -> Mapping[str, Sequence[float]]:
    """Whether an answer holds its reference somewhere; case and the kind of white space aside."""
    return {"contains": _against_reference(outputs, lambda text, wanted: _plain(wanted) in _plain(text))}


def json_valid(outputs: Sequence[Output]) -> Mapping[str, Sequence[float]]:
    """Whether the whole answer is one JSON value; a fence of backticks around it makes it none."""
    return {"json_valid": [float(_is_json(output.text)) for output in outputs]}


def length(outputs: Sequence[Output]) -> Mapping[str, Sequence[float]]:
    """How long an answer is, in characters: words and tokens depend on who counts them."""
    return {"answer_chars": [float(len(output.text)) for output in outputs]}


def _against_reference(outputs: Sequence[Output], same: Callable[[str, str], bool]) -> list[float]:
    return [math.nan if output.reference is None else float(same(output.text, output.reference)) for output in outputs]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _is_json(text: str) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        # Numbers stay text: JSON allows more digits than a number here may have.
        json.loads(text, parse_constant=refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


_OURS: Mapping[str, Scorer] = {
    "rouge": rouge,
    "exact-match": exact_match,
    "contains": contains,
    "json-valid": json_valid,
    "length": length,
}
