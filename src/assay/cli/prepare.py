"""`assay prepare`: images, models and data fetched ahead, for nodes without a network."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import BenchmarkFile, SetOption
from assay.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.run.fetch.ahead import PreparedItem


class Form(StrEnum):
    """How what was prepared is printed."""

    text = "text"
    json = "json"


class RuntimeName(StrEnum):
    """What runs container images."""

    auto = "auto"
    apptainer = "apptainer"
    podman = "podman"
    charliecloud = "charliecloud"
    docker = "docker"


def prepare(
    file: BenchmarkFile,
    check: Annotated[bool, typer.Option("--check", help="Fetch nothing; tell what is missing.")] = False,
    runtime: Annotated[
        RuntimeName, typer.Option("--runtime", help="What runs the images of services that do not say it.")
    ] = RuntimeName.auto,
    settings: SetOption = None,
    form: Annotated[Form, typer.Option("--format", "-f", help="How to print it.")] = Form.text,
) -> None:
    """Fetch the images, models and data of a benchmark ahead, with checksums; exit code 1 when --check misses some."""
    from assay.run.fetch.ahead import prepare as prepare_all
    from assay.spec.load import read_with

    items = prepare_all(read_with(file, settings or ()), check=check, runtime=runtime.value, tell=_tell)
    say(_json(items) if form is Form.json else _text(items))
    if any(item.state == "failed" for item in items):
        raise typer.Exit(3)
    raise typer.Exit(1 if any(item.state == "missing" for item in items) else 0)


def _tell(note: str) -> None:
    sys.stderr.write(f"{note}\n")


def _json(items: Sequence[PreparedItem]) -> str:
    import json
    from dataclasses import asdict

    return json.dumps([asdict(item) for item in items], indent=2, ensure_ascii=False)


def _text(items: Sequence[PreparedItem]) -> str:
    from assay.report.sheet import GridColumn, lay_out
    from assay.units import show_bytes

    if not items:
        return "nothing to prepare: this benchmark needs no image, no model and no file"
    columns = (
        GridColumn("what"),
        GridColumn("state"),
        GridColumn("size", right=True),
        GridColumn("sha256"),
        GridColumn("name", flexible=True, shortest=24),
    )
    rows = [
        (
            item.kind,
            item.state,
            "" if item.size_bytes is None else show_bytes(item.size_bytes),
            item.sha256[:12],
            item.name,
        )
        for item in items
    ]
    lines = lay_out(columns, rows, 120)
    for item in items:
        lines += [f"{item.name}: {item.note}"] if item.state in ("failed", "missing") and item.note else []
        lines += [f"{item.name}: {item.path}"] if item.state == "fetched" else []
    wanting = sum(item.state in ("missing", "failed") for item in items)
    return "\n".join([*lines, "", f"{wanting} of {len(items)} missing" if wanting else f"all {len(items)} are here"])
