"""Which tool a foreign document comes from, and what turns it into a benchmark: importers by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import JsonValue

from assay.errors import Problem, SpecError, UsageError
from assay.spec.section import did_you_mean
from assay.spec.source import SourceDocument, dotted, from_mapping

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "assay.importers"
OURS = {
    "benchmark-ai": "assay.spec.importers.benchmark_ai",
    "sark": "assay.spec.importers.sark",
    "team9": "assay.spec.importers.team9",
}


@dataclass(frozen=True, slots=True)
class Imported:
    """A foreign document as a benchmark document."""

    document: dict[str, JsonValue]
    remarks: tuple[str, ...] = ()
    """One line for each field that has no meaning here, or another one."""


class Importer(Protocol):
    """What reads the documents of one tool; a module can be one. Pure: nothing but the document is read."""

    TITLE: str
    """What its documents are called, such as `a team9 recipe`."""

    def recognises(self, document: Mapping[str, Any]) -> bool:
        """Whether a document looks like one of the tool's; never raises."""
        ...

    def imported(self, document: Mapping[str, Any]) -> Imported:
        """Turn a document into a benchmark document.

        Raises:
            UsageError: with what is wrong; `at` is the path of the key inside the document.
        """
        ...


def importer_names() -> list[str]:
    """Every kind of foreign document that can be read here."""
    return sorted({*OURS, *_registered()})


def _registered() -> dict[str, EntryPoint]:
    # Here, as only a foreign document needs it: it takes longer to load than a benchmark.
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def find_importer(name: str) -> Importer:
    """An importer by name: a built-in one, or one that an installed package registers."""
    if name in OURS:
        return _checked(name, import_module(OURS[name]))
    entry = _registered().get(name)
    if entry is None:
        names = importer_names()
        tip = did_you_mean(name, names, f"use one of {', '.join(names)}")
        raise UsageError(f"there is no importer {name!r}", code="importer", at="--from", try_=tip)
    try:
        loaded = entry.load()
    except Exception as failure:  # code of others may do anything when it is imported
        raise UsageError(
            f"the importer {name!r} cannot be loaded: {type(failure).__name__}: {failure}",
            code="importer",
            try_=f"check the package that registers it: {entry.value}",
        ) from None
    return _checked(name, loaded)


def _checked(name: str, registered: Any) -> Importer:  # noqa: ANN401  (a module, or what a package registers)
    absent = [part for part in ("TITLE", "recognises", "imported") if not hasattr(registered, part)]
    if absent:
        raise UsageError(
            f"what is registered as the importer {name!r} has no {' and no '.join(absent)}",
            code="importer",
            try_="see assay.spec.importers.Importer",
        )
    importer: Importer = registered
    return importer


def recognised(document: Mapping[str, Any]) -> str | None:
    """The name of the importer whose documents look like this one; None for assay's own and unknown ones."""
    if "benchmark" in document:
        return None
    return next((name for name in (*OURS, *importer_names()) if _recognises(name, document)), None)


def _recognises(name: str, document: Mapping[str, Any]) -> bool:
    try:
        return find_importer(name).recognises(document)
    except Exception:  # a broken importer of another package must not stop assay from reading its own files
        return False


def own_source(source: SourceDocument, kind: str | None = None) -> SourceDocument:
    """A source as a benchmark: unchanged where it is one, imported where it is a document of another tool.

    Args:
        source: a file as it was read.
        kind: name of the importer; found by the content when left out.
    """
    name = kind or recognised(source.document)
    if name is None:
        return source
    importer = find_importer(name)
    try:
        imported = importer.imported(source.document)
    except UsageError as wrong:
        lines = {dotted(path): path for path in source.lines}
        raise SpecError.of(
            replace(problem, at=source.at(lines.get(problem.at, ()))) for problem in map(_with_path, wrong.problems)
        ) from None
    # The lines are those of keys that the benchmark does not have, so that none is better than a wrong one.
    notes = (f"{source.name} is {importer.TITLE}, imported as a benchmark", *imported.remarks)
    return replace(from_mapping(imported.document, source.name), notes=notes)


def _with_path(problem: Problem) -> Problem:
    """The problem with the path of its key in the words, as `at` will name the line."""
    if not problem.at or problem.at in problem.message:
        return problem
    return replace(problem, message=f"{problem.at}: {problem.message}")
