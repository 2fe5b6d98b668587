"""`assay models`: real networks that need no download."""

from __future__ import annotations

import json
from dataclasses import asdict

from assay.cli.options import Format, FormatOption
from assay.cli.output import say


def models(form: FormatOption = Format.text) -> None:
    """List the built-in models: real networks that need no network access."""
    from assay.report.sheet import GridColumn, lay_out
    from assay.run.models import builtin_models

    found = builtin_models()
    if form is Format.json:
        say(json.dumps([asdict(model) for model in found], indent=2))
        return
    if not found:
        say("no built-in models: they come with the onnx package\ntry     pip install 'assay-bench[onnx]'")
        return
    columns = (
        GridColumn("name"),
        GridColumn("network", flexible=True),
        GridColumn("input"),
        GridColumn("batch"),
        GridColumn("nodes", right=True),
    )
    say("\n".join(lay_out(columns, [(m.name, m.title, m.input, m.batch, str(m.nodes)) for m in found], 100)))
    say("\ntrue graphs with constant weights: real compute, meaningless classes. Use a name as target.model.")
