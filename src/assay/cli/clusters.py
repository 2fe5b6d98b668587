"""`assay clusters` and `assay kubernetes`: whether a Slurm or Kubernetes cluster can be used from here."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import SetOption, StoreOption, TextFormat, TextFormatOption, Verbs
from assay.cli.output import say, say_json, say_table
from assay.errors import UsageError
from assay.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from assay.engines.kubernetes.check import KubernetesCheck
    from assay.engines.slurm.check import SlurmCheck
    from assay.spec.kubernetes import Kubernetes

slurm_app = Verbs(help="Name Slurm clusters, and check that they answer.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the cluster.")]


@slurm_app.command("add")
def add(name: Name, settings: SetOption = None) -> None:
    """Write a cluster down: `--set partition=gpu --set account=p200 --set folder=/project/assay`.

    The keys are those of place.slurm; a benchmark file takes them by `place: {slurm: {cluster: NAME}}`.
    """
    from assay.engines.slurm.draft import add as keep
    from assay.engines.slurm.draft import registry_file
    from assay.spec.load import settings_of

    keep(name, settings_of(settings or ()))
    say(f"{name} is written to {registry_file()}\nnext    assay clusters check {name}")


@slurm_app.command("list")
def list_(form: TextFormatOption = TextFormat.text) -> None:
    """List the clusters that are known by name."""
    from assay.engines.slurm.draft import clusters, registry_file

    sections = clusters()
    plain = {name: section.model_dump(mode="json", exclude_unset=True) for name, section in sections.items()}
    if form is TextFormat.json:
        say_json(plain)
        return
    rows = [
        (
            name,
            section.partition or "",
            section.account or "",
            section.rest or "commands of Slurm",
            section.folder or "",
            " ".join(key for key in plain[name] if key not in ("partition", "account", "rest", "folder")),
        )
        for name, section in sections.items()
    ]
    say_table(
        ("cluster", "partition", "account", "reached by", "folder", "also set"),
        rows,
        f"no clusters in {registry_file()}; `assay clusters add NAME --set partition=P` names one",
        flexible="also set",
    )


@slurm_app.command("rm")
def rm(names: Annotated[list[str], typer.Argument(metavar="NAME")]) -> None:
    """Forget clusters; nothing is removed from them."""
    from assay.engines.slurm.draft import remove

    for name in names:
        remove(name)
        say(f"forgot {name}")


@slurm_app.command("check")
def check_slurm(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A cluster by name; the one here when left out.")] = "",
    on_node: Annotated[bool, typer.Option("--node", help="Also run a small batch job on a compute node.")] = False,
    form: TextFormatOption = TextFormat.text,
    store: StoreOption = None,
) -> None:
    """Ask Slurm what it is: version, partitions, GPUs, accounting, shared folder, container runtimes."""
    from assay.engines.slurm.check import check as look
    from assay.engines.slurm.draft import cluster
    from assay.spec.slurm import Slurm
    from assay.store.location import store_folder

    report = look(cluster(name) if name else Slurm(), store_folder(store), on_node=on_node)
    if form is TextFormat.json:
        say_json(asdict(report))
    else:
        _say_slurm(report)
    if report.problems:
        raise typer.Exit(1)


def _say_slurm(check: SlurmCheck) -> None:

    facts = check.facts
    say(f"Slurm {facts.version}, cluster {facts.name or 'without a name'}, reached by {check.reached_by}")
    rows = [
        (
            f"{partition.name}{' (default)' if partition.default else ''}",
            "up" if partition.up else "down",
            "none" if partition.time_limit_s is None else show_seconds(partition.time_limit_s),
            f"{partition.idle}/{partition.nodes}",
            "unknown" if partition.cpus_per_node is None else str(partition.cpus_per_node),
            "unknown" if partition.memory_per_node_bytes is None else show_bytes(partition.memory_per_node_bytes),
            ", ".join(partition.gres) or "none",
        )
        for partition in facts.partitions
    ]
    say_table(("partition", "state", "limit", "idle/nodes", "cpus", "memory", "gres"), rows, "no partitions")
    retention = "unknown" if facts.kept_s is None else f"{facts.kept_s:g} s"
    accounting = facts.accounting or f"nothing ({facts.why_no_accounting})"
    say(f"{'ended jobs':<13} {accounting}; the controller itself remembers them for {retention}")
    say(f"{'arrays':<13} {'unknown' if facts.max_array is None else f'up to {facts.max_array - 1} tasks'}")
    for what, answer in check.here.items():
        say(f"{what:<13} {answer}")
    for what, answer in check.node.items():
        say(f"{f'node: {what}':<13} {answer}")
    for problem in check.problems:
        say(f"problem       {problem}")


kubernetes_app = Verbs(help="Check that a Kubernetes cluster can be used.")


@kubernetes_app.callback()
def group() -> None:
    """Check that a Kubernetes cluster can be used."""


@kubernetes_app.command("check")
def check_kubernetes(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Benchmark file whose place.kubernetes is meant.")
    ] = None,
    settings: SetOption = None,
    with_pod: Annotated[bool, typer.Option("--pod", help="Also run a small pod with the image.")] = False,
    form: TextFormatOption = TextFormat.text,
) -> None:
    """Ask a cluster what it is, and what this account may do there: version, namespace, rights, nodes.

    Without a file `--set namespace=bench --set image=assay:1` give the keys of place.kubernetes.
    """
    from assay.engines.kubernetes.check import check as look

    section = _section(file, settings or [])
    if with_pod and section.image is None:
        raise UsageError(
            "--pod runs a pod, and no image is named",
            code="kubernetes-option",
            at="place.kubernetes.image",
            try_="name one by --set image=IMAGE, or in the file",
        )
    report = look(section, with_pod=with_pod)
    if form is TextFormat.json:
        say_json(asdict(report))
    else:
        _say_kubernetes(report)
    if report.problems:
        raise typer.Exit(1)


def _section(file: Path | None, settings: list[str]) -> Kubernetes:
    from assay.spec.kubernetes import Kubernetes
    from assay.spec.load import load, read_with, settings_of

    own = [f"place.kubernetes.{setting.removeprefix('place.kubernetes.')}" for setting in settings]
    if file is not None:
        return read_with(file, own).benchmark.place.kubernetes or Kubernetes()
    # The smallest benchmark there is: what is wrong with a key is then said as it is of a file.
    document = {"benchmark": "check", "target": {"command": "true"}, **settings_of(own)}
    return load(document).benchmark.place.kubernetes or Kubernetes()


def _say_kubernetes(check: KubernetesCheck) -> None:
    say(f"Kubernetes {check.version} at {check.address}, namespace {check.namespace}")
    if check.nodes is None:
        say(f"{'nodes':<13} unknown: this account may not see them, which nothing needs")
    else:
        rows = [
            (
                node.name,
                "ready" if node.ready else "not ready",
                node.cpus or "unknown",
                node.memory or "unknown",
                ", ".join(f"{name}: {count}" for name, count in node.devices.items()) or "none",
                ", ".join(node.taints) or "none",
            )
            for node in check.nodes
        ]
        say_table(("node", "state", "cpus", "memory", "devices", "taints"), rows, "no nodes", flexible="taints")
    uses: dict[str, list[str]] = {}
    for right, use in check.lacking.items():
        uses.setdefault(use, []).append(right)
    for use, rights in uses.items():
        say(f"{'not available':<13} {use}: this account may not {', '.join(rights)}")
    for what, answer in check.pod.items():
        say(f"{f'pod: {what}':<13} {answer}")
    for problem in check.problems:
        say(f"{'problem':<13} {problem}")
    if not check.problems:
        say(f"{'rights':<13} enough to run benchmarks in {check.namespace}")
