"""What a watching process hands back: all readings as packed CSV, and one line of JSON for each question."""

from __future__ import annotations

import csv
import gzip
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

HEAD = ("source", "name", "labels", "at_ns", "value")
Rows = tuple[str, str, str, Sequence[int], Sequence[float]]
"""Source, name and labels (JSON) of a series, its moments and its values."""


def write(path: Path, series: Iterable[Rows]) -> int:
    """Write all readings; the same readings make the same file.

    Returns:
        How many rows there are.
    """
    count = 0
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as packed, TextIOWrapper(packed, "utf-8") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(HEAD)
        for source, name, labels, at_ns, value in series:
            writer.writerows((source, name, labels, at, one) for at, one in zip(at_ns, value, strict=True))
            count += len(at_ns)
    return count


def answer(told: Mapping[str, Any]) -> None:
    """Answer with one line of JSON; where nobody listens any more, nothing is said."""
    try:
        sys.stdout.write(json.dumps(_finite(told), allow_nan=False) + "\n")
        sys.stdout.flush()
    except OSError:
        return


def _finite(value: Any) -> Any:  # noqa: ANN401  (JSON has no narrower type)
    """The same without NaN and infinities, for which JSON has no word."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
