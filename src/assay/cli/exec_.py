"""`assay exec`: one job document in, one result document out; what every engine runs on its machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypedDict

import typer

from assay.cli.output import say
from assay.cli.run import LockOption, NoControlOption


class _Wishes(TypedDict):
    fresh: bool
    lock: str | None
    control: bool


def exec_(
    job: Annotated[Path, typer.Argument(metavar="JOB.json", help="A job document.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the result and its samples.")],
    events: Annotated[
        bool, typer.Option("--events", help="Print one JSON object per line about how it goes, and nothing else.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not keep the runs that are there already.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    lock: LockOption = None,
    no_control: NoControlOption = False,
) -> None:
    """Measure one job document and write its result document and samples; an interrupted one continues."""
    wishes: _Wishes = {"fresh": fresh, "lock": lock.value if lock else None, "control": not no_control}
    state = _with_events(job, out, wishes) if events else _shown(job, out, wishes, quiet=quiet)
    raise typer.Exit(0 if state == "done" else 3)


def _shown(job: Path, out: Path, wishes: _Wishes, *, quiet: bool) -> str:
    from assay.exec.document import execute_document
    from assay.report.live import view_for

    result = execute_document(job, out, view_for(text=True, quiet=quiet), **wishes)
    say(str(out / "result.json"))
    return result.state


def _with_events(job: Path, out: Path, wishes: _Wishes) -> str:
    from assay.errors import AssayError
    from assay.exec.document import RESULT, execute_document
    from assay.report.live import EventView

    view = EventView(out / RESULT)
    try:
        return execute_document(job, out, view, **wishes).state
    except AssayError as error:
        view.error(error)
        raise
