"""The scorers that come with assay: exact match, contains, JSON, length, and ROUGE by Google's `rouge-score`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.errors import MeasureError
from assay.run.scoring.outputs import Output

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

    Raises:
        MeasureError: if the library is not installed.
    """
    scorer = _scorer()
    known: dict[tuple[str, str], tuple[float, ...]] = {}  # greedy answers repeat
    rows = []
    for one in outputs:
        if one.reference is None or not _WORD.search(one.reference.lower()):
            rows.append((math.nan,) * len(METRICS))
            continue
        pair = (one.reference, one.text)
        if pair not in known:
            known[pair] = _score(scorer, *pair)
        rows.append(known[pair])
    return {metric: [row[place] for row in rows] for place, metric in enumerate(METRICS)}


def sentences(text: str) -> list[str]:
    """Split a text into sentences, by line ends and by the marks that end a sentence.

    A rule for English and its like, and nothing more: initials, `Dr.`, `e.g.` and such do not end a sentence.
    """
    found = []
    for line in text.splitlines():
        begin = ""
        for part in _END.sub("\\1\0", line).split("\0"):
            begin = f"{begin} {part}" if begin else part
            if not _ABBREVIATION.search(begin):
                found.append(begin)
                begin = ""
        found.append(begin)
    return [one for one in (part.strip() for part in found) if one]


def _score(scorer: Any, reference: str, text: str) -> tuple[float, ...]:  # noqa: ANN401  (the library is untyped)
    # Line ends are white space to all but Lsum, for which they end sentences.
    found = scorer.score("\n".join(sentences(reference)), "\n".join(sentences(text)))
    return tuple(float(found[name].fmeasure) for name in METRICS.values())


def _scorer() -> Any:  # noqa: ANN401
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as problem:
        raise MeasureError(
            f"ROUGE needs the library rouge-score, which cannot be loaded: {problem}",
            code="scorer",
            at="workload.scorers",
            try_="pip install 'assay-bench[llm]', then `assay score` on the kept answers: nothing is measured again",
        ) from None
    return RougeScorer(list(METRICS.values()), use_stemmer=False, split_summaries=False)


def exact_match(outputs: Sequence[Output]) -> Mapping[str, Sequence[float]]:
    """Whether an answer is its reference, white space around both aside."""
    return {"exact_match": _against_reference(outputs, lambda text, wanted: text.strip() == wanted.strip())}


def contains(outputs: Sequence[Output]) -> Mapping[str, Sequence[float]]:
    """Whether an answer holds its reference somewhere; case and the kind of white space aside."""
    return {"contains": _against_reference(outputs, lambda text, wanted: _plain(wanted) in _plain(text))}


def json_valid(outputs: Sequence[Output]) -> Mapping[str, Sequence[float]]:
    """Whether the whole answer is one JSON value; a fence of backticks around it makes it none."""
    return {"json_valid": [float(_is_json(one.text)) for one in outputs]}


def length(outputs: Sequence[Output]) -> Mapping[str, Sequence[float]]:
    """How long an answer is, in characters: words and tokens depend on who counts them."""
    return {"answer_chars": [float(len(one.text)) for one in outputs]}


def _against_reference(outputs: Sequence[Output], same: Callable[[str, str], bool]) -> list[float]:
    return [math.nan if one.reference is None else float(same(one.text, one.reference)) for one in outputs]


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
