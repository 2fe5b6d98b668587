"""`assay import`: a document of another tool as a benchmark file."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.options import SetOption
from assay.cli.output import say

if TYPE_CHECKING:
    from assay.spec.source import Source

# Wide enough that no value is folded, which would be harder to read than a long line.
_WIDTH = 4096


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Document of another tool: YAML, TOML or JSON.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write, .yaml or .json; printed when left out.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="KIND", help="Which tool: benchmark-ai, sark or team9; told by its content if left out."
        ),
    ] = None,
    settings: SetOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Turn a document of another tool into a benchmark file; what has no meaning here is said."""
    from assay.errors import UsageError
    from assay.spec.importers import importer_names, own_source
    from assay.spec.override import with_settings
    from assay.spec.source import read

    if out is not None and out.exists() and not force:
        raise UsageError(
            f"{out} exists already", code="exists", try_="choose another name with --out, or replace it with --force"
        )
    if out is not None and out.suffix.lower() not in (".yaml", ".yml", ".json"):
        raise UsageError(f"{out} has no ending that is known", code="suffix", at="--out", try_="write bench.yaml")
    source = own_source(read(file), kind)
    if not source.notes:
        raise UsageError(
            f"{file} is no document of a tool that is known"
            if "benchmark" not in source.document
            else f"{file} is a benchmark file already",
            code="import",
            at=str(file),
            try_=f"name the tool with --from: {', '.join(importer_names())}",
        )
    loaded = with_settings(source, settings or (), file.resolve().parent)
    made = _written(loaded.source, (out or Path("bench.yaml")).suffix.lower())
    if out is None:
        say(made)
        sys.stderr.writelines(f"note    {note}\n" for note in source.notes)
        return
    out.write_text(made, encoding="utf-8")
    say("\n".join([*(f"note    {note}" for note in source.notes), f"wrote {out}", f"next    assay plan {out}"]))


def _written(source: Source, suffix: str) -> str:
    """The text of a benchmark file, with what is to be said about it at its top where the format has comments."""
    if suffix == ".json":
        import json

        return json.dumps(source.document, indent=2, ensure_ascii=False) + "\n"
    from ruamel.yaml import YAML

    writer = YAML()
    writer.default_flow_style = False
    writer.width = _WIDTH
    writer.representer.add_representer(type(None), _null)
    text = io.StringIO()
    writer.dump(source.document, text)
    return "".join(f"# {line}\n" for note in source.notes for line in note.splitlines()) + text.getvalue()


def _null(representer: Any, _: None) -> Any:  # noqa: ANN401  (ruamel's representers are untyped)
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")
