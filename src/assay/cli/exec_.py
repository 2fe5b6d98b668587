"""`assay exec`: one job document in, one result document out; what every engine runs on its machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import say


def exec_(
    job: Annotated[Path, typer.Argument(metavar="JOB.json", help="A job document.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the result and its samples.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Measure one job document and write its result document and samples."""
    from assay.execution import execute_document
    from assay.report.live import view_for

    result = execute_document(job, out, view_for(text=True, quiet=quiet))
    say(str(out / "result.json"))
    raise typer.Exit(0 if result.state == "done" else 3)
