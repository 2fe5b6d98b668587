"""How much of the dashboard a browser fetches, packed as the server sends it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

LIMIT_KB = 300
_IN_PAGE = re.compile(r"""(?:src|href)="\./(assets/[^"]+)\"""")
# Imports that are fetched with the page; those in brackets, import(…), come when a page needs them.
_AT_ONCE = re.compile(r"""(?:from|import)\s*["']\./([\w.-]+\.js)["']""")


def sizes_of(built: Path) -> dict[str, int]:
    """Name of every built file → its bytes by gzip."""
    files = [path for path in sorted(built.rglob("*")) if path.is_file()]
    return {path.relative_to(built).as_posix(): len(gzip.compress(path.read_bytes(), 9)) for path in files}


def first_load(built: Path) -> list[str]:
    """What is fetched before any page is drawn: the page, its scripts with all that they import, its styles."""
    found = ["index.html"]
    waiting = _IN_PAGE.findall((built / "index.html").read_text(encoding="utf-8"))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.append(name)
        if name.endswith(".js"):
            text = (built / name).read_text(encoding="utf-8")
            waiting += [f"assets/{one}" for one in _AT_ONCE.findall(text)]
    return found
