"""Stand-ins for programs of others: each writes down how it was called, and answers as it is told."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

_SCRIPT = """#!{python}
import json, os, sys
folder = {folder!r}
words = sys.argv[1:]
with open(os.path.join(folder, "calls.jsonl"), "a") as log:
    log.write(json.dumps([{name!r}, *words]) + "\\n")
answers = json.load(open(os.path.join(folder, {name!r} + ".json")))
for beginning, code, text in answers:
    if any(words[place:place + len(beginning)] == beginning for place in range(len(words))):
        sys.stdout.write(text)
        sys.exit(code)
sys.exit(0)
"""


class Programs:
    """A folder on PATH with stand-ins."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")

    def add(self, name: str, answers: list[tuple[list[str], int, str]] | None = None) -> None:
        """Put a program there; it ends well and says nothing, but for calls that hold some words in a row."""
        (self.folder / f"{name}.json").write_text(json.dumps(answers or []))
        path = self.folder / name
        path.write_text(_SCRIPT.format(python=sys.executable, folder=str(self.folder), name=name))
        path.chmod(0o755)

    @property
    def calls(self) -> list[list[str]]:
        """Every call so far, with the name of the program first."""
        log = self.folder / "calls.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def called(self, *words: str) -> list[list[str]]:
        """The calls that hold some words in this order, one after the other."""
        return [call for call in self.calls if _holds(call, words)]


def _holds(call: list[str], words: tuple[str, ...]) -> bool:
    return any(tuple(call[place : place + len(words)]) == words for place in range(len(call)))
