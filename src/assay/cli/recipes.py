"""`assay recipes`: ready-made services to copy into a benchmark file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import Verbs
from assay.cli.output import say

app = Verbs(help="Ready-made services: small files to copy and change.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A name from `assay recipes list`.")]


@app.command("list")
def list_() -> None:
    """List the recipes."""
    from assay.spec.recipes import find_recipe, recipe_names

    names = recipe_names()
    width = max(map(len, names))
    say("\n".join(f"{name:<{width}}  {find_recipe(name).about}" for name in names))
    say("\ncopy one with `assay recipes copy NAME`, or name it in a file: services: {llm: {recipe: NAME}}")


@app.command("show")
def show(name: NameArgument) -> None:
    """Print a recipe."""
    from assay.spec.recipes import find_recipe

    say(find_recipe(name).text)


@app.command("copy")
def copy(
    name: NameArgument,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; NAME.yaml when left out.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a recipe into a file of your own."""
    from assay.errors import UsageError
    from assay.spec.recipes import find_recipe

    recipe, path = find_recipe(name), out or Path(f"{name}.yaml")
    if path.exists() and not force:
        raise UsageError(
            f"{path} exists already", code="exists", try_="choose another name with --out, or replace it with --force"
        )
    path.write_text(recipe.text, encoding="utf-8")
    say(f"wrote {path}")
