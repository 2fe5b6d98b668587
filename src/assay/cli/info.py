"""`assay info`: what this machine is, and what works on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import JsonOption
from assay.cli.output import say, say_json, terminal_width, use_colour


def info(
    json_: JsonOption = False,
    models: Annotated[
        list[Path] | None,
        typer.Option("--models", metavar="FOLDER", help="Look for models in this folder and below; may be repeated."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Try the frameworks again, also those tried before.")] = False,
    proofs: Annotated[
        bool, typer.Option("--proofs/--no-proofs", help="Whether to try the frameworks that are installed.")
    ] = True,
) -> None:
    """Show what this machine is: system, processor, memory, disks, limits, GPUs, frameworks that work, probes."""
    from assay.cli.info_text import render
    from assay.hardware.environment import info as everything
    from assay.store.location import cache_folder, store_folder

    cache = cache_folder()
    found = everything(
        [*(models or ())],
        proofs,
        places={"results": store_folder(), "cache": cache},
        cache_folder=cache,
        fresh=fresh,
        tell=_tell,
    )
    if json_:
        say_json(found)
        return
    text = render(found, terminal_width())
    if use_colour():
        from assay.report.sheet import paint

        text = paint(text)
    say(text)


def _tell(name: str) -> None:
    """Someone who waits is told for what."""
    if sys.stderr.isatty():
        sys.stderr.write(f"trying {name}\n")
