"""The Prometheus text format, written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Family:
    """All values of one name."""

    name: str
    kind: str
    meaning: str
    values: tuple[tuple[Mapping[str, str], float], ...]


def render(families: Iterable[Family]) -> str:
    """Families as text; one without values is left out."""
    lines: list[str] = []
    for one in families:
        if one.values:
            lines += [f"# HELP {one.name} {one.meaning}", f"# TYPE {one.name} {one.kind}"]
            lines += [f"{one.name}{_labels(labels)} {value!r}" for labels, value in one.values]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    told = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{told}}}" if told else ""
