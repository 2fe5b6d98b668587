"""Where a definition names files and programs of whoever wrote it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from assay.spec.benchmark import Definition
from assay.spec.fetching import Fetch
from assay.spec.section import Section
from assay.spec.target import CommandTarget

# Keys whose value is a path from the benchmark file's folder. The model and the inputs of a model file have rules
# of their own.
FILE_KEYS = ("workload.file", "load.trace", "target.tokenizer", "target.tls.ca", "target.code")


S = TypeVar("S", bound=Section)


@dataclass(frozen=True, slots=True)
class Program:
    """A command of a definition."""

    at: str
    """Where it stands in the file."""
    words: tuple[str, ...]
    folder: str
    """Working folder, relative to the benchmark file; empty for its own."""


def named_files(definition: Definition) -> dict[str, str]:
    """Dotted key → the path that it names, for those that are set."""
    found = {key: _get(definition, key.split(".")) for key in FILE_KEYS}
    return {key: value for key, value in found.items() if value is not None}


def renamed(definition: Definition, names: Mapping[str, str]) -> Definition:
    """The definition with other paths at some of these keys."""
    for key, value in names.items():
        definition = _set(definition, key.split("."), value)
    return definition


def fetches(definition: Definition) -> dict[str, tuple[Fetch, ...]]:
    """Who needs files from elsewhere → which: `target`, and `services.NAME`; those alone that need any."""
    target = definition.target
    found = {"target": target.fetch if isinstance(target, CommandTarget) else ()}
    found |= {f"services.{name}": service.fetch for name, service in definition.services.items()}
    return {owner: wanted for owner, wanted in found.items() if wanted}


def fetched_files(definition: Definition) -> dict[str, str]:
    """Where the definition names a file to be fetched that lies on this machine → its path: `target.fetch[0]`."""
    return {
        f"{owner}.fetch[{index}]": one.src
        for owner, wanted in fetches(definition).items()
        for index, one in enumerate(wanted)
        if one.is_local
    }


def refetched(definition: Definition, sources: Mapping[str, str]) -> Definition:
    """The definition with other sources of some files that are fetched, by where it names them."""

    def renewed(owner: str, part: S) -> S:
        wanted: tuple[Fetch, ...] = getattr(part, "fetch", ())
        new = tuple(
            one.model_copy(update={"src": sources.get(f"{owner}.fetch[{index}]", one.src)})
            for index, one in enumerate(wanted)
        )
        return part.model_copy(update={"fetch": new}) if new else part

    if not sources:
        return definition
    services = {name: renewed(f"services.{name}", service) for name, service in definition.services.items()}
    return definition.model_copy(update={"target": renewed("target", definition.target), "services": services})


def service_programs(definition: Definition) -> tuple[Program, ...]:
    """The commands of a definition's services that run as plain processes.

    Raises:
        ValueError: if one cannot be split into words.
    """
    return tuple(
        Program(f"services.{name}.command", words(service.command), service.cwd or "")
        for name, service in definition.services.items()
        if service.command is not None and (service.image is None or service.container == "none")
    )


def words(command: str | tuple[str, ...]) -> tuple[str, ...]:
    """The words of a command.

    Raises:
        ValueError: for a quote that is never closed.
    """
    return tuple(shlex.split(command)) if isinstance(command, str) else command


def runs_programs(definition: Definition) -> bool:
    """Whether a definition makes a machine run programs or containers that the file names."""
    return isinstance(definition.target, CommandTarget) or bool(definition.services)


def _get(part: Section, keys: list[str]) -> str | None:
    value = getattr(part, keys[0], None)
    if len(keys) > 1:
        return _get(value, keys[1:]) if isinstance(value, Section) else None
    return value if isinstance(value, str) else None


def _set(part: S, keys: list[str], value: str) -> S:
    inner = getattr(part, keys[0], None)
    new = _set(inner, keys[1:], value) if len(keys) > 1 and isinstance(inner, Section) else value
    return part.model_copy(update={keys[0]: new})
