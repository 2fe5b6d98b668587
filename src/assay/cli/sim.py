"""`assay sim`: servers and histories with known truth, to check this and any other tool against."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.cli.options import Verbs
from assay.sim.script import ListenOptions, ScriptSetting, Server, SimScript, settings_of

app = Verbs(help="A server with known truth: what a load generator reports can be compared with what was done.")


def _command(server: Server, meaning: str) -> Callable[..., None]:
    """A verb whose options are the settings of a server: they are told in one place, which is not here."""

    def verb(**given: object) -> None:
        from assay.sim.serve import run

        run(server, {name: value for name, value in given.items() if value is not None and value != []})

    parameters = [_parameter(one) for one in _settings(server)]
    # typer reads both: the order and defaults of the one, the types of the other
    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    verb.__annotations__ = {one.name: one.annotation for one in parameters}
    verb.__doc__ = meaning
    return verb


def _settings(server: Server) -> list[ScriptSetting]:
    return [*settings_of(ListenOptions, server), *settings_of(SimScript, server)]


def _parameter(one: ScriptSetting) -> inspect.Parameter:
    shown = f"{one.meaning} [{one.default}]" if one.default else one.meaning
    option = typer.Option(one.flag, help=shown, show_default=False)
    kind: Any = bool if one.switch is not None else list[str] if one.many else str
    if one.switch is not None:
        # A flag that is not given leaves the setting as the script file has it.
        option = typer.Option(one.flag, help=shown, show_default=False, callback=_only_if_given(one.switch))
    return inspect.Parameter(
        one.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
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
    from assay.cli.sim_history import make

    make(out, store, settings, nights, seed)
