"""`assay run` and `assay exec`: measure a benchmark here, on a server's fleet or on a cluster; or one job document."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, NoReturn

import typer

from assay.cli.options import (
    FailOn,
    Format,
    FormatOption,
    ObjectsOption,
    ServerOptions,
    StoreOption,
    bare_option,
)
from assay.cli.output import exit_code, rendered, say, terminal_width
from assay.cli.target import TargetOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.engines.base import PlacementOptions
    from assay.report.live import View
    from assay.report.result import CampaignResult
    from assay.spec.load import Loaded


_DASHBOARD = "http://127.0.0.1:8080/campaigns"  # where `assay serve` shows it, unless another port is asked for


class Spread(StrEnum):
    """How the jobs of a campaign are given to agents."""

    any = "any"
    spread = "spread"
    pack = "pack"


class Lock(StrEnum):
    """What to do about a device on which another process measures."""

    wait = "wait"
    try_ = "try"
    off = "off"


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """How the machine is guarded while it is measured on."""

    GROUP: ClassVar[str] = "Machine"
    lock: Annotated[
        Lock | None,
        typer.Option(
            "--lock",
            help="If another measurement holds the device: wait for it, or run anyway.",
            envvar="ASSAY_LOCK",
            show_default="wait",
        ),
    ] = None
    no_control: Annotated[
        bool, typer.Option("--no-control", help="Time no control workload before and after each job.")
    ] = False

    @property
    def lock_mode(self) -> str | None:
        return self.lock.value if self.lock else None


CancelOption = Annotated[
    bool,
    typer.Option(
        "--cancel-on-interrupt",
        help="On a server or cluster: Ctrl-C ends the campaign, instead of leaving it there.",
        rich_help_panel="Server",
    ),
]


class Unplaceable(StrEnum):
    """What happens to jobs that no agent can take."""

    wait = "wait"
    fail = "fail"


@dataclass(frozen=True, slots=True)
class PlacementFlags:
    """How the agents of a server share the jobs."""

    GROUP: ClassVar[str] = "Agents of a server"
    priority: Annotated[int | None, typer.Option("--priority", min=-100, max=100, help="Higher is served first.")] = (
        None
    )
    deadline: Annotated[str, typer.Option("--deadline", help="Give up after this long, such as 2h.")] = ""
    agent: Annotated[str, typer.Option("--agent", help="Only this agent, by name or id.")] = ""
    spread: Annotated[Spread | None, typer.Option("--spread", help="Over many agents, or on one.")] = None
    unplaceable: Annotated[
        Unplaceable | None, typer.Option("--unplaceable", help="If no agent can take a job: wait, or fail immediately.")
    ] = None

    def options(self) -> PlacementOptions:
        from assay.engines.base import PlacementOptions
        from assay.errors import UsageError
        from assay.units import seconds

        try:
            deadline_s = seconds(self.deadline) if self.deadline else None
        except ValueError as problem:
            raise UsageError(f"--deadline: {problem}", code="deadline") from None
        return PlacementOptions(
            self.priority,
            deadline_s,
            self.agent,
            self.spread.value if self.spread else None,
            self.unplaceable.value if self.unplaceable else None,
        )


def run(
    *,
    target: TargetOptions,
    form: FormatOption = Format.text,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not continue an interrupted campaign.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write CSV, JSON and the HTML report into this folder.")
    ] = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Which verdict gives exit code 1.")] = FailOn.invalid,
    store: StoreOption = None,
    objects: ObjectsOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    server: ServerOptions,
    local: Annotated[
        bool, bare_option("--local", "Measure here, even if ASSAY_SERVER is set.", ServerOptions.GROUP)
    ] = False,
    detach: Annotated[
        bool,
        bare_option("--detach", "Submit to the server or cluster, print the campaign, leave.", ServerOptions.GROUP),
    ] = False,
    placement: PlacementFlags,
    machine: MachineOptions,
    cancel_on_interrupt: CancelOption = False,
) -> None:
    """Measure a benchmark here, on a server's fleet or on a cluster; an interrupted one continues where it stopped.

    A file is not needed: `assay run squeezenet`, `assay run URL --rate 5`, `assay run -- python train.py`. Options for
    keys also replace those of a file.

    On a cluster (place.engine: slurm or kubernetes) Ctrl-C leaves the campaign there: `assay campaigns attach` comes
    back to it. Progress is then reported to a server, which measures nothing itself.
    """
    loaded, view = _opened(target, text=form is Format.text, quiet=quiet)
    client = server.connect() if server.url and not local else None
    options = placement.options()
    if out is not None:
        refuse_folder(out)
    if loaded.benchmark.place.on_cluster:
        _refuse_placement(options, loaded.benchmark.place.engine)
    from assay.api.run import engine_for, measure
    from assay.engines.base import FollowOptions, RunOptions

    follow = FollowOptions(detach, cancel_on_interrupt, client)
    how = RunOptions(fresh, machine.lock_mode, not machine.no_control, follow, options)
    result = measure(loaded, how, view, store=store, objects=objects)
    if detach and engine_for(loaded, client).OUTLIVES:
        say(result.record.campaign)
        return
    end(result, form, fail_on, out)


def _opened(target: TargetOptions, *, text: bool, quiet: bool) -> tuple[Loaded, View]:
    """The benchmark and what shows its progress, beginning with how it was read."""
    from assay.report.live import view_for
    from assay.run.inputs import plan_of, refuse_inputs

    loaded = target.load()
    refuse_inputs(loaded, plan_of(loaded))
    target.keep(loaded)
    view = view_for(text=text, quiet=quiet)
    for note in loaded.source.notes:
        view.note(note)
    return loaded, view


def _refuse_placement(options: PlacementOptions, engine: str) -> None:
    """Refuse what only a fleet could heed."""
    from dataclasses import asdict

    from assay.errors import UsageError

    named = [name.removesuffix("_s") for name, value in asdict(options).items() if value not in (None, "")]
    if named:
        raise UsageError(
            f"--{named[0]} is for the agents of a server, and {engine.capitalize()} places these jobs",
            code="wish",
            try_=f"leave it out; place.{engine} has keys of its own for this",
        )


def end(result: CampaignResult, form: Format, fail_on: FailOn, out: Path | None = None) -> NoReturn:
    """Print the results, write them where asked, and leave with the code that they deserve.

    Loads that several machines shared are put together first; how they did together decides.
    """
    from assay.engines.shared_load import merge

    shared = merge(result)
    judged = result.record if shared is None else shared.alone
    result = result if shared is None else shared.beside_parts
    say(rendered(result.record, form))
    written = write_reports(result, out) if out else []
    if form is Format.text:
        say("\n".join(["", *_where(result, written)]))
    raise typer.Exit(exit_code(judged, fail_on))


def _where(result: CampaignResult, written: Sequence[Path]) -> Iterator[str]:
    """Where the results are, and what to do next."""
    for path in written:
        yield f"{path.suffix[1:]:<6}  {path}"
    campaign, server = result.record.campaign, "://" in result.address
    yield f"{'server' if server else 'store':<6}  {result.address}"
    look = f"open {result.address}/campaigns/{campaign}" if server else f"assay serve → {_DASHBOARD}/{campaign}"
    steps = [f"assay report {campaign}"] if not written else []
    if any(job.metrics for job in result.record.jobs):
        steps += [look, "assay compare latest~1 latest"]
    else:
        steps = [f"assay logs {campaign}", look]
    yield from _next_steps(steps)
    yield f"result  {campaign}"


def _next_steps(steps: Sequence[str]) -> Iterator[str]:
    """What to do next on one line, or on one line each where the terminal is too narrow for all."""
    line = f"next    {' · '.join(steps)}"
    if len(line) <= terminal_width():
        yield line
    else:
        yield from (f"{'' if place else 'next':<8}{step}" for place, step in enumerate(steps))


def refuse_folder(folder: Path) -> None:
    """Find out before anything is measured whether reports can be written into a folder."""
    import os

    from assay.errors import UsageError

    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    reason = "this user may not write there" if there.is_dir() else f"{there} is a file, not a folder"
    raise UsageError(
        f"the reports cannot be written into it: {reason}",
        code="out",
        at=str(folder),
        try_="name another folder by --out",
    )


def write_reports(result: CampaignResult, folder: Path) -> list[Path]:
    """Write a campaign as CSV, JSON and HTML into a folder; return the files."""
    from datetime import datetime

    from assay.report.export import results_filename
    from assay.store.samples import write_whole

    created = datetime.fromisoformat(result.record.created_at)
    table = folder / results_filename(result.record.campaign, created)
    contents = {
        table: result.to_csv(),
        table.with_name(f"{result.record.campaign}.json"): result.to_json(),
        table.with_name(f"{result.record.campaign}.html"): result.to_html(),
    }
    for path, text in contents.items():
        write_whole(path, text.encode())
    return list(contents)


def exec_(
    job: Annotated[Path, typer.Argument(metavar="JOB.json", help="A job document.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the result and its samples.")],
    events: Annotated[
        bool, typer.Option("--events", help="Print one JSON object per line about how it goes, and nothing else.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not keep the runs that are there already.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    *,
    machine: MachineOptions,
) -> None:
    """Measure one job document and write its result document and samples; an interrupted one continues."""
    from assay.errors import AssayError
    from assay.exec.document import RESULT, execute_document
    from assay.report.live import EventView, view_for

    execute = partial(execute_document, job, out, fresh=fresh, lock=machine.lock_mode, control=not machine.no_control)
    if events:
        view = EventView(out / RESULT)
        try:
            state = execute(view).state
        except AssayError as error:
            view.error(error)
            raise
    else:
        state = execute(view_for(text=True, quiet=quiet)).state
        say(str(out / "result.json"))
    raise typer.Exit(0 if state == "done" else 3)
