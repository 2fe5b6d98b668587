"""Small files in which a system shows its state; what cannot be read is not there."""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str:
    """The content of a file without the space around it; empty where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except (OSError, ValueError):  # a path with a NUL is a ValueError
        return ""


def number_of(path: Path) -> int | None:
    """The whole number that a file holds; None where it cannot be read or holds none."""
    text = text_of(path)
    try:
        return int(text)
    except ValueError:
        return None
