"""Colour as a second signal: it repeats a word that is already there."""

from __future__ import annotations

from rich.color import ColorSystem
from rich.style import Style

_COLOURS = {
    "valid": "green", "better": "green", "suspect": "yellow", "cannot tell": "yellow",
    "invalid": "red", "worse": "red", "failed": "red", "missed": "red",
}  # fmt: skip


def paint(text: str) -> str:
    """Colour the verdict words at the ends and starts of lines; the words stay, colour only repeats them."""
    return "\n".join(_paint_line(line) for line in text.split("\n"))


def _paint_line(line: str) -> str:
    for word, colour in _COLOURS.items():
        style = Style.parse(colour)
        if line.startswith(f"{word} "):
            return style.render(word, color_system=ColorSystem.STANDARD) + line.removeprefix(word)
        if line.endswith(f"  {word}"):
            return line.removesuffix(word) + style.render(word, color_system=ColorSystem.STANDARD)
    return line
