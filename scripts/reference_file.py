"""The page about the benchmark file, from the models that check one."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from page_parts import anchor, plain, table

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from assay.spec.section import Section


def benchmark_page() -> str:
    """Every key of a benchmark file with its type, default and meaning."""
    from assay.spec.benchmark import Benchmark
    from assay.spec.schema import describe_sections

    describe_sections()
    sections = _sections(Benchmark)
    parts = ["# Benchmark file", _FILE_INTRODUCTION]
    for path, model in sections.items():
        parts.append(f"## {path or 'Top level'}")
        parts.append(plain(model.__doc__))
        fields = model.model_fields
        names = [name for name in _reading_order(model) if name in fields] if model is Benchmark else list(fields)
        rows = [_key(path, name, fields[name], sections) for name in names]
        parts.append(table(("key", "type", "default", "meaning"), rows))
    parts += ["## Limits", _LIMITS_INTRODUCTION, table(("what", "at most"), _limits())]
    return "\n\n".join(parts) + "\n"


_LIMITS_INTRODUCTION = """\
A file beyond one of these is refused with an error, before it costs time or memory; the command line, the Python
interface and the server have the same limits. A zero byte (`\\0`), half a character, `nan` and infinite numbers are
refused too. What is longer belongs into a file of its own: code under `target.code`, prompts under `workload.file`,
values of a model's input in a `.npy` file."""


def _limits() -> list[tuple[str, str]]:
    """What a benchmark file may hold, from the code that refuses more."""
    from assay.plan.plan import MAX_COMPARED, MAX_PLANNED, MAX_POINTS
    from assay.spec import limits
    from assay.spec.limits import MAX_COMMAND
    from assay.units import MOST_BYTES, MOST_SECONDS

    return [
        ("characters of the file, and of its values with YAML aliases written out", f"{limits.MAX_CHARACTERS:,}"),
        ("keys and values, with YAML aliases written out", f"{limits.MAX_NODES:,}"),
        ("sections and lists inside one another, and parts of a dotted key", f"{limits.MAX_DEPTH}"),
        ("digits of a whole number", f"{limits.MAX_DIGITS}"),
        ("a duration", f"{MOST_SECONDS:,} s (a hundred years)"),
        ("a size", f"{MOST_BYTES:,} bytes"),
        ("a command, and each of its words", f"{MAX_COMMAND:,} bytes, as Linux starts no longer one"),
        ("a pattern", f"{limits.MAX_PATTERN:,} characters and {limits.MAX_GROUPS} parentheses"),
        ("all patterns of a target", f"{limits.MAX_PATTERNS:,} characters and {limits.MAX_SETS} sets such as `[a-z]`"),
        ("points of a matrix", f"{MAX_POINTS:,}"),
        ("all jobs of a matrix together", f"{MAX_PLANNED:,} characters"),
        ("points of a matrix times rules of `exclude`", f"{MAX_COMPARED:,}"),
        ("problems that are shown together", f"{limits.MAX_PROBLEMS}"),
    ]


_FILE_INTRODUCTION = """\
A benchmark file is YAML, TOML or JSON; the ending of its name tells which. It is strict: an unknown key is an error
that names the line and the nearest valid key. `assay validate` checks a file, and `assay schema` prints the JSON Schema
of this page for editors.

Types:

- *duration*: `30s`, `500ms`, `5m`, `1h30m`, or a plain number of seconds.
- *share*: `2%` or `0.02`.
- *size*: `16GiB`, `500MB`, or a plain number of bytes.
- *device*: `cpu`, `cuda`, `cuda:1`, `tensorrt`, `directml`, `openvino`, `coreml`, `coreml-gpu`, `coreml-ane`, `mps`,
  or one of [SARK's compute units](../how-to/measure-a-model.md#devices).

A target is one of five kinds, recognised by the key that only this kind has:

- [`model`](../how-to/measure-a-model.md): a model in our own process, with ONNX Runtime, PyTorch or
  [Transformers](../how-to/measure-a-language-model-in-process.md);
- [`command`](../how-to/measure-a-program.md): any program;
- [`service`](../how-to/start-a-service.md): a server that assay starts;
- [`endpoint`](../how-to/measure-an-endpoint.md): a server that runs already;
- `library`: [FAISS](../how-to/measure-a-vector-database.md) in our own process.

A package may add [others](../how-to/add-a-target.md), and [protocols and vector
databases](../how-to/add-a-protocol.md). A key that would do nothing for the target is refused. Jobs run on this machine
or on a [fleet](../how-to/run-a-fleet.md): `place.engine` is `local` or `fleet`. A server
acts on [`schedule`](../how-to/schedule-a-benchmark.md); a local run does not."""

# Paths of the five kinds of target, which share one key of the file.
_KINDS = ("model", "command", "service", "endpoint", "library", "device")


def _sections(top: type[Section]) -> dict[str, type[Section]]:
    """Path → model of every section that a file may have, in the order of the file."""
    found: dict[str, type[Section]] = {"": top}
    queue = [("", top)]
    while queue:
        path, model = queue.pop(0)
        for name, field in model.model_fields.items():
            for below, kind in _models_below(f"{path}.{name}".lstrip("."), field.annotation):
                if below not in found and below.count(".") < 5:
                    found[below] = kind
                    queue.append((below, kind))
    return dict(sorted(found.items(), key=lambda item: _order(top, item[0])))


def _order(top: type[Section], path: str) -> tuple[int, int, str]:
    names = list(_reading_order(top))
    first, _, kind = path.partition(".")[0].removesuffix("[]").partition(" ")
    place = _KINDS.index(kind.strip("()")) if kind else 0
    return (names.index(first) if first in names else -1, place, path)


def _reading_order(top: type[Section]) -> Iterator[str]:
    first = ("benchmark", "description", "labels", "target", "workload", "load", "measure", "objective", "matrix")
    yield from first
    yield from (name for name in top.model_fields if name not in first)


def _models_below(path: str, annotation: Any) -> Iterator[tuple[str, type[Section]]]:  # noqa: ANN401
    from assay.spec.section import Section

    if isinstance(annotation, type) and issubclass(annotation, Section):
        kind = annotation.__name__.removesuffix("Target").lower()
        yield (f"{path} ({kind})" if annotation.__name__.endswith("Target") else path), annotation
        return
    origin = typing.get_origin(annotation)
    below = f"{path}.NAME" if origin is dict else f"{path}[]" if origin is tuple else path
    for argument in typing.get_args(annotation):
        yield from _models_below(below, argument)


def _key(path: str, name: str, field: FieldInfo, sections: dict[str, type[Section]]) -> tuple[str, str, str, str]:
    whole = f"{path}.{name}".lstrip(".")
    kind = _type(field.annotation, field.metadata, whole, sections)
    default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True), kind)
    return f"`{name}`", kind, default, plain(field.description)


def _default(value: Any, kind: str) -> str:  # noqa: ANN401
    """A default as a user would write it."""
    from assay.spec.section import Section
    from assay.units import show_bytes, show_seconds

    if value is None or value in ({}, (), "") or isinstance(value, Section):
        return ""
    show: dict[str, Callable[[Any], str]] = {
        "duration": lambda s: show_seconds(s).replace(" ", ""),
        "share": lambda share: f"{share:.0%}",
        "size": lambda size: show_bytes(size).replace(".0 ", ""),
        "`true`, `false`": lambda flag: str(flag).lower(),
    }
    return f"`{show.get(kind, str)(value)}`"


def _type(annotation: Any, metadata: list[Any], path: str, sections: dict[str, type[Section]]) -> str:  # noqa: ANN401
    """An annotation in words."""
    from assay.spec.section import Section

    if named := _named(metadata):
        return named
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0], list(arguments[1:]), path, sections)
    if origin in (typing.Union, types.UnionType):
        others = [one for one in arguments if one is not type(None)]
        # Limits of an optional value are kept beside it, not inside.
        known = [_type(one, metadata if len(others) == 1 else [], path, sections) for one in others]
        return " or ".join(dict.fromkeys(known))
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in arguments)
    if origin is dict:
        return f"map of {_type(arguments[1], [], f'{path}.NAME', sections)}"
    if origin is tuple:
        return _tuple(arguments, path, sections)
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return _link(path, annotation, sections)
    return _bounded({int: "whole number", float: "number", str: "text", bool: "`true`, `false`"}, annotation, metadata)


def _tuple(arguments: tuple[Any, ...], path: str, sections: dict[str, type[Section]]) -> str:
    if len(arguments) == 2 and arguments[1] is not Ellipsis:
        return "two numbers"
    return f"list of {_type(arguments[0], [], f'{path}[]', sections)}"


def _named(metadata: list[Any]) -> str:
    """The name of a quantity, by the function that reads it."""
    from assay import units
    from assay.spec.section import canonical

    names = {units.seconds: "duration", units.ratio: "share", units.size_bytes: "size", canonical: "device"}
    return next((names[one.func] for one in metadata if getattr(one, "func", None) in names), "")


def _link(path: str, model: type[Section], sections: dict[str, type[Section]]) -> str:
    place = next((one for one, kind in sections.items() if kind is model and one.startswith(path)), None)
    place = place or next(one for one, kind in sections.items() if kind is model)
    return f"[`{place}`](#{anchor(place)})"


def _bounded(names: dict[type, str], annotation: Any, metadata: list[Any]) -> str:  # noqa: ANN401
    name = names.get(annotation, "any value")
    limits = {key: value for one in metadata for key in ("ge", "le") if (value := getattr(one, key, None)) is not None}
    if {"ge", "le"} <= limits.keys():
        return f"{name}, {limits['ge']:,} to {limits['le']:,}"
    return f"{name}, {limits['ge']:,} or more" if "ge" in limits else name
