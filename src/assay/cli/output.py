"""How verbs print: lines, tables, JSON, a campaign in every format; and the exit code that a campaign deserves."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.cli.options import FailOn, Format
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.analyse.records import CampaignRecord


def say(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def say_json(answer: object) -> None:
    say(json.dumps(answer, indent=2, ensure_ascii=False))


def say_table(names: Sequence[str], rows: Iterable[Sequence[str]], empty: str, flexible: str = "") -> None:
    """Print rows under their names, or a sentence when there are none."""
    from assay.report.sheet import text_table

    all_rows = list(rows)
    if not all_rows:
        say(empty)
        return
    places = [place for place, name in enumerate(names) if name == flexible]
    say("\n".join(text_table(names, all_rows, terminal_width(), flexible=places)))


def terminal_width() -> int:
    """Columns to use: the terminal's, or 110 where there is none."""
    import shutil

    return shutil.get_terminal_size((110, 24)).columns


def use_colour() -> bool:
    """Whether standard output is a terminal that wants colour."""
    import os

    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def moment(at: float | None) -> str:
    """A moment as people write it, in UTC; nothing for none."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S") if at else ""


def labels_of(pairs: Sequence[str]) -> dict[str, str]:
    """Read `name=value` pairs.

    Raises:
        UsageError: for one without `=`.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"{pair!r} is no label", code="label", try_="write name=value")
        values[name] = value
    return values


def in_words(labels: Mapping[str, Any]) -> str:
    """Labels on one line."""
    return " ".join(f"{name}={value}" for name, value in labels.items())


def rendered(record: CampaignRecord, form: Format, *, why: bool = False) -> str:
    """Write a campaign in a format.

    Args:
        why: as text also every job in detail, with all reasons for doubt.
    """
    if form is Format.json:
        from assay.report.export import result_json

        return result_json(record)
    if form is Format.csv:
        from assay.report.export import render_csv

        return render_csv(record)
    if form is Format.md:
        from assay.report.markdown import render_markdown

        return render_markdown(record)
    from assay.report.terminal import render_answer, render_table

    renders = (render_answer, render_table) if why else (render_answer,)
    return "\n\n".join(render(record, width=terminal_width(), colour=use_colour()) for render in renders)


def exit_code(record: CampaignRecord, fail_on: FailOn) -> int:
    """What a script gets: 3 when something could not be measured, 1 when a check or gate failed, else 0."""
    if any(job.state != "done" for job in record.jobs):
        return 3
    bad = {FailOn.never: set(), FailOn.invalid: {"invalid"}, FailOn.suspect: {"invalid", "suspect"}}[fail_on]
    gates = fail_on is not FailOn.never and any(gate.passed is False for job in record.jobs for gate in job.gates)
    return 1 if gates or any(job.verdict in bad for job in record.jobs) else 0
