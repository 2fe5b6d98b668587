"""`assay validate`: is this file right? All problems at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.output import say


def validate(files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Benchmark files.")]) -> None:
    """Check benchmark files, every point of their matrix included."""
    from assay.errors import Problem, SpecError
    from assay.run.inputs import plan_of, refuse_inputs
    from assay.spec.load import load
    from assay.spec.secrets import references

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
