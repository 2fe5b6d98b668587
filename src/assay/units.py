"""Units as people write them: `30s`, `2%`, `16GiB`; parsed once into seconds, ratios and bytes."""

from __future__ import annotations

import math
import re

_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_QUANTITY = re.compile(rf"^\s*{_NUMBER}\s*([A-Za-zµ%]*)\s*$")
_COMPOUND = re.compile(r"(\d+(?:\.\d+)?)\s*(h|m|s)(?![a-z])")

# Longer than any quantity that a person writes.
_LONGEST = 80
MOST_SECONDS = 100 * 365 * 86_400
MOST_BYTES = 2**63

SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
BYTES = {
    "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip


def seconds(value: object) -> float:
    """Parse a duration such as `30s`, `5m`, `1h30m` or a plain number of seconds."""
    if isinstance(value, str) and len(value) <= _LONGEST and len(parts := _COMPOUND.findall(value)) > 1:
        if _COMPOUND.sub("", value).strip():
            raise ValueError(_unreadable(value, "a duration", "30s, 5m or 1h30m"))
        return _within(sum(float(number) * SECONDS[unit] for number, unit in parts), value)
    number, unit = _split(value, "a duration", "30s, 500ms, 5m or 1h30m")
    if unit and unit not in SECONDS:
        raise ValueError(f"unknown unit {unit!r} in {_shown(value)}; use one of {', '.join(SECONDS)}")
    if number < 0:
        raise ValueError(f"a duration cannot be negative, got {_shown(value)}")
    return _within(number * SECONDS[unit or "s"], value)


def ratio(value: object) -> float:
    """Parse a share such as `2%` or `0.02` into 0.02."""
    number, unit = _split(value, "a share", "2% or 0.02")
    if unit not in ("", "%"):
        raise ValueError(f"unknown unit {unit!r} in {_shown(value)}; write 2% or 0.02")
    if number < 0:
        raise ValueError(f"a share cannot be negative, got {_shown(value)}")
    return number / 100 if unit == "%" else number


def size_bytes(value: object) -> int:
    """Parse a size such as `16GiB` or `500MB`, or a plain number of bytes."""
    number, unit = _split(value, "a size", "16GiB or 500MB")
    if unit and unit not in BYTES:
        raise ValueError(f"unknown unit {unit!r} in {_shown(value)}; use one of {', '.join(BYTES)}")
    if number < 0:
        raise ValueError(f"a size cannot be negative, got {_shown(value)}")
    if not number * BYTES[unit or "B"] < MOST_BYTES:
        raise ValueError(f"a size has at most {MOST_BYTES:,} bytes, got {_shown(value)}")
    return round(number * BYTES[unit or "B"])


def show_seconds(value_s: float) -> str:
    """Write a duration the way a person reads it: `850 ms`, `12 s`, `3 min 20 s`."""
    if value_s < 1:
        return f"{value_s * 1e3:.0f} ms"
    if value_s < 60:
        return f"{value_s:.1f} s" if value_s < 10 else f"{value_s:.0f} s"
    minutes, rest = divmod(round(value_s), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def show_bytes(value: float) -> str:
    """Write a size with a binary unit: `4.2 GiB`."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= scale:
            return f"{value / scale:.1f} {unit}"
    return f"{value:.0f} B"


def _split(value: object, what: str, example: str) -> tuple[float, str]:
    if isinstance(value, bool):
        raise ValueError(_unreadable(value, what, example))  # noqa: TRY004  (pydantic reports ValueError)
    if isinstance(value, int | float):
        number, unit = _number(value), ""
    else:
        match = _QUANTITY.match(value) if isinstance(value, str) and len(value) <= _LONGEST else None
        if match is None:
            raise ValueError(_unreadable(value, what, example))
        number, unit = float(match[1]), match[2]
    if not math.isfinite(number):
        raise ValueError(f"{_shown(value)} is not {what}: a finite number is needed; write for example {example}")
    return number, unit


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf


def _within(value_s: float, given: object) -> float:
    if value_s > MOST_SECONDS:
        raise ValueError(f"a duration is at most {MOST_SECONDS:,} s (a hundred years), got {_shown(given)}")
    return value_s


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        return "a very large number"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _unreadable(value: object, what: str, example: str) -> str:
    return f"{_shown(value)} is not {what}; write for example {example}"
