"""HTML built from elements: text is escaped by construction, so that no name can become markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

# XML has no way to write these, and a browser shows them as noise.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_VOID = frozenset({"meta", "br", "hr", "img", "col"})
Child = str | int | None | Iterable["Child"]
Attribute = str | int | float | bool | None


class Markup(str):
    """Text that is markup already; every other text is escaped when it enters an element."""

    __slots__ = ()


def el(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """One element; `class_` is written `class`, other underscores become hyphens, None is left out."""
    opening = tag + "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{opening} />")
    return Markup(f"<{opening}>{join(children)}</{tag}>")


def join(children: Iterable[Child], between: str = "") -> Markup:
    """Children one after another, each escaped unless it is markup."""
    return Markup(between.join(_child(child) for child in children))


def text(value: str) -> Markup:
    """Plain text, escaped, without terminal codes and unprintable characters."""
    return Markup(html.escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", _ANSI.sub("", value))))


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int):
        return text(str(child))
    return join(child)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-")
    if isinstance(value, float):
        return f' {written}="{round(value, 3):g}"'
    return f' {written}="{"" if value is True else text(str(value))}"'
