"""Options that several verbs share."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from assay.analyse.records import CampaignRecord
    from assay.store.store import Store


class Format(StrEnum):
    """How results are printed."""

    text = "text"
    json = "json"
    csv = "csv"
    md = "md"


class FailOn(StrEnum):
    """Which verdict makes the command fail."""

    never = "never"
    invalid = "invalid"
    suspect = "suspect"


BenchmarkFile = Annotated[Path, typer.Argument(metavar="FILE", help="Benchmark file: YAML, TOML or JSON.")]
StoreOption = Annotated[
    Path | None, typer.Option("--store", help="Folder of the results.", envvar="ASSAY_STORE", show_default=False)
]
ObjectsOption = Annotated[
    str | None,
    typer.Option(
        "--objects",
        metavar="URL",
        help="Object store that the files of the results also go to.",
        envvar="ASSAY_OBJECTS",
        show_default=False,
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", "-f", help="How to print the results.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Set a key of the file, such as measure.runs=3.")
]


def say(text: str) -> None:
    """Print to standard output."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def terminal_width() -> int:
    """Columns to use: the terminal's, or 110 where there is none."""
    import shutil

    return shutil.get_terminal_size((110, 24)).columns


def use_colour() -> bool:
    """Whether standard output is a terminal that wants colour."""
    import os

    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def open_store(store: Path | None) -> Store:
    """Open the store of this user, or the one given."""
    from assay.store.location import store_folder
    from assay.store.store import Store

    kept = Store(store_folder(store))
    if kept.is_read_only:
        sys.stderr.write(f"note    {kept.folder} is read-only: results can be looked at, and none can be kept\n")
    return kept


def rendered(record: CampaignRecord, form: Format) -> str:
    """A campaign in the asked format."""
    if form is Format.json:
        from assay.report.document import result_json

        return result_json(record)
    if form is Format.csv:
        from assay.report.table import render_csv

        return render_csv(record)
    if form is Format.md:
        from assay.report.markdown import render_markdown

        return render_markdown(record)
    from assay.report.terminal import render_table

    return render_table(record, width=terminal_width(), colour=use_colour())


def exit_code(record: CampaignRecord, fail_on: FailOn) -> int:
    """What a script is told: 3 when something could not be measured, 1 when a check or gate failed, else 0."""
    if any(job.state != "done" for job in record.jobs):
        return 3
    bad = {FailOn.never: set(), FailOn.invalid: {"invalid"}, FailOn.suspect: {"invalid", "suspect"}}[fail_on]
    gates = fail_on is not FailOn.never and any(gate.passed is False for job in record.jobs for gate in job.gates)
    return 1 if gates or any(job.verdict in bad for job in record.jobs) else 0
