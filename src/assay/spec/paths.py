"""Where a definition names files and programs of its author."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from assay.spec.benchmark import Definition
from assay.spec.limits import longer_than_possible, split_words
from assay.spec.section import Section
from assay.spec.target import CommandTarget, Fetch, ModelTarget

# Keys whose value is a path from the benchmark file's folder. The model and the inputs of a model file have rules
# of their own.
FILE_KEYS = ("workload.file", "load.trace", "target.tokenizer", "target.tls.ca", "target.code")
# Options of a runtime that name a file, a folder or a library of the machine: it is read, written or loaded as code.
_NAMES_A_FILE = re.compile(r"path|file|dir|folder|lib|plugin|cache|dump|context|prefix|save", re.IGNORECASE)
# Bytes of a path, and of each of its parts, on Linux.
_LONGEST_PATH, _LONGEST_NAME = 4095, 255

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
    paths = {key: _get(definition, key.split(".")) for key in FILE_KEYS}
    return {key: value for key, value in paths.items() if value is not None}


def renamed(definition: Definition, names: Mapping[str, str]) -> Definition:
    """The definition with other paths at some of these keys."""
    for key, value in names.items():
        definition = _set(definition, key.split("."), value)
    return definition


def fetches(definition: Definition) -> dict[str, tuple[Fetch, ...]]:
    """Who needs files from elsewhere → which: `target`, and `services.NAME`; those alone that need any."""
    target = definition.target
    by_owner = {"target": target.fetch if isinstance(target, CommandTarget) else ()}
    by_owner |= {f"services.{name}": service.fetch for name, service in definition.services.items()}
    return {owner: files for owner, files in by_owner.items() if files}


def fetched_files(definition: Definition) -> dict[str, str]:
    """Where the definition names a file to be fetched that lies on this machine → its path: `target.fetch[0]`."""
    return {
        f"{owner}.fetch[{index}]": fetch.src
        for owner, files in fetches(definition).items()
        for index, fetch in enumerate(files)
        if fetch.is_local
    }


def refetched(definition: Definition, sources: Mapping[str, str]) -> Definition:
    """The definition with other sources of some files that are fetched, by where it names them."""

    def renewed(owner: str, part: S) -> S:
        files: tuple[Fetch, ...] = getattr(part, "fetch", ())
        new = tuple(
            fetch.model_copy(update={"src": sources.get(f"{owner}.fetch[{index}]", fetch.src)})
            for index, fetch in enumerate(files)
        )
        return part.model_copy(update={"fetch": new}) if new else part

    if not sources:
        return definition
    services = {name: renewed(f"services.{name}", service) for name, service in definition.services.items()}
    return definition.model_copy(update={"target": renewed("target", definition.target), "services": services})


def service_programs(definition: Definition) -> tuple[Program, ...]:
    """The commands of a definition's services that run as plain processes."""
    return tuple(
        Program(f"services.{name}.command", words(service.command), service.cwd or "")
        for name, service in definition.services.items()
        if service.command is not None and (service.image is None or service.container == "none")
    )


def words(command: str | tuple[str, ...]) -> tuple[str, ...]:
    return split_words(command) if isinstance(command, str) else command


def command_problems(definition: Definition) -> list[tuple[tuple[str, ...], str]]:
    """Where a definition has a command that no machine could start → why."""
    faults = []
    for path, command, shell in _commands(definition):
        try:
            texts = (command,) if isinstance(command, str) and shell else words(command)
        except ValueError as problem:
            faults.append((path, f"cannot be split into words: {problem}"))
            continue
        if wrong := next((reason for word in texts if (reason := longer_than_possible(word))), ""):
            faults.append((path, f"has a word that is too long: {wrong}"))
    return faults


def name_problems(definition: Definition) -> list[tuple[tuple[str, ...], str]]:
    """Where a definition names a file by a name that no file can have → why."""
    target = definition.target
    names = {tuple(key.split(".")): name for key, name in named_files(definition).items()}
    if isinstance(target, ModelTarget) and "://" not in target.model:
        names["target", "model"] = target.model
    if isinstance(target, CommandTarget) and target.cwd:
        names["target", "cwd"] = target.cwd
    names |= {
        ("workload", "inputs", name, "file"): entry.file
        for name, entry in definition.workload.inputs.items()
        if entry.file
    }
    return [
        (path, "is longer than any name of a file can be")
        for path, name in names.items()
        if len(name) > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_NAME for part in name.split("/"))
    ]


def _commands(definition: Definition) -> Iterator[tuple[tuple[str, ...], str | tuple[str, ...], bool]]:
    """Every command: where it stands, what it is, and whether a shell runs it."""
    target = definition.target
    if isinstance(target, CommandTarget):
        yield ("target", "command"), target.command or (), target.shell
        yield ("target", "args"), target.args, target.shell
    for name, service in definition.services.items():
        yield ("services", name, "command"), service.command or (), False
        yield ("services", name, "ready", "command"), service.ready.command or (), False


def runs_programs(definition: Definition) -> bool:
    """Whether a definition makes a machine run programs: those that the file names, or code of a model."""
    return bool(programs_in_words(definition))


def programs_in_words(definition: Definition) -> tuple[str, ...]:
    """What of a definition runs as a program, each in a few words; empty where the machine computes on data alone."""
    target = definition.target
    parts = ["a command"] if isinstance(target, CommandTarget) else []
    parts += [f"the service {name}" for name in definition.services]
    return (*parts, *(_code_of_model(target) if isinstance(target, ModelTarget) else ()))


def _code_of_model(target: ModelTarget) -> Iterator[str]:
    if target.remote_code:
        yield "code beside the model (target.remote_code)"
    if target.runtime == "torch":  # TorchScript opens files; an exported program may call any function of PyTorch
        yield "a PyTorch program, which can read and write files (target.runtime: torch)"
    for section in ("provider_options", "session_options"):
        options: Mapping[str, str] = getattr(target, section)
        yield from (
            f"an option that names a file or code (target.{section}.{name})"
            for name, value in options.items()
            if _NAMES_A_FILE.search(name) or "/" in value or "\\" in value
        )


def _get(part: Section, keys: list[str]) -> str | None:
    value = getattr(part, keys[0], None)
    if len(keys) > 1:
        return _get(value, keys[1:]) if isinstance(value, Section) else None
    return value if isinstance(value, str) else None


def _set(part: S, keys: list[str], value: str) -> S:
    inner = getattr(part, keys[0], None)
    new = _set(inner, keys[1:], value) if len(keys) > 1 and isinstance(inner, Section) else value
    return part.model_copy(update={keys[0]: new})
