"""`assay sim` and `assay demo-data`: servers, histories and stores with known truth."""

from __future__ import annotations

import csv
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.options import Verbs, bare_option
from assay.cli.output import say
from assay.cli.serve import DatabaseOptions
from assay.errors import UsageError
from assay.sim.script import ListenOptions, ScriptSetting, Server, SimScript, settings_of

if TYPE_CHECKING:
    from assay.sim.history import History
    from assay.store.store import Store

app = Verbs(help="A server with known truth: what a load generator reports can be compared with what was done.")


def _command(server: Server, meaning: str) -> Callable[..., None]:
    """A verb whose options are the settings of a server: they are defined in one place, which is not here."""

    def verb(**given: object) -> None:
        from assay.sim.serve import run

        run(server, {name: value for name, value in given.items() if value is not None and value != []})

    parameters = [_parameter(setting) for setting in _settings(server)]
    # typer reads both: the order and defaults of the one, the types of the other
    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    verb.__doc__ = meaning
    return verb


# How help groups the settings of a server; all others are about where it listens and what it keeps.
_GROUPS = {
    "Times and text of answers": (
        *("ttft", "itl", "latency", "tokens", "tokens_per_chunk", "first_chunk_tokens", "reasoning_tokens"),
        *("reasoning_field", "role", "answer", "usage", "done", "body", "size"),
    ),
    "Model": ("model", "context_limit", "template_tokens", "dimensions", "tokenizer"),
    "Limits and faults": ("capacity", "rate_limit", "stall", "pause", "error", "slow_start", "ready_after"),
}


def _settings(server: Server) -> list[ScriptSetting]:
    return [*settings_of(ListenOptions, server), *settings_of(SimScript, server)]


def _parameter(setting: ScriptSetting) -> inspect.Parameter:
    shown = f"{setting.meaning} [{setting.default}]" if setting.default else setting.meaning
    group = next((title for title, names in _GROUPS.items() if setting.name in names), None)
    option = bare_option(setting.flag, shown, group)
    kind: Any = bool if setting.switch is not None else list[str] if setting.many else str
    if setting.switch is not None:
        # A flag that is not given leaves the setting as the script file has it.
        option.callback = _only_if_given(setting.switch)
    return inspect.Parameter(
        setting.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _only_if_given(value: bool) -> Callable[[bool | None], bool | None]:
    def change(given: bool | None) -> bool | None:
        return value if given else None

    return change


app.command("llm")(_command("llm", "Serve made tokens at known times, as OpenAI, vLLM, llama.cpp and Ollama do."))
app.command("http")(_command("http", "Serve one JSON answer at known times, for any path."))


@app.command("history")
def history(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the points and the truth, as files.")
    ] = None,
    store: Annotated[Path | None, typer.Option("--store", help="New folder for a store with all results.")] = None,
    settings: Annotated[
        Path | None,
        typer.Option("--settings", help="YAML file with machines, benchmarks and events; a year if left out."),
    ] = None,
    nights: Annotated[
        int | None, typer.Option("--nights", min=1, help="How many of its nights, from the first on.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Another seed for all that is drawn.")] = None,
) -> None:
    """Make a history of nightly results with known truth: steps, drifts, outages, noise, and what was around them."""
    from assay.sim.history import read_history, year

    if out is None and store is None:
        raise UsageError(
            "nowhere to write the history to", code="sim-history", try_="give --out FOLDER or --store FOLDER"
        )
    made = read_history(settings) if settings is not None else year()
    changed = {name: value for name, value in (("nights", nights), ("seed", seed)) if value is not None}
    made = made.model_copy(update=changed)
    # Without a first night of its own, the last one is today's.
    today = datetime.now(UTC)
    if out is not None:
        for path in write_files(made, out, today):
            say(str(path.absolute()))
    if store is not None:
        say(_played(made, store, today))


def write_files(made: History, folder: Path, today: datetime) -> tuple[Path, ...]:
    """The points as CSV for `assay series check` and `import`, and what is true as JSON."""
    from assay.sim.history import truth
    from assay.store.samples import write_whole

    points, true = folder / "points.csv", folder / "truth.json"
    write_whole(points, points_csv(made, today).encode())
    write_whole(true, (json.dumps([asdict(change) for change in truth(made)], indent=1) + "\n").encode())
    return points, true


def points_csv(made: History, today: datetime) -> str:
    """One line per series and night; nothing where nothing was measured."""
    from assay.metrics import describe
    from assay.sim.history import nights, series_name

    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("series", "time", "value", "better"))
    declared = {
        (bench.name, metric["name"]): metric.get("better")
        for bench in made.benchmarks
        for metric in _declared(bench.file)
    }
    for results in nights(made, today):
        for result in results:
            for name, values in result.values.items():
                better = declared.get((result.benchmark, name)) or describe(name).better or ""
                writer.writerow(
                    (
                        series_name(result.benchmark, result.job, name),
                        result.at.isoformat(),
                        f"{median(values):.6g}",
                        better,
                    )
                )
    return text.getvalue()


def _declared(file: object) -> list[dict[str, str]]:
    """The metrics that a benchmark file declares itself."""
    target = file.get("target") if isinstance(file, dict) else None
    metrics = target.get("metrics") if isinstance(target, dict) else None
    return [metric for metric in metrics if isinstance(metric, dict)] if isinstance(metrics, list) else []


def _played(made: History, folder: Path, today: datetime) -> str:
    from assay.demo.replay import DetectionObserver, play
    from assay.store.store import Store

    store = Store(folder)
    try:
        if store.campaigns(1):
            raise UsageError(
                f"the store {folder} holds results already",
                code="sim-history",
                try_="name a new folder: simulated results must not stand beside measured ones",
            )
        jobs = play(made, store, DetectionObserver(), today)
    finally:
        store.close()
    return f"{jobs} jobs of {made.nights} nights in {folder.absolute()}"


def demo_data(
    campaigns: Annotated[int, typer.Option("--campaigns", min=10, max=100_000, help="How many campaigns.")] = 200,
    agents: Annotated[int, typer.Option("--agents", min=10, max=1000, help="How many machines.")] = 20,
    days: Annotated[int, typer.Option("--days", min=30, max=3650, help="Over how many days.")] = 365,
    results: Annotated[
        int | None,
        typer.Option(
            "--results",
            min=1,
            max=10_000_000,
            help="At least this many results; those of the campaigns if left out.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of all numbers that are drawn.")] = 2026,
    alive: Annotated[
        bool, typer.Option("--alive", help="Then keep the agents running until Ctrl-C, for a server to show.")
    ] = False,
    *,
    where: DatabaseOptions,
) -> None:
    """Fill a new store with simulated benchmarks, campaigns, results, series, alerts and agents.

    Nothing of it is measured: every benchmark has the label `demo: simulated`, every machine is called `demo-…`.
    """
    from assay.demo.fill import fill
    from assay.demo.player import DemoSize
    from assay.store.location import store_folder
    from assay.store.store import Store

    store = Store(store_folder(where.folder), where.database_url)
    try:
        if not _is_demo(store):
            amount = DemoSize(campaigns, agents, days, results, seed)
            say(fill(store, amount, _progress if sys.stderr.isatty() else None).in_words)
        elif not alive:
            say(f"{store.folder} holds demo data already, and is left as it is")
        database = " and the same --database-url" if where.database_url else ""
        say(f"look around: assay serve --store {store.folder}{database}")
        if alive:
            from assay.demo.keeper import Keeper

            say("the agents of the demo keep running; Ctrl-C ends them")
            Keeper(store, seed).run()
    finally:
        store.close()


def _is_demo(store: Store) -> bool:
    """Whether a store holds demo data alone."""
    there = store.campaigns(1)
    if there and there[0].labels.get("demo") != "simulated":
        raise UsageError(
            f"the store {store.folder} holds results already",
            code="demo-data",
            try_="name a new folder with --store: simulated results must not stand beside measured ones",
        )
    return bool(there)


def _progress(done: int, of: int) -> None:
    sys.stderr.write(f"\r{done} of {of} campaigns" + ("\n" if done == of else ""))
    sys.stderr.flush()
