"""What a command finds around it: its services, its code unpacked, and their places in its words and variables.

Programs that report through the client library of Benchmark AI find the variables that it looks for: its `emit` writes
the same lines as ours, one JSON object of numbers each, to a named pipe or to standard output.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from pydantic import JsonValue

from assay.emit import PIPE_VARIABLE
from assay.errors import MeasureError
from assay.run.code_archive import unpack
from assay.run.contract import Order, Stage
from assay.run.services import RunningService, started
from assay.spec.benchmark import Definition
from assay.spec.commands import split_words
from assay.spec.secrets import resolve_secrets
from assay.spec.target import CODE, CommandTarget

# Their jobs wait this long for the pipe; ours is there before the program starts.
_WAIT_S, _STEP_S = "60", "0.5"
CODE_VARIABLE = "ASSAY_CODE"
_ADDRESS = re.compile(r"\{(host|port):([^{}]+)\}")


def benchmark_ai_variables(pipe: str | None, code: str | None) -> dict[str, str]:
    """What their library and their scripts find in the environment.

    Args:
        pipe: path of the pipe as the program sees it; None where it cannot reach one, so that lines are printed.
        code: folder with the code that travels with the benchmark, as the program sees it.
    """
    found = {"BENCHMARK_AI": "stdout"}
    if pipe is not None:
        found = {
            "BENCHMARK_AI": "fifo",
            "BENCHMARK_AI_FIFO_FILEPATH": pipe,
            "BENCHMARK_AI_FIFO_MAX_WAIT_TIME": _WAIT_S,
            "BENCHMARK_AI_FIFO_WAIT_TIME_STEP": _STEP_S,
        }
    return found if code is None else {**found, "BAI_SCRIPTS_PATH": code}


def command_words(target: CommandTarget) -> list[str]:
    """The command as a list of words; the shell's own text when it goes through a shell.

    Of an image's own command, which nobody here knows, its arguments alone.

    Raises:
        ValueError: for a quote that is never closed.
    """
    command = target.args if target.command is None else target.command
    if target.shell:
        return [command if isinstance(command, str) else shlex.join(command)]
    return list(split_words(command) if isinstance(command, str) else command)


@dataclass(frozen=True, slots=True)
class CommandEnvironment:
    """What is around one command."""

    services: Mapping[str, RunningService] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
    """Those that were started for this run."""
    code: Path | None = None
    """Folder with its code."""

    def cpu_s(self) -> float:
        """Processor time of the services that run on this machine: they belong to what is measured."""
        return sum(_tree_cpu_s(one.pid) for one in self.services.values() if one.pid is not None)

    def facts(self) -> dict[str, JsonValue]:
        """How its services were started."""
        told: dict[str, JsonValue] = {
            name: {"how": one.how, "host": one.host, "shared": name not in self.fresh, **dict(one.facts)}
            for name, one in self.services.items()
        }
        return {"services": told} if told else {}

    def metrics(self) -> dict[str, float]:
        """How long its service took to get ready, where there is one alone and this run started it."""
        names = [*self.services]
        if len(names) != 1 or names[0] not in self.fresh:
            return {}
        return {"start_to_ready_s": self.services[names[0]].start_to_ready_s}


@contextmanager
def command_environment(order: Order, stage: Stage) -> Iterator[CommandEnvironment]:
    """Start the services that belong to this run and unpack the code; both are gone afterwards.

    Raises:
        MeasureError: if a service does not get ready, or the code cannot be unpacked.
    """
    definition, scratch = order.job.definition, Path(order.scratch)
    code = getattr(definition.target, "code", None)
    folder = None
    if code is not None:
        folder = scratch / "code"
        unpack(Path(order.job.base) / code, folder)
    own = {
        name: service
        for name, service in definition.services.items()
        if service.fresh == "run" and name not in order.services
    }
    tell: Callable[[str], None] = lambda note: stage.progress(0.0, note)  # noqa: E731
    with started(own, Path(order.job.base), scratch, known=order.services, tell=tell) as fresh:
        yield CommandEnvironment({**order.services, **fresh}, frozenset(fresh), folder)


def needs_environment(definition: Definition) -> bool:
    """Whether anything has to be there before a command starts."""
    target = definition.target
    return bool(definition.services) or (isinstance(target, CommandTarget) and (target.is_boxed or bool(target.code)))


def filled(text: str, services: Mapping[str, RunningService], code: str | None) -> str:
    """A text with the addresses of services and the folder of the code put in; other braces stay as they are.

    Raises:
        MeasureError: for a service that does not run.
    """
    text = text if code is None else text.replace(CODE, code)
    return _ADDRESS.sub(lambda match: _address(match, services), text) if services else text


def _address(match: re.Match[str], services: Mapping[str, RunningService]) -> str:
    what, name = match[1], match[2]
    if name not in services:
        raise MeasureError(
            f"{match[0]} names no service that runs (there are {', '.join(services)})",
            code="service-reference",
            at="target.command",
            try_="name one that is under services",
        )
    return str(services[name].port) if what == "port" else services[name].host


def added_variables(
    target: CommandTarget, around: CommandEnvironment, *, run_id: int, pipe: str | None, code: str | None
) -> dict[str, str]:
    """What is added to the environment of a command, secrets put in; what the file says wins over all but our own.

    Args:
        pipe: where it reports numbers, as it sees it; None where it cannot reach a pipe.
    """
    own = {name: filled(resolve_secrets(value), around.services, code) for name, value in target.env.items()}
    ours = {"ASSAY_RUN_ID": str(run_id)}
    ours |= {PIPE_VARIABLE: pipe} if pipe is not None else {}
    ours |= {CODE_VARIABLE: code} if code is not None else {}
    for name, one in around.services.items():
        key = f"ASSAY_SERVICE_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}"
        ours |= {f"{key}_HOST": one.host, f"{key}_PORT": str(one.port), f"{key}_URL": one.base_url}
    return {**benchmark_ai_variables(pipe, code), **own, **ours}


def _tree_cpu_s(pid: int) -> float:
    try:
        top = psutil.Process(pid)
        return sum(sum(one.cpu_times()[:4]) for one in [top, *top.children(recursive=True)])
    except psutil.Error:
        return 0.0
