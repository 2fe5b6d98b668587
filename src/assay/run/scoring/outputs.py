"""Answers as they are kept: one JSON object a line, packed; written and read one at a time."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from assay.errors import MeasureError

OUTPUTS = "outputs.jsonl.gz"
_OWN = ("item", "session", "turn", "text", "reference", "data", "outcome")
_LONGEST_LINE = 64 * 2**20
# Of a question that much is kept beside its answer, so that people know what was asked; its item has it whole.
_LONGEST_PROMPT = 4000


@dataclass(frozen=True, slots=True)
class Output:
    """What came back for one request."""

    item: str
    """Name of the item inside its task."""
    session: int
    turn: int
    text: str
    """The answer; empty also for a request that failed, which `outcome` tells apart."""
    reference: str | None = None
    """What the answer should say, where the task knows."""
    data: Mapping[str, JsonValue] = field(default_factory=dict)
    """The item's other keys, for scorers."""
    outcome: str = "ok"
    """How the request ended, in the words of `run.load.http.recording`; only `ok` has an answer to score."""
    more: Mapping[str, JsonValue] = field(default_factory=dict)
    """Further facts about the request, such as `ttft_ms` or `request_id`."""

    @property
    def answered(self) -> bool:
        """Whether there is an answer, even an empty one."""
        return self.outcome == "ok"


def as_asked(prompt: str) -> dict[str, JsonValue]:
    """What was asked, as a fact about a request; a long question is cut, and says so."""
    if len(prompt) <= _LONGEST_PROMPT:
        return {"prompt": prompt}
    return {"prompt": prompt[:_LONGEST_PROMPT], "prompt_characters": len(prompt)}


def write_outputs(path: Path, outputs: Iterable[Output]) -> int:
    """Write answers to a file; return how many. The same answers make the same bytes."""
    count = 0
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as file:
        for output in outputs:
            row = {
                **_finite(output.more),
                **{name: getattr(output, name) for name in _OWN},
                "data": _finite(output.data),
            }
            # A lone surrogate, which a server may send, has no place in UTF-8; as an escape JSON has one for it.
            line = json.dumps(row, ensure_ascii=False, default=_plain)
            file.write(line.encode("utf-8", "backslashreplace") + b"\n")
            count += 1
    return count


def read_outputs(path: Path) -> Iterator[Output]:
    """Read answers back, one at a time."""
    number = 0
    try:
        with gzip.open(path, "rb") as file:
            while line := file.readline(_LONGEST_LINE):
                number += 1
                yield _output(json.loads(line))
    except (OSError, EOFError, ValueError, TypeError, KeyError, AttributeError, RecursionError, zlib.error) as problem:
        message = f"the answers cannot be read: {problem}"
        try_ = "take the file as the run left it, or measure again"
        raise MeasureError(message, code="outputs", at=f"{path}:{number or 1}", try_=try_) from None


def _output(row: Mapping[str, JsonValue]) -> Output:
    reference, data, outcome = row.get("reference"), row.get("data"), row.get("outcome")
    text, session, turn = row["text"], row.get("session", 0), row.get("turn", 0)
    if not isinstance(text, str) or not isinstance(session, int) or not isinstance(turn, int):
        raise TypeError("a line holds no answer: text, session and turn are needed")
    return Output(
        item=str(row.get("item", "")),
        session=session,
        turn=turn,
        text=text,
        reference=reference if isinstance(reference, str) else None,
        data=data if isinstance(data, dict) else {},
        outcome=outcome if isinstance(outcome, str) else "ok",
        more={name: value for name, value in row.items() if name not in _OWN},
    )


def _finite(more: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Facts as JSON can say them: a number that is none becomes null."""
    lost = {name: None for name, value in more.items() if isinstance(value, float) and not math.isfinite(value)}
    return {**more, **lost}


def _plain(value: Any) -> Any:  # noqa: ANN401  (a number of NumPy's)
    return value.item()
