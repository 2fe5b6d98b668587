"""Embeddings: a unit vector for each text, which depends on its words alone."""

from __future__ import annotations

import math
from random import Random


def vector(text: str, dimensions: int) -> list[float]:
    """The sum of a fixed direction for each word, made to length 1; texts that share words are near each other."""
    total = [0.0] * dimensions
    for word in text.split() or [""]:
        source = Random(word)  # noqa: S311  (no secret)
        for at in range(dimensions):
            total[at] += source.gauss(0.0, 1.0)
    length = math.sqrt(sum(part * part for part in total)) or 1.0
    return [round(part / length, 7) for part in total]
