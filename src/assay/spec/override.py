"""Values set from outside the file: `measure.runs=3` on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from assay.errors import SpecError, UsageError
from assay.spec.importers import own_source
from assay.spec.limits import MAX_DEPTH, check_tree, cut
from assay.spec.load import Loaded, check
from assay.spec.matrix import apply
from assay.spec.source import Source, parse, read


def read_with(path: Path, settings: Sequence[str]) -> Loaded:
    """Load a file with some of its keys set anew; the matrix stays and wins over them.

    A document of another tool is imported first, so that the keys are those of a benchmark.
    """
    return with_settings(own_source(read(path)), settings, path.resolve().parent)


def with_settings(source: Source, settings: Sequence[str], base: Path) -> Loaded:
    """Check a source with some of its keys set anew."""
    matrix = source.document.get("matrix")
    given = dict(_setting(text) for text in settings)
    document = apply(source.document, given)
    if matrix is not None and "matrix" not in given:
        document["matrix"] = matrix
    check_tree(document, "--set")
    return check(replace(source, document=document), base)


def settings_of(settings: Sequence[str]) -> dict[str, JsonValue]:
    """A document made of settings alone: `partition=gpu`, `each.monitor.cpus=1`.

    Raises:
        UsageError: for one that sets nothing.
    """
    return apply({}, dict(_setting(text) for text in settings))


def _setting(text: str) -> tuple[str, JsonValue]:
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise UsageError(
            f"{cut(repr(text), 200)} sets nothing", code="set", at="--set", try_="write --set measure.runs=3"
        )
    if path.count(".") >= MAX_DEPTH:
        raise UsageError(
            f"{cut(path, 80)} has {path.count('.') + 1:,} parts; at most {MAX_DEPTH} are read",
            code="set",
            at="--set",
            try_="write --set measure.runs=3",
        )
    # The value is read as YAML reads it, so that 3 is a number and [1, 2] a list.
    try:
        return path.strip(), parse(f"value: {value}", ".yaml", "--set").document["value"]
    except SpecError as wrong:  # no YAML, such as `@daily`: then it is the text itself
        if wrong.problem.code != "syntax":
            raise
        return path.strip(), value
