"""`assay explain`: why a series changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import (
    SourceOptions,
    open_store,
)
from assay.cli.output import say, terminal_width
from assay.cli.series import FormOption, SeriesFormat

if TYPE_CHECKING:
    from pathlib import Path

    from assay.series.repository import KnownFinding


def explain(
    finding: Annotated[str, typer.Argument(metavar="FINDING", help="Id of the finding, or its beginning.")],
    form: FormOption = SeriesFormat.text,
    *,
    source: SourceOptions,
) -> None:
    """Explain a finding: what changed, how sure that is, why, and all that differs."""
    if server:
        from assay.documents import adapter
        from assay.series.repository import KnownFinding

        told = server.connect().get(f"/findings/{finding}")
        found = adapter(KnownFinding).validate_python(told)
    else:
        found = _here(store, finding)
    if form is SeriesFormat.json:
        from assay.documents import to_json

        say(to_json(found, indent=2))
        return
    from assay.report.series import render_finding

    say(render_finding(found, terminal_width()))


def _here(store: Path | None, finding: str) -> KnownFinding:
    from assay.series.repository import SeriesStore

    kept = open_store(store)
    try:
        return SeriesStore(kept).finding(finding)
    finally:
        kept.close()
