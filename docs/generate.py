"""The generated pages of this site, as a hook of mkdocs: what the code says is read from the code.

reference/cli.md             from the command line itself
reference/benchmark-file.md  from the models that check a benchmark file
reference/metrics.md         from the table of metrics
reference/checks.md          from the table of checks
reference/server.md          from the settings of the server
reference/http.md            from the server's OpenAPI document
calibration.md               from benches/results/calibration.md
changelog.md                 from CHANGELOG.md
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from pydantic.fields import FieldInfo
    from typer import Typer

    from assay.spec.section import Section

ROOT = Path(__file__).resolve().parent.parent
CALIBRATION_MARK = "<!-- calibration: one line per promise -->"
FAULTS_MARK = "<!-- faults: the table of the last run -->"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Put the figures of the calibration where a page asks for them."""
    faults = ROOT / "benches" / "results" / "faults.md"
    table = faults.read_text(encoding="utf-8") if faults.exists() else ""
    return markdown.replace(CALIBRATION_MARK, calibration_summary()).replace(FAULTS_MARK, table)


def pages() -> dict[str, str]:
    """All generated pages: path in the site → Markdown."""
    return {
        "reference/cli.md": cli_page(),
        "reference/benchmark-file.md": benchmark_page(),
        "reference/metrics.md": metrics_page(),
        "reference/checks.md": checks_page(),
        "reference/server.md": server_page(),
        "reference/http.md": http_page(),
        "calibration.md": calibration_page(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
    }


# The command line


def cli_page() -> str:
    """Every verb with its arguments and options."""
    from assay.cli.main import app

    parts = [
        "# Command line",
        _plain(app.info.help) + " Every verb has `--help`.",
        "## Exit codes",
        _EXIT_CODES,
        "## Environment variables",
        _VARIABLES,
        *_verbs(app, "assay", "##"),
    ]
    return "\n\n".join(parts) + "\n"


_EXIT_CODES = """\
| code | meaning |
|---|---|
| 0 | done; no check or gate that you asked about has failed |
| 1 | a check or a gate has failed (`run --fail-on`, `compare --fail-on-worse`, `gate`) |
| 2 | wrong use: an unknown option, a wrong benchmark file, an unknown campaign |
| 3 | could not measure: a job failed, or results could not be kept |
| 130 | interrupted by Ctrl-C or SIGTERM; what was measured is kept |"""

_VARIABLES = """\
| variable | meaning |
|---|---|
| `ASSAY_STORE` | folder of the results, as `--store`; the user's data folder when neither is given |
| `ASSAY_CACHE` | folder of fetched models; the user's cache folder when not set; safe to delete |
| `ASSAY_LOCK` | `wait`, `try` or `off`, as `--lock`: what to do while another measurement holds a device |
| `ASSAY_LOCK_FOLDER` | folder of the locks that all users of a machine share |
| `ASSAY_CONTROL` | `off` leaves out the control workload, as `--no-control` |
| `ASSAY_LABELS` | labels of this machine for the prices of a file, `gpu=h200,site=x`; an agent sets its own |
| `ASSAY_SERVER` | URL of the server, as `--server` and `--host` |
| `ASSAY_TOKEN`, `ASSAY_TOKEN_FILE` | token for the server, or the file that holds it |
| `ASSAY_CA` | certificate of the authority that signed the server's |
| `ASSAY_SERVER_…` | settings of `assay serve`, see [Server settings](server.md) |
| `ASSAY_AGENT_STATE` | folder of what must survive a restart of the agent |
| `ASSAY_AGENT_ALLOW` | what jobs may do on an agent besides, as `--allow` |
| `ASSAY_INFRA` | folder of the systems of `assay infra` |
| `ASSAY_POSTGRESQL`, `ASSAY_REDIS`, `ASSAY_PROMETHEUS` | programs of `assay infra` that are in no usual place |
| `ASSAY_ALLOW_PRIVATE_URLS` | `1` lets jobs of an agent connect to its private networks, as `--allow-private-urls` |
| `ASSAY_ALLOW_ENV` | variables that jobs of an agent may refer to, as `--allow-env` |
| `ASSAY_JOB_ENV` | set by an agent for its jobs: the variables that they may refer to |
| `ASSAY_JOB_ALLOW` | set by an agent for its jobs: what they may do besides, `command` or nothing |
| `ASSAY_URL_POLICY` | set by an agent for its jobs: which addresses they may connect to |
| `NO_COLOR` | print without colour |
| `ASSAY_EMIT_PIPE` | set by assay for a measured program; `assay.emit` writes there |
| `ASSAY_CODE` | set by assay for a measured program: where its `target.code` lies |
| `ASSAY_SERVICE_NAME_HOST`, `…_PORT`, `…_URL` | set by assay for a measured program: where a service is |
| `ASSAY_INSTANCES` | a table of types of machines, for [descriptors of Benchmark AI](../how-to/from-benchmark-ai.md) |
| `ASSAY_RUN_ID` | set by assay for a measured program; number of the run, from 0 |"""


def _verbs(app: Typer, path: str, level: str) -> Iterator[str]:
    """Describe every command of an app, then those of its groups."""
    for command in app.registered_commands:
        callback = command.callback or (lambda: None)
        parameters = list(_parameters(callback))
        words = [f"[{one.name}]" if one.is_optional else one.name for one in parameters if not one.is_option]
        yield f"{level} `{path} {command.name}`"
        yield _plain(callback.__doc__)
        yield f"```text\n{path} {command.name} {' '.join(words)} [OPTIONS]\n```".replace("  ", " ")
        yield from _options(parameters)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield f"{level} `{path} {group.name}`"
            yield _plain(group.typer_instance.info.help)
            alone = group.typer_instance.registered_callback
            if alone is not None and alone.callback is not None:
                yield from _options(list(_parameters(alone.callback)))
            yield from _verbs(group.typer_instance, f"{path} {group.name}", level + "#")


def _options(parameters: Sequence[_Parameter]) -> Iterator[str]:
    """A table of arguments and options; nothing where there are none."""
    if parameters:
        rows = [(one.shown, one.default, one.meaning) for one in parameters]
        yield _table(("argument or option", "default", "meaning"), rows)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """One argument or option as a reader sees it."""

    name: str
    shown: str
    default: str
    meaning: str
    is_option: bool
    is_optional: bool


def _parameters(callback: Callable[..., Any]) -> Iterator[_Parameter]:
    """The arguments and options of a command, from its signature."""
    from typer.models import OptionInfo, ParameterInfo

    hints = typing.get_type_hints(callback, include_extras=True)
    for name, parameter in inspect.signature(callback).parameters.items():
        hint = hints.get(name, parameter.annotation)  # options of a group stand in the signature alone
        if not typing.get_args(hint):  # typer's own context is no option
            continue
        kind, *rest = typing.get_args(hint)
        info = next(one for one in rest if isinstance(one, ParameterInfo))
        is_option = isinstance(info, OptionInfo)
        word = (info.metavar or name.upper()).strip()
        value = _value_word(kind, info.metavar or "")
        # With Annotated, typer keeps the first name where it would otherwise keep the default.
        declared = [info.default, *(info.param_decls or ())] if is_option else []
        names = [f"{one}{'=' if one.startswith('--') else ' '}{value}".rstrip("= ") for one in declared]
        choices = "" if is_option or not _choices(kind) else f" One of {', '.join(_choices(kind))}."
        variable = f" Also by the variable `{info.envvar}`." if info.envvar else ""
        yield _Parameter(
            name=word,
            shown=", ".join(f"`{one}`" for one in names) if is_option else f"`{word}`",
            default=_default_of(parameter.default),
            meaning=_plain(info.help) + choices + variable,
            is_option=is_option,
            is_optional=parameter.default is not inspect.Parameter.empty,
        )


def _value_word(kind: Any, metavar: str) -> str:  # noqa: ANN401
    """What stands after an option; nothing after a flag."""
    names = {Path: "PATH", int: "NUMBER", str: "TEXT", bool: ""}
    inner = next((one for one in (*typing.get_args(kind), kind) if one in names), None)
    return metavar or "|".join(_choices(kind)) or names.get(inner, "")


def _choices(kind: Any) -> list[str]:  # noqa: ANN401
    return [str(one.value) for one in kind] if isinstance(kind, type) and issubclass(kind, StrEnum) else []


def _default_of(default: object) -> str:
    if default is inspect.Parameter.empty:
        return "required"
    if default is None or default is False:
        return ""
    return f"`{getattr(default, 'value', default)}`"


# The server


def server_page() -> str:
    """Every setting of the server with its default and meaning."""
    from assay.serve.settings import ServerSettings

    rows = []
    for name, field in ServerSettings.model_fields.items():
        default = "" if field.default is None or field.default == () else f"`{field.default}`"
        rows.append((f"`{name}`", f"`ASSAY_SERVER_{name.upper()}`", default, _plain(field.description)))
    return (
        "\n\n".join(
            ["# Server settings", _SERVER_INTRODUCTION, _table(("setting", "variable", "default", "meaning"), rows)]
        )
        + "\n"
    )


_SERVER_INTRODUCTION = """\
Flags of `assay serve` (`--lease-s` for `lease_s`) win over environment variables, and these over the file given with
`--config` (TOML, YAML or JSON with the same names). Secrets belong in the environment or the file."""


def http_page() -> str:
    """Every path of the HTTP API."""
    from assay.serve.app import create_app
    from assay.serve.settings import ServerSettings

    document = create_app(ServerSettings()).openapi()
    groups: dict[str, list[tuple[str, ...]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            row = (f"`{method.upper()} {path}`", _plain(operation.get("description") or operation.get("summary")))
            groups.setdefault(tag, []).append(row)
    parts = ["# HTTP API", _HTTP_INTRODUCTION]
    for tag, rows in groups.items():
        parts += [f"## {tag}", _table(("path", "does"), rows)]
    return "\n\n".join(parts) + "\n"


_HTTP_INTRODUCTION = """\
JSON in and out. A running server shows this document with all fields at `/api/v1/docs`, also without the internet, and
as OpenAPI at `/api/v1/openapi.json`.

- Send `Authorization: Bearer TOKEN`, unless the server is open; see
  [roles](../how-to/secure-a-server.md#tokens-and-roles).
- Errors are `application/problem+json` with `detail`, `code` and `try`; a wrong benchmark has all its problems under
  `errors`. 503 with `Retry-After` means that the database is away for a moment.
- Lists come in pages: `{"items": […], "next": cursor}`; pass `cursor` to get the next page.
- `GET …/events` are server-sent events; `Last-Event-ID` resumes after a cut.
- The paths under `/api` without `v1` are [SARK's](../how-to/from-sark-and-ruckus.md#the-server), with its fields and
  codes."""


# The benchmark file


def benchmark_page() -> str:
    """Every key of a benchmark file with its type, default and meaning."""
    from assay.spec.benchmark import Benchmark
    from assay.spec.schema import describe_sections

    describe_sections()
    sections = _sections(Benchmark)
    parts = ["# Benchmark file", _FILE_INTRODUCTION]
    for path, model in sections.items():
        parts.append(f"## {path or 'Top level'}" + (f" {{ #{_anchor(path)} }}" if path else " { #top-level }"))
        parts.append(_plain(model.__doc__))
        fields = model.model_fields
        names = [name for name in _reading_order(model) if name in fields] if model is Benchmark else list(fields)
        rows = [_key(path, name, fields[name], sections) for name in names]
        parts.append(_table(("key", "type", "default", "meaning"), rows))
    parts += ["## Limits { #limits }", _LIMITS_INTRODUCTION, _table(("what", "at most"), _limits())]
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
    return f"`{name}`", kind, default, _plain(field.description)


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
    return f"[`{place}`](#{_anchor(place)})"


def _bounded(names: dict[type, str], annotation: Any, metadata: list[Any]) -> str:  # noqa: ANN401
    name = names.get(annotation, "any value")
    limits = {key: value for one in metadata for key in ("ge", "le") if (value := getattr(one, key, None)) is not None}
    if {"ge", "le"} <= limits.keys():
        return f"{name}, {limits['ge']:,} to {limits['le']:,}"
    return f"{name}, {limits['ge']:,} or more" if "ge" in limits else name


def _anchor(path: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in path.lower()).strip("-")


# Metrics and checks


def metrics_page() -> str:
    """The table of metrics."""
    from assay.metrics import METRICS

    rows = [
        (f"`{one.name}`", one.unit, one.better or "not declared", one.access, one.meaning) for one in METRICS.values()
    ]
    return "\n\n".join(
        (
            "# Metrics",
            _METRICS_INTRODUCTION,
            _table(("metric", "unit", "better", "needs", "meaning"), rows),
            _STATISTICS,
        )
    )


_METRICS_INTRODUCTION = """\
These are the numbers that assay itself measures. [Method](../method.md) says how each one is made. A program adds
[its own](../how-to/measure-a-program.md). What could not be measured is absent and says why; it is never zero."""

_STATISTICS = """\
## Statistics

A statistic of a metric is written with a dot: `latency_ms.p99`. An [objective](../how-to/gate-in-ci.md) names one.

| statistic | meaning |
|---|---|
| `median`, `p50` | middle of all samples of all runs |
| `mean`, `std` | mean and sample deviation of all samples |
| `min`, `max` | smallest and largest sample |
| `p90`, `p95`, `p99`, `p99_9` | percentiles, where the [number of samples](../method.md#percentiles) backs them |
"""


def checks_page() -> str:
    """The table of checks."""
    from assay.analyse.checks import CHECKS

    rows = [
        (f"[{name}](../method.md#{_anchor(name)})", _plain(ask.__doc__), _verdict(name)) for name, ask in CHECKS.items()
    ]
    return "\n\n".join(
        (
            "# Checks",
            _CHECKS_INTRODUCTION,
            _table(("check", "question", "when it fails"), rows),
            _VERDICT,
        )
    )


_CHECKS_INTRODUCTION = """\
Every result carries these checks. Each one has passed, has failed, or is unknown, and says so in one sentence
with its figures. [Method](../method.md#checks) gives their limits."""

_VERDICT = """\
The verdict is `invalid` if a check fails that makes a result invalid, else `suspect` if any other fails, else `valid`.
An unknown check does not change the verdict, and neither does one that gives advice.
"""


def _verdict(name: str) -> str:
    from assay.analyse.checks import ADVISORY, INVALIDATING

    return "**invalid**" if name in INVALIDATING else "advice" if name in ADVISORY else "suspect"


# Pages taken over from files of the repository


def calibration_page() -> str:
    """The measured calibration of the statistics, or how to get it."""
    path = ROOT / "benches" / "results" / "calibration.md"
    if not path.is_file():
        return "# Calibration\n\nNo table was written yet: `make bench` makes one.\n"
    return path.read_text(encoding="utf-8")


def calibration_summary() -> str:
    """The first line of the calibration for each promise."""
    lines = [line for line in calibration_page().splitlines() if line.startswith("|")]
    firsts: dict[str, str] = {}
    for line in lines:
        firsts.setdefault(line.split("|")[1].strip(), line)
    return "\n".join(firsts.values())


def _plain(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").split())


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [titles, tuple("---" for _ in titles), *(tuple(_cell(cell) for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    # A bar ends a cell, except inside a code span.
    parts = text.split("`")
    return "`".join(part if place % 2 else part.replace("|", "\\|") for place, part in enumerate(parts)) or "–"
