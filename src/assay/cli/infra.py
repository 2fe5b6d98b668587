"""`assay infra`: the whole system brought up, looked at and taken down, on this machine or in a cluster."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import JsonOption, Verbs
from assay.cli.output import say, say_json, say_table

if TYPE_CHECKING:
    from assay.infra.record import Status

app = Verbs(help="Bring the whole system up, look at it, take it down.")


class Provider(StrEnum):
    """Where the system is."""

    local = "local"
    kubernetes = "kubernetes"
    aws = "aws"


class With(StrEnum):
    """How the parts of a local system are run."""

    processes = "processes"
    podman = "podman"
    docker = "docker"


ProviderOption = Annotated[Provider, typer.Option("--provider", "-p", help="Where the system is.")]
NameOption = Annotated[str, typer.Option("--name", help="Name of the system; there may be several.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def _option(name: str, text: str) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(name, help=text, show_default=False)
    return info


@app.command("create")
def create(
    provider: ProviderOption = Provider.local,
    name: NameOption = "default",
    with_: Annotated[With | None, _option("--with", "local: how the parts are run (processes).")] = None,
    host: Annotated[str | None, _option("--host", "local: address the server listens on (127.0.0.1).")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, help="local: port of the server; 8080, or a free one.", show_default=False
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        _option("--without", "local: leave out postgresql, redis, prometheus or agent; may be repeated."),
    ] = None,
    allow: Annotated[
        list[str] | None, _option("--allow", "local: what jobs may do on the agent besides: command.")
    ] = None,
    no_fetch: Annotated[
        bool, typer.Option("--no-fetch", help="local: unpack no program that is not on this machine.")
    ] = False,
    namespace: Annotated[str | None, _option("--namespace", "kubernetes: where it is installed (assay).")] = None,
    context: Annotated[str | None, _option("--context", "kubernetes: context of the kubeconfig.")] = None,
    values: Annotated[
        list[Path] | None, _option("--values", "kubernetes: values of the chart; aws: variables; may be repeated.")
    ] = None,
    settings: Annotated[
        list[str] | None, _option("--set", "kubernetes, aws: one value, as name=value; may be repeated.")
    ] = None,
    within: Annotated[str, typer.Option("--within", help="How long it may take to get healthy.")] = "10m",
    yes: YesOption = False,
) -> None:
    """Bring the whole system up, wait until it is healthy, and print its addresses; safe to repeat.

    local: PostgreSQL, Redis, Prometheus, the server and one agent. kubernetes: the Helm chart. aws: Terraform's plan is
    shown first, and applied only with --yes.
    """
    from assay.infra.providers import InfraOptions
    from assay.infra.providers import create as bring_up

    options = InfraOptions(
        name,
        with_ and with_.value,
        host,
        port,
        tuple(without or ()),
        tuple(allow or ()),
        not no_fetch,
        namespace,
        context,
        tuple(values or ()),
        tuple(settings or ()),
        _seconds(within),
        yes,
    )
    _say(bring_up(provider.value, options, _tell))


@app.command("status")
def status(provider: ProviderOption = Provider.local, name: NameOption = "default", json_: JsonOption = False) -> None:
    """Ask every part whether it works; exit code 1 if one does not, or nothing is up."""
    from assay.infra.providers import status as look

    found = look(provider.value, name)
    if json_:
        say_json(asdict(found))
    else:
        _say(found)
    raise typer.Exit(0 if found.word == "healthy" else 1)


@app.command("destroy")
def destroy(
    provider: ProviderOption = Provider.local,
    name: NameOption = "default",
    keep_data: Annotated[bool, typer.Option("--keep-data", help="Keep results; `create` finds them again.")] = False,
    yes: YesOption = False,
) -> None:
    """Take the whole system down and remove everything of it, its results too."""
    from assay.infra.providers import destroy as take_down
    from assay.infra.providers import status as look

    if look(provider.value, name).word == "absent":
        take_down(provider.value, name, _tell, keep_data=False, yes=yes)  # what a `create` that was cut may have left
        say(f"nothing is up: there is no {provider.value} system called {name}")
        return
    if not keep_data and provider is not Provider.aws:  # there the plan is shown first
        _confirm(f"this removes the {provider.value} system {name} with all its results", yes=yes)
    take_down(provider.value, name, _tell, keep_data=keep_data, yes=yes)
    say("nothing of it is left" if not keep_data else "its data are kept")


def _confirm(what: str, *, yes: bool) -> None:
    from assay.errors import UsageError

    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(what, code="not-confirmed", try_="say --yes, or --keep-data to end it and keep its data")
    if not typer.confirm(f"{what}; go on?"):
        raise typer.Exit(1)


def _tell(text: str) -> None:
    """Progress goes to the error stream: what is printed at the end can be read by a program."""
    sys.stderr.write(f"{text}\n")


def _say(found: Status) -> None:
    if found.word == "absent":
        say(f"nothing is up: there is no {found.provider} system called {found.name}")
        return
    rows = [
        (
            one.name,
            one.state,
            one.address,
            "" if one.pid is None else str(one.pid),
            "" if one.restarts is None else str(one.restarts),
            one.detail,
        )
        for one in found.parts
    ]
    say_table(("part", "state", "address", "pid", "restarts", "detail"), rows, "no parts", flexible="detail")
    for what, text in found.then.items():
        say(f"{what:<17} {text}")
    if found.folder:
        say(f"{'files and logs':<17} {found.folder}")


def _seconds(text: str) -> float:
    from assay.errors import UsageError
    from assay.units import seconds

    try:
        return seconds(text)
    except ValueError as problem:
        raise UsageError(str(problem), code="within", at="--within") from None
