"""The verbs by what they are for, each loaded when it is used: help and completion need names and summaries alone."""

from __future__ import annotations

import sys
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from assay.cli.help import VerbGroup
from assay.cli.old_spellings import current
from assay.cli.options import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer._click import Context, HelpFormatter


@dataclass(frozen=True, slots=True)
class VerbEntry:
    """A verb, or a group of verbs."""

    place: str
    """The module of this package and the name of the function or group in it."""
    summary: str

    def load(self) -> Verbs | Callable[..., Any]:
        module, _, name = self.place.partition(":")
        verb: Verbs | Callable[..., Any] = getattr(import_module(f"assay.cli.{module}"), name)
        return verb


# Plural is what lists things and changes them; singular is what acts on one thing.
VERBS: Mapping[str, Mapping[str, VerbEntry]] = {
    "Measure": {
        "run": VerbEntry("run:run", "Measure a benchmark here, on a fleet or on a cluster."),
        "init": VerbEntry("benchmark_file:init", "Write a commented benchmark file to begin with."),
        "plan": VerbEntry("plan:plan", "Show the jobs of a benchmark and how long they take."),
        "validate": VerbEntry("benchmark_file:validate", "Check benchmark files without measuring."),
        "ab": VerbEntry("ab:ab", "Measure A and B alternately until one is better."),
        "noise": VerbEntry("bisect:noise", "Find the smallest change this machine can show."),
        "device": VerbEntry("device:app", "Measure the hardware itself."),
    },
    "Look": {
        "results": VerbEntry("results:app", "List, show, export and remove results."),
        "report": VerbEntry("results:report", "Write a report of a campaign or of a period."),
        "compare": VerbEntry("compare:compare", "Compare results: better, worse or cannot tell."),
        "series": VerbEntry("series:app", "Follow metrics over time and find what changed."),
        "explain": VerbEntry("series:explain", "Explain a finding: what changed, and why."),
        "logs": VerbEntry("logs:logs", "Print what a job or one of its services wrote."),
        "monitoring": VerbEntry("infra:monitoring_app", "Show what Prometheus scraped; set up Grafana."),
    },
    "Decide": {
        "gate": VerbEntry("compare:gate", "Pass or fail a result against earlier ones."),
        "bisect": VerbEntry("bisect:bisect", "Find the first bad commit or value."),
        "alerts": VerbEntry("alerts:app", "List, acknowledge and snooze alerts; set their rules."),
        "schedules": VerbEntry("schedule:app", "Let a server run benchmarks at set times."),
    },
    "Machine": {
        "info": VerbEntry("info:info", "Show what this machine is."),
        "doctor": VerbEntry("device:doctor", "Check that this machine is fit to be measured on."),
        "models": VerbEntry("benchmark_file:models", "List the built-in models."),
        "recipes": VerbEntry("benchmark_file:recipes_app", "Ready-made services to copy and change."),
    },
    "Server and fleet": {
        "serve": VerbEntry("serve:serve", "Start the server with its dashboard."),
        "agent": VerbEntry("agent:app", "Let this machine take jobs from a server."),
        "agents": VerbEntry("schedule:agents_app", "List, label, drain and remove a server's agents."),
        "campaigns": VerbEntry("campaigns:campaigns_app", "Follow, cancel and repeat campaigns of a server."),
        "jobs": VerbEntry("campaigns:jobs_app", "Show, cancel and retry single jobs of a server."),
        "tokens": VerbEntry("serve:tokens_app", "Make, list and revoke tokens of a server."),
        "db": VerbEntry("serve:db_app", "Upgrade the database of a server."),
        "objects": VerbEntry("objects:app", "Keep samples and files in an object store."),
        "infra": VerbEntry("infra:app", "Bring a whole system up, and take it down."),
        "clusters": VerbEntry("clusters:slurm_app", "Name Slurm clusters, and check them."),
        "kubernetes": VerbEntry("clusters:kubernetes_app", "Check that a Kubernetes cluster can be used."),
    },
    "Tools": {
        "schema": VerbEntry("benchmark_file:schema", "Print a JSON Schema, such as that of the file."),
        "import": VerbEntry("benchmark_file:import_", "Convert a file of another tool."),
        "prepare": VerbEntry("plan:prepare", "Fetch images, models and data in advance."),
        "exec": VerbEntry("run:exec_", "Measure one job document."),
        "merge": VerbEntry("results:merge", "Combine the samples of machines that shared a load."),
        "score": VerbEntry("results:score", "Judge the kept answers of a result."),
        "sim": VerbEntry("sim:app", "Start a simulated server, or simulate a history."),
        "demo-data": VerbEntry("sim:demo_data", "Fill a new store with simulated results."),
        "completion": VerbEntry("main:completion", "Print the completion script of a shell."),
    },
}
_EPILOGUE = """\
Exit codes: 0 done, 1 a check or gate failed, 2 wrong use, 3 could not measure,
130 interrupted. `assay VERB --help` shows the options of a verb and examples.
"""


def entries() -> dict[str, VerbEntry]:
    """All verbs by name, in the order of help."""
    return {name: entry for group in VERBS.values() for name, entry in group.items()}


class LazyVerbs(UserDict[str, Any]):
    """The verbs as Typer wants them, each built when it is asked for."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(entries()))

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        if self.data[name] is None:
            self.data[name] = _built(name, entries()[name].load())
        command: TyperCommand | TyperGroup = self.data[name]
        return command


def _built(name: str, verb: Verbs | Callable[..., Any]) -> Any:  # noqa: ANN401  (a command or a group)
    if isinstance(verb, Verbs):
        group = get_group(verb)
        group.name = name
        return group
    alone = Verbs()
    alone.command(name)(verb)
    return get_command(alone)


class RootGroup(VerbGroup):
    """`assay` itself."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  (those of Typer)
        super().__init__(**settings)
        self.commands = LazyVerbs()

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        words, notes = current(args)
        sys.stderr.writelines(f"{note}\n" for note in notes)
        return super().parse_args(ctx, words)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002
        widest = max(map(len, self.commands))
        for title, group in VERBS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{widest}}", entry.summary) for name, entry in group.items()])

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002
        formatter.write(f"\n{_EPILOGUE}")


def leaf_verbs() -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    """Every verb that does something, under the words that call it."""
    todo: list[tuple[tuple[str, ...], Any]] = [((name,), command) for name, command in LazyVerbs().items()]
    while todo:
        path, command = todo.pop(0)
        if isinstance(command, TyperGroup):
            todo += [((*path, name), verb) for name, verb in command.commands.items()]
        else:
            yield path, command
