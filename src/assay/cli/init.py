"""`assay init`: a commented starter file for a model, a command or an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import say


def init(
    target: Annotated[
        str, typer.Argument(help="A model file or URL, a name from `assay models`, an endpoint URL, or a command.")
    ] = "squeezenet",
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path("bench.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented starter file."""
    from assay.errors import UsageError
    from assay.spec.starter import starter

    if out.exists() and not force:
        raise UsageError(
            f"{out} exists already", code="exists", try_="choose another name with --out, or replace it with --force"
        )
    out.write_text(starter(target))
    say(f"wrote {out}\nnext    assay plan {out}; assay run {out}")
