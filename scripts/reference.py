"""Write the reference of the documentation from the code: `scripts/reference.py [--check]`.

docs/reference/cli.md             from the command line itself
docs/reference/benchmark-file.md  from the models that check a benchmark file
docs/reference/metrics.md         from the table of metrics
docs/reference/checks.md          from the table of checks
docs/reference/errors.md          from every error that the code raises
docs/reference/server.md          from the settings of the server
docs/reference/http.md            from the server's OpenAPI document

`--check` writes nothing; it names the pages that are not what the code says, and ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from error_codes import errors_page
from page_parts import anchor, plain, table
from reference_file import benchmark_page

if TYPE_CHECKING:
    from typer import Typer

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
MARK = "<!-- Written by scripts/reference.py from the code: do not edit, run `make reference`. -->\n\n"


def main() -> int:
    """Write the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(description="Write docs/reference from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if a page is out of date")
    check = parser.parse_args().check
    stale = [name for name, text in pages().items() if _committed(name) != text]
    for name in stale:
        if not check:
            (REFERENCE / name).write_text(pages()[name], encoding="utf-8")
        sys.stdout.write(f"docs/reference/{name}: {'out of date, run `make reference`' if check else 'written'}\n")
    return int(check and bool(stale))


def pages() -> dict[str, str]:
    """All pages: name in docs/reference → Markdown."""
    made = {
        "cli.md": cli_page(),
        "benchmark-file.md": benchmark_page(),
        "metrics.md": metrics_page(),
        "checks.md": checks_page(),
        "errors.md": errors_page(),
        "server.md": server_page(),
        "http.md": http_page(),
    }
    return {name: MARK + text for name, text in made.items()}


def _committed(name: str) -> str:
    path = REFERENCE / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


# The command line


def cli_page() -> str:
    """Every verb with its arguments and options."""
    from assay.cli.main import app

    parts = [
        "# Command line",
        plain(app.info.help) + " Every verb has `--help`, with an example.",
        _WORDS_OF_THE_COMMAND_LINE,
        "## Exit codes",
        _EXIT_CODES,
        "## Environment variables",
        _VARIABLES,
        *_groups(),
    ]
    return "\n\n".join(parts) + "\n"


_WORDS_OF_THE_COMMAND_LINE = """\
The same word means the same everywhere:

- A group that lists things and changes them is plural (`results`, `agents`, `schedules`); one that acts on a single
  thing is singular (`agent` is this machine's own, `device`, `db`).
- `--server` is the URL of a server, `--host` and `--listen` are where something listens, `--store` is the folder of
  results, `--format` or `-f` is how the output is printed (`text`, `json`, and what else the verb knows).
- A spelling that a version changes works for one more version, with a note on standard error."""

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
| `ASSAY_SERVER` | URL of the server, as `--server` |
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


def _groups() -> Iterator[str]:
    """Every verb, under the groups of `assay --help`."""
    from typer import Typer

    from assay.cli.verbs import VERBS

    for title, entries in VERBS.items():
        yield f"## {title}"
        for name, entry in entries.items():
            verb = entry.load()
            if isinstance(verb, Typer):
                yield from _group(verb, f"assay {name}", "###")
            else:
                yield from _verb(_signature_of(verb), f"assay {name}", "###")


def _signature_of(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb as the command line has it: with options in the place of records of options."""
    from assay.cli.options import Verbs

    app = Verbs()
    app.command()(verb)
    registered = app.registered_commands[0].callback
    return registered or verb


def _group(app: Typer, path: str, level: str) -> Iterator[str]:
    """Describe a group, its verbs, and the groups in it."""
    yield f"{level} `{path}`"
    yield plain(app.info.help)
    alone = app.registered_callback
    if alone is not None and alone.callback is not None:
        yield from _options(list(_parameters(alone.callback)))
    for command in app.registered_commands:
        yield from _verb(command.callback or (lambda: None), f"{path} {command.name}", level + "#")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from _group(group.typer_instance, f"{path} {group.name}", level + "#")


def _verb(callback: Callable[..., Any], path: str, level: str) -> Iterator[str]:
    """Describe one verb: what it does, how it is called, an example, its arguments and options."""
    from assay.cli.examples import examples

    parameters = list(_parameters(callback))
    words = [f"[{one.name}]" if one.is_optional else one.name for one in parameters if not one.is_option]
    yield f"{level} `{path}`"
    yield plain(callback.__doc__)
    called = f"{path} {' '.join(words)} [OPTIONS]".replace("  ", " ")
    lines = examples(tuple(path.split()[1:]))
    yield "```text\n" + "\n".join([called, "", *lines]) + "\n```"
    yield from _options(parameters)


def _options(parameters: Sequence[_Parameter]) -> Iterator[str]:
    """A table of arguments and options; nothing where there are none."""
    if parameters:
        rows = [(one.shown, one.default, one.meaning) for one in parameters]
        yield table(("argument or option", "default", "meaning"), rows)


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
        several = "..." if not is_option and typing.get_origin(kind) is list else ""
        word = (info.metavar or name.upper()).strip() + several
        value = _value_word(kind, info.metavar or "", name)
        # With Annotated, typer keeps the first name where it would otherwise keep the default.
        declared = [info.default, *(info.param_decls or ())] if is_option else []
        names = [f"{one}{'=' if one.startswith('--') else ' '}{value}".rstrip("= ") for one in declared]
        choices = "" if not _choices(kind) else f" One of {', '.join(_choices(kind))}."
        variable = f" Also by the variable `{info.envvar}`." if info.envvar else ""
        yield _Parameter(
            name=word,
            shown=", ".join(f"`{one}`" for one in names) if is_option else f"`{word}`",
            default=_default_of(parameter.default),
            meaning=plain(info.help) + choices + variable,
            is_option=is_option,
            is_optional=parameter.default is not inspect.Parameter.empty,
        )


def _value_word(kind: Any, metavar: str, name: str) -> str:  # noqa: ANN401
    """What stands after an option; nothing after a flag."""
    names = {Path: "PATH", int: "NUMBER", str: "TEXT", bool: ""}
    inner = next((one for one in (*typing.get_args(kind), kind) if one in names), None)
    return metavar or (name.upper() if _choices(kind) else names.get(inner, ""))


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
        rows.append((f"`{name}`", f"`ASSAY_SERVER_{name.upper()}`", default, plain(field.description)))
    return (
        "\n\n".join(
            ["# Server settings", _SERVER_INTRODUCTION, table(("setting", "variable", "default", "meaning"), rows)]
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
            row = (f"`{method.upper()} {path}`", plain(operation.get("description") or operation.get("summary")))
            groups.setdefault(tag, []).append(row)
    parts = ["# HTTP API", _HTTP_INTRODUCTION]
    for tag, rows in groups.items():
        parts += [f"## {tag}", table(("path", "does"), rows)]
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
            table(("metric", "unit", "better", "needs", "meaning"), rows),
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
        (f"[{name}](../method.md#{anchor(name)})", plain(ask.__doc__), _verdict(name)) for name, ask in CHECKS.items()
    ]
    return "\n\n".join(
        (
            "# Checks",
            _CHECKS_INTRODUCTION,
            table(("check", "question", "when it fails"), rows),
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


if __name__ == "__main__":
    raise SystemExit(main())
