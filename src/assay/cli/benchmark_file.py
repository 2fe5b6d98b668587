"""Verbs around the benchmark file: `init`, `validate`, `schema`, `import`, `models` and `recipes`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import Format, FormatOption, SetOption, TextFormat, TextFormatOption, Verbs
from assay.cli.output import say, say_json
from assay.cli.target import TARGET_HELP, request_from
from assay.errors import Problem, SpecError, UsageError


def init(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="TARGET", help=TARGET_HELP, show_default=False)] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path("bench.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented starter file, for the built-in model squeezenet if nothing is named."""
    from assay.api.one_line import begin

    _refuse_existing(out, force)
    draft = begin(request_from(context, words or ["squeezenet"]))
    if draft.text is None:
        raise UsageError(
            f"{draft.target} is a benchmark file already", code="exists", try_=f"assay plan {draft.target}"
        )
    out.write_text(draft.text, encoding="utf-8")
    say(f"wrote {out}")
    endpoint = draft.endpoint
    if endpoint is None or endpoint.models:
        if endpoint is not None:
            say(f"model   {endpoint.models[0]}")
        say(f"next    assay plan {out}; assay run {out}")
    else:
        say(f"note    the endpoint did not name its models: {endpoint.why}")
        say(f"next    write the name of your model into {out} (target.model), then assay plan {out}; assay run {out}")


def _refuse_existing(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise UsageError(
            f"{path} exists already", code="exists", try_="choose another name with --out, or replace it with --force"
        )


def validate(files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Benchmark files.")]) -> None:
    """Check benchmark files, every point of their matrix included."""
    from assay.run.inputs import plan_of, refuse_inputs
    from assay.spec.load import load
    from assay.spec.references import references

    problems: list[Problem] = []
    for file in files:
        try:
            loaded = load(file)
            made = plan_of(loaded)
            refuse_inputs(loaded, made)
        except SpecError as wrong:
            problems += wrong.problems
            continue
        names = sorted(set(references(loaded.source.document)))
        secrets = f", secrets from {', '.join(names)}" if names else ""
        for note in loaded.source.notes:
            say(f"note    {note}")
        say(f"{file}: valid, {len(made.jobs)} {'job' if len(made.jobs) == 1 else 'jobs'}{secrets}")
    if problems:
        raise SpecError.of(problems)


class Document(StrEnum):
    """Documents that have a schema."""

    benchmark = "benchmark"
    job = "job"
    result = "result"


def schema(
    document: Annotated[Document, typer.Argument(help="Which document.")] = Document.benchmark,
) -> None:
    """Print the JSON Schema of the benchmark file, the job document or the result document."""
    say(json.dumps(_schema(document), indent=2))


def _schema(document: Document) -> dict[str, object]:
    if document is Document.result:
        from assay.report.export import result_schema

        return result_schema()
    if document is Document.job:
        from assay.documents import adapter
        from assay.plan.job import JOB_SCHEMA, Job

        return {"$id": JOB_SCHEMA, **adapter(Job).json_schema()}
    from assay.spec.schema import benchmark_schema

    return benchmark_schema()


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Document of another tool: YAML, TOML or JSON.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write, .yaml or .json; printed when left out.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="KIND",
            help="Which tool: benchmark-ai, sark or team9; detected from its content if left out.",
        ),
    ] = None,
    settings: SetOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Convert a document of another tool into a benchmark file, and list what has no equivalent."""
    from assay.spec.file_text import file_text
    from assay.spec.importers import importer_names, own_source
    from assay.spec.load import with_settings
    from assay.spec.source import read

    if out is not None:
        _refuse_existing(out, force)
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
    made = file_text(loaded.source, (out or Path("bench.yaml")).suffix.lower())
    if out is None:
        say(made)
        sys.stderr.writelines(f"note    {note}\n" for note in source.notes)
        return
    out.write_text(made, encoding="utf-8")
    say("\n".join([*(f"note    {note}" for note in source.notes), f"wrote {out}", f"next    assay plan {out}"]))


def models(form: FormatOption = Format.text) -> None:
    """List the built-in models: real networks that need no network access."""
    from assay.report.sheet import text_table
    from assay.run.models import builtin_models

    models = builtin_models()
    if form is Format.json:
        say(json.dumps([asdict(model) for model in models], indent=2))
        return
    if not models:
        say("no built-in models: they come with the onnx package\ntry     pip install 'assay-bench[onnx]'")
        return
    head = ("name", "network", "input", "batch", "nodes")
    rows = [(network.name, network.title, network.input, network.batch, str(network.nodes)) for network in models]
    say("\n".join(text_table(head, rows, 100, right=(4,), flexible=(1,))))
    say("\ntrue graphs with constant weights: real compute, meaningless classes. Use a name as target.model.")


recipes_app = Verbs(help="Ready-made services: small files to copy and change.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A name from `assay recipes list`.")]


@recipes_app.command("list")
def list_recipes(form: TextFormatOption = TextFormat.text) -> None:
    """List the recipes."""
    from assay.spec.recipes import find_recipe, recipe_names

    names = recipe_names()
    if form is TextFormat.json:
        say_json([{"name": name, "about": find_recipe(name).about} for name in names])
        return
    width = max(map(len, names))
    say("\n".join(f"{name:<{width}}  {find_recipe(name).about}" for name in names))
    say("\ncopy one with `assay recipes copy NAME`, or name it in a file: services: {llm: {recipe: NAME}}")


@recipes_app.command("show")
def show_recipe(name: NameArgument) -> None:
    """Print a recipe."""
    from assay.spec.recipes import find_recipe

    say(find_recipe(name).text)


@recipes_app.command("copy")
def copy_recipe(
    name: NameArgument,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; NAME.yaml when left out.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a recipe into a file of your own."""
    from assay.spec.recipes import find_recipe

    recipe, path = find_recipe(name), out or Path(f"{name}.yaml")
    _refuse_existing(path, force)
    path.write_text(recipe.text, encoding="utf-8")
    say(f"wrote {path}")
