"""The page of one bench: what was measured where, as Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from assay.hardware.environment import git_state, packages
from assay.hardware.machine import machine

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benches" / "results"
# Benches that need more than this machine has, and what they are run in.
_INSIDE = {"kubernetes": "scripts/kubernetes.sh "}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a heading."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        """The table with its notes under it."""
        lines = [f"## {self.title}", "", _row(self.columns), _row(["---"] * len(self.columns))]
        lines += [_row(row) for row in self.rows]
        lines += ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that one bench has to say."""

    name: str
    title: str
    about: str
    tables: Sequence[Table]

    @property
    def failed(self) -> bool:
        """Whether any target was missed."""
        return any("**fail**" in cell for table in self.tables for row in table.rows for cell in row)

    def markdown(self, load_before: float) -> str:
        """The whole page, with the load average that the bench began at."""
        head = [f"# {self.title}", "", self.about, "", facts(load_before), "", f"Repeat: {repeat(self.name)}", ""]
        return "\n".join(head) + "\n" + "\n".join(table.markdown() for table in self.tables)


def repeat(name: str) -> str:
    """How to get the page again."""
    return f"`make setup && {_INSIDE.get(name, '')}.venv/bin/python -m benches {name}`."


def facts(load_before: float) -> str:
    """Date, machine and software in one paragraph."""
    here = machine()
    versions = ", ".join(f"{name} {version}" for name, version in packages().items())
    virtual = ", virtual machine" if here.get("virtual") else ""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"{now}, commit {_commit()}. {here.get('cpu')}, {here.get('usable_cores')} cores{virtual}, "
        f"{here.get('os_version')}, Python {platform.python_version()}, {versions}. "
        f"Load average before {load_before:.2f}, after {os.getloadavg()[0]:.2f}."
    )


def _commit() -> str:
    state = git_state(ROOT)
    if not isinstance(state, dict):
        return "unknown"
    return f"{str(state['commit'])[:10]}{' with changes' if state['changed'] else ''}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
