"""`assay monitoring`: what was scraped beside a campaign, and files for Grafana."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import StoreOption, Verbs, open_store
from assay.cli.output import say, terminal_width

app = Verbs(help="Show what Prometheus saw of a campaign; write files for Grafana.")


@app.command("show")
def show(
    campaign: Annotated[str, typer.Argument(help="Id, its beginning, `latest` or `latest~1`.")] = "latest",
    job: Annotated[int | None, typer.Option("--job", help="Only this job, counted from 0.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    store: StoreOption = None,
) -> None:
    """Show what was scraped of nodes and services while each job ran."""
    from assay.report.machine import monitored_of, monitoring_sheet
    from assay.report.reading import read_campaign
    from assay.report.sheet import sheet_lines
    from assay.report.wording import job_labels

    with open_store(store) as opened:
        record = read_campaign(opened, opened.find(campaign))
    jobs = [one for one in record.jobs if job is None or one.index == job]
    if not jobs:
        from assay.errors import UsageError

        raise UsageError(
            f"campaign {record.campaign} has no job {job}",
            code="unknown-job",
            try_=f"it has the jobs 0 to {len(record.jobs) - 1}",
        )
    if json_:
        import json

        told = {one.job: {str(run): dict(facts) for run, facts in monitored_of(one).items()} for one in jobs}
        say(json.dumps(told, indent=2))
        return
    labels = job_labels(record)
    for place, one in enumerate(jobs):
        sheet = monitoring_sheet(one)
        lines = sheet_lines(sheet, terminal_width()) if sheet else ["was not monitored: `monitoring: true` in the file"]
        say("\n".join([*([""] if place else []), f"{labels[one.job]} ({one.job})", *(f"  {line}" for line in lines)]))


@app.command("files")
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


@app.command("tunnel")
def tunnel(
    login: Annotated[str, typer.Argument(metavar="LOGIN", help="Login node as ssh knows it, such as me@login.site.")],
    node: Annotated[str, typer.Argument(metavar="NODE", help="Compute node, or the campaign's shared folder.")],
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of Prometheus on the node.")] = 9090,
    local: Annotated[int, typer.Option("--local", min=1, max=65535, help="Port on your own machine.")] = 9090,
    listen: Annotated[str, typer.Option("--listen", help="Address on which it answers there.")] = "127.0.0.1",
) -> None:
    """Print the ssh command that brings Prometheus to your machine; it is never run."""
    from assay.monitoring.tunnel import Tunnel

    if Path(node).is_dir():
        node, port, listen = _published(Path(node))
    say(Tunnel(login, node, port, local, listen).text())


def _published(folder: Path) -> tuple[str, int, str]:
    """Where the monitor of a campaign said that it is."""
    import json

    from assay.engines.slurm.folder import SharedFolder
    from assay.engines.slurm.node.monitor import GROUP, NAME
    from assay.errors import UsageError

    path = SharedFolder(folder).service(GROUP, NAME)
    try:
        told = json.loads(path.read_bytes())
        return str(told["node"]), int(told["port"]), str(told["listen"])
    except (OSError, ValueError, KeyError) as problem:
        raise UsageError(
            "the monitor of this campaign has not said where it is",
            code="no-monitor",
            at=str(path),
            try_="wait until its batch job runs, or give the node and --port",
        ) from problem
