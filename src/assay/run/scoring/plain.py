"""Scorers that need no library."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence

from assay.run.scoring.outputs import Output


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
