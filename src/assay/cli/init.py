"""`assay init`: a commented starter file for a model, a command or an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.output import say


def init(
    target: Annotated[
        str, typer.Argument(help="A model file or URL, a name from `assay models`, an endpoint URL, or a command.")
    ] = "squeezenet",
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path("bench.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented starter file."""
    from assay.errors import UsageError
    from assay.spec.starter import kind_of, starter

    if out.exists() and not force:
        raise UsageError(
            f"{out} exists already", code="exists", try_="choose another name with --out, or replace it with --force"
        )
    if kind_of(target) != "endpoint":
        out.write_text(starter(target))
        say(f"wrote {out}\nnext    assay plan {out}; assay run {out}")
        return
    from assay.run.targets.served.asking import listed_models

    found = listed_models(target)
    out.write_text(starter(target, found.names))
    say(f"wrote {out}")
    if found.names:
        say(f"model   {found.names[0]}\nnext    assay plan {out}; assay run {out}")
    else:
        say(f"note    the endpoint did not name its models: {found.why}")
        say(f"next    write the name of your model into {out} (target.model), then assay plan {out}; assay run {out}")
