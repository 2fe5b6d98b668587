"""`assay kubernetes`: whether a Kubernetes cluster can be used from here."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import JsonOption, SetOption, Verbs
from assay.cli.output import say, say_json, say_table

if TYPE_CHECKING:
    from assay.engines.kubernetes.check import KubernetesCheck
    from assay.spec.kubernetes import Kubernetes

app = Verbs(help="Check that a Kubernetes cluster can be used.")


@app.callback()
def group() -> None:
    """Check that a Kubernetes cluster can be used."""


@app.command("check")
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Benchmark file whose place.kubernetes is meant.")
    ] = None,
    settings: SetOption = None,
    with_pod: Annotated[bool, typer.Option("--pod", help="Also run a small pod with the image.")] = False,
    json_: JsonOption = False,
) -> None:
    """Ask a cluster what it is, and what this account may do there: version, namespace, rights, nodes.

    Without a file `--set namespace=bench --set image=assay:1` give the keys of place.kubernetes.
    """
    from assay.engines.kubernetes.check import check as look
    from assay.errors import UsageError

    section = _section(file, settings or [])
    if with_pod and section.image is None:
        raise UsageError(
            "--pod runs a pod, and no image is named",
            code="kubernetes-option",
            at="place.kubernetes.image",
            try_="name one by --set image=IMAGE, or in the file",
        )
    found = look(section, with_pod=with_pod)
    if json_:
        say_json(asdict(found))
    else:
        _say(found)
    if found.problems:
        raise typer.Exit(1)


def _section(file: Path | None, settings: list[str]) -> Kubernetes:
    from assay.spec.kubernetes import Kubernetes
    from assay.spec.load import load
    from assay.spec.override import read_with, settings_of

    own = [f"place.kubernetes.{one.removeprefix('place.kubernetes.')}" for one in settings]
    if file is not None:
        return read_with(file, own).benchmark.place.kubernetes or Kubernetes()
    # The smallest benchmark there is: what is wrong with a key is then said as it is of a file.
    document = {"benchmark": "check", "target": {"command": "true"}, **settings_of(own)}
    return load(document).benchmark.place.kubernetes or Kubernetes()


def _say(found: KubernetesCheck) -> None:
    say(f"Kubernetes {found.version} at {found.address}, namespace {found.namespace}")
    if found.nodes is None:
        say(f"{'nodes':<13} not told: this account may not see them, which nothing needs")
    else:
        rows = [
            (
                one.name,
                "ready" if one.ready else "not ready",
                one.cpus or "not told",
                one.memory or "not told",
                ", ".join(f"{name}: {count}" for name, count in one.devices.items()) or "none",
                ", ".join(one.taints) or "none",
            )
            for one in found.nodes
        ]
        say_table(("node", "state", "cpus", "memory", "devices", "taints"), rows, "no nodes", flexible="taints")
    uses: dict[str, list[str]] = {}
    for right, use in found.lacking.items():
        uses.setdefault(use, []).append(right)
    for use, rights in uses.items():
        say(f"{'not to be had':<13} {use}: this account may not {', '.join(rights)}")
    for what, told in found.pod.items():
        say(f"{f'pod: {what}':<13} {told}")
    for problem in found.problems:
        say(f"{'problem':<13} {problem}")
    if not found.problems:
        say(f"{'rights':<13} enough to run benchmarks in {found.namespace}")
