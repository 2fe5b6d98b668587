"""`assay infra` and `assay monitoring`: the whole system up and down, and what Prometheus saw of a campaign."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import StoreOption, TextFormat, TextFormatOption, Verbs, bare_option, open_store, option_value
from assay.cli.output import say, say_json, say_table, terminal_width
from assay.errors import UsageError
from assay.units import seconds

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


@app.command("create")
def create(
    provider: ProviderOption = Provider.local,
    name: NameOption = "default",
    with_: Annotated[With | None, bare_option("--with", "local: how the parts are run (processes).")] = None,
    host: Annotated[str | None, bare_option("--host", "local: address the server listens on (127.0.0.1).")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, help="local: port of the server; 8080, or a free one.", show_default=False
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        bare_option("--without", "local: leave out postgresql, redis, prometheus or agent; may be repeated."),
    ] = None,
    allow: Annotated[
        list[str] | None, bare_option("--allow", "local: what jobs may do on the agent besides: command.")
    ] = None,
    no_fetch: Annotated[
        bool, typer.Option("--no-fetch", help="local: unpack no program that is not on this machine.")
    ] = False,
    namespace: Annotated[str | None, bare_option("--namespace", "kubernetes: where it is installed (assay).")] = None,
    context: Annotated[str | None, bare_option("--context", "kubernetes: context of the kubeconfig.")] = None,
    values: Annotated[
        list[Path] | None, bare_option("--values", "kubernetes: values of the chart; aws: variables; may be repeated.")
    ] = None,
    settings: Annotated[
        list[str] | None, bare_option("--set", "kubernetes, aws: one value, as name=value; may be repeated.")
    ] = None,
    within: Annotated[str, typer.Option("--within", help="How long it may take to get healthy.")] = "10m",
    yes: YesOption = False,
) -> None:
    """Bring the whole system up, wait until it is healthy, and print its addresses; safe to repeat.

    local: PostgreSQL, Redis, Prometheus, the server and one agent. kubernetes: the Helm chart. aws: Terraform's plan is
    shown first, and applied only with --yes.
    """
    from assay.infra.providers import create as bring_up
    from assay.infra.record import InfraOptions

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
        option_value(seconds, within, "--within", code="within"),
        yes,
    )
    _say(bring_up(provider.value, options, _notify))


@app.command("status")
def status(
    provider: ProviderOption = Provider.local, name: NameOption = "default", form: TextFormatOption = TextFormat.text
) -> None:
    """Ask every part whether it works; exit code 1 if one does not, or nothing is up."""
    from assay.infra.providers import status as look

    status = look(provider.value, name)
    if form is TextFormat.json:
        say_json(asdict(status))
    else:
        _say(status)
    raise typer.Exit(0 if status.word == "healthy" else 1)


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
        take_down(provider.value, name, _notify, keep_data=False, yes=yes)  # what a `create` that was cut may have left
        say(f"nothing is up: there is no {provider.value} system called {name}")
        return
    if not keep_data and provider is not Provider.aws:  # there the plan is shown first
        _confirm(f"this removes the {provider.value} system {name} with all its results", yes=yes)
    take_down(provider.value, name, _notify, keep_data=keep_data, yes=yes)
    say("nothing of it is left" if not keep_data else "its data are kept")


def _confirm(what: str, *, yes: bool) -> None:

    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(what, code="not-confirmed", try_="say --yes, or --keep-data to end it and keep its data")
    if not typer.confirm(f"{what}; continue?"):
        raise typer.Exit(1)


def _notify(text: str) -> None:
    """Progress goes to the error stream: what is printed at the end can be read by a program."""
    sys.stderr.write(f"{text}\n")


def _say(status: Status) -> None:
    if status.word == "absent":
        say(f"nothing is up: there is no {status.provider} system called {status.name}")
        return
    rows = [
        (
            part.name,
            part.state,
            part.address,
            "" if part.pid is None else str(part.pid),
            "" if part.restarts is None else str(part.restarts),
            part.detail,
        )
        for part in status.parts
    ]
    say_table(("part", "state", "address", "pid", "restarts", "detail"), rows, "no parts", flexible="detail")
    for what, text in status.then.items():
        say(f"{what:<17} {text}")
    if status.folder:
        say(f"{'files and logs':<17} {status.folder}")


monitoring_app = Verbs(help="Show what Prometheus saw of a campaign; write files for Grafana.")


@monitoring_app.command("show")
def show(
    campaign: Annotated[str, typer.Argument(help="Id, its beginning, `latest` or `latest~1`.")] = "latest",
    job: Annotated[int | None, typer.Option("--job", help="Only this job, counted from 0.")] = None,
    form: TextFormatOption = TextFormat.text,
    store: StoreOption = None,
) -> None:
    """Show what was scraped of nodes and services while each job ran."""
    from assay.report.machine import monitored_of, monitoring_sheet
    from assay.report.result import read_campaign
    from assay.report.sheet import sheet_lines
    from assay.report.wording import job_labels

    with open_store(store) as opened:
        record = read_campaign(opened, opened.find(campaign))
    jobs = [result for result in record.jobs if job is None or result.index == job]
    if not jobs:
        raise UsageError(
            f"campaign {record.campaign} has no job {job}",
            code="unknown-job",
            try_=f"it has the jobs 0 to {len(record.jobs) - 1}",
        )
    if form is TextFormat.json:
        import json

        monitored = {
            result.job: {str(run): dict(facts) for run, facts in monitored_of(result).items()} for result in jobs
        }
        say(json.dumps(monitored, indent=2))
        return
    labels = job_labels(record)
    for place, job_result in enumerate(jobs):
        sheet = monitoring_sheet(job_result)
        lines = sheet_lines(sheet, terminal_width()) if sheet else ["was not monitored: `monitoring: true` in the file"]
        say(
            "\n".join(
                [
                    *([""] if place else []),
                    f"{labels[job_result.job]} ({job_result.job})",
                    *(f"  {line}" for line in lines),
                ]
            )
        )


@monitoring_app.command("files")
def files(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files are written.")],
    url: Annotated[str, typer.Option("--url", help="Where Prometheus answers.")] = "http://localhost:9090",
    discovery: Annotated[
        Path | None,
        typer.Option("--discovery", help="Folder of a campaign's target files: also configure a Prometheus for it."),
    ] = None,
) -> None:
    """Write dashboards and provisioning files for Grafana."""
    from assay.monitoring.grafana import grafana_files
    from assay.store.samples import write_whole

    for name, content in grafana_files(folder, url, str(discovery.absolute()) if discovery else None).items():
        write_whole(folder / name, content.encode())
        (folder / name).chmod(0o644)  # Grafana runs as a user of its own
        say(str(folder / name))


@monitoring_app.command("tunnel")
def tunnel(
    login: Annotated[str, typer.Argument(metavar="LOGIN", help="Login node as ssh knows it, such as me@login.site.")],
    node: Annotated[str, typer.Argument(metavar="NODE", help="Compute node, or the campaign's shared folder.")],
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of Prometheus on the node.")] = 9090,
    local: Annotated[int, typer.Option("--local", min=1, max=65535, help="Port on your own machine.")] = 9090,
    listen: Annotated[str, typer.Option("--listen", help="Address on which it answers there.")] = "127.0.0.1",
) -> None:
    """Print the ssh command that brings Prometheus to your machine; it is never run."""
    from assay.monitoring.prometheus import Tunnel

    if Path(node).is_dir():
        node, port, listen = _published(Path(node))
    say(Tunnel(login, node, port, local, listen).text())


def _published(folder: Path) -> tuple[str, int, str]:
    """Where the monitor of a campaign said that it is."""
    import json

    from assay.engines.slurm.folder import SharedFolder
    from assay.engines.slurm.node.monitor import GROUP, NAME

    path = SharedFolder(folder).service(GROUP, NAME)
    try:
        endpoint = json.loads(path.read_bytes())
        return str(endpoint["node"]), int(endpoint["port"]), str(endpoint["listen"])
    except (OSError, ValueError, KeyError) as problem:
        raise UsageError(
            "the monitor of this campaign has not said where it is",
            code="no-monitor",
            at=str(path),
            try_="wait until its batch job runs, or give the node and --port",
        ) from problem
