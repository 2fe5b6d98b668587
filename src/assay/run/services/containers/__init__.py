"""Containers: which program runs them here, what a service's section means for it, and their certain end.

`contract.ContainerRuntime` is what a runtime must be able to do; `runtimes` has the ones there are.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from assay.errors import MeasureError
from assay.run.services.containers.contract import (
    LABEL,
    SIDECAR_KIND,
    Container,
    ContainerRuntime,
    Kind,
    Runtime,
    runtime_output,
)
from assay.run.services.containers.runtimes import APPTAINER, CHARLIECLOUD, DOCKER, PODMAN, at_once
from assay.run.services.plan import Ports, ServiceSpec
from assay.spec.references import REFERENCE

__all__ = ["LABEL", "MARKER", "RUNTIMES", "Container", "Kind", "Runtime", "find_runtime", "make_box", "mark",
           "runtime_for", "sweep_containers"]  # fmt: skip

# In the order in which they are looked for: those that need no rights and no daemon come first.
RUNTIMES: Mapping[Kind, ContainerRuntime] = {way.kind: way for way in (APPTAINER, PODMAN, CHARLIECLOUD, DOCKER)}


# A site's own choice for services that make none; the engine of a cluster sets it on its nodes.
VARIABLE = "ASSAY_RUNTIME"


def runtime_for(runtime: Runtime) -> ContainerRuntime:
    if runtime.kind == SIDECAR_KIND:
        from assay.run.services.containers.sidecar import SIDECAR  # it is also a program, started by its module's name

        return SIDECAR
    return RUNTIMES[runtime.kind]


def find_runtime(asked: str, at: str, which: Callable[[str], str | None] = shutil.which) -> Runtime:
    """The program that runs containers here: the one asked for, else that of ASSAY_RUNTIME, else the first there is."""
    site = os.environ.get(VARIABLE)
    if site == SIDECAR_KIND:  # set in pods alone, where nothing else can run an image, whatever a file asks for
        return Runtime(SIDECAR_KIND, sys.executable)
    asked = site or "auto" if asked == "auto" else asked
    looked: list[str] = []
    for kind, way in RUNTIMES.items():
        if asked not in ("auto", kind):
            continue
        for name in way.programs:
            looked.append(name)
            if program := which(name):
                return Runtime(kind, program)
    raise MeasureError(
        f"no program that runs containers is here (looked for {', '.join(looked)})",
        code="container-runtime",
        at=at,
        try_="install one of them, load its module, or start the service as a plain process: container: none",
    )


def make_box(
    wanted: ServiceSpec,
    ports: Ports,
    env: Mapping[str, str],
    base: Path,
    *,
    name: str,
    tag: str,
    which: Callable[[str], str | None] = shutil.which,
) -> Container:
    """What runs a service's image."""
    at = f"{wanted.at}.image"
    runtime = find_runtime(wanted.container, at, which)
    secret = {key for key, value in wanted.env.items() if REFERENCE.search(value)}
    return Container(
        runtime,
        runtime_for(runtime).image(wanted.image or "", base, at),
        name,
        tag,
        command=None if wanted.command is None else tuple(ports.fill(word) for word in wanted.command),
        env={key: value for key, value in env.items() if key not in secret},
        hidden={key: value for key, value in env.items() if key in secret},
        mounts=_mounts(wanted, base),
        workdir=wanted.cwd,
        gpus=wanted.gpus,
        port=ports.own,
        host=ports.host,
        # Elsewhere containers live in a virtual machine, whose network is not ours.
        host_network=sys.platform == "linux",
    )


def _mounts(wanted: ServiceSpec, base: Path) -> dict[str, str]:
    mounts = {}
    for here, there in wanted.mounts.items():
        path = (base / Path(here).expanduser()).absolute()
        if not path.exists():
            raise MeasureError(
                f"mounts names {str(path)!r}, which is not there",
                code="service-command",
                at=f"{wanted.at}.mounts",
                try_="it is relative to the benchmark file's folder",
            )
        mounts[str(path)] = there
    return mounts


# Written before the first container starts, and read by the sweep.
MARKER = "containers.jsonl"


def mark(box: Container, scratch: Path) -> None:
    """Write down that a container may exist, before it does."""
    if runtime_for(box.runtime).stays:  # of the others, nothing stays behind when their processes are gone
        with (scratch / MARKER).open("a") as file:
            file.write(json.dumps({"program": box.runtime.program, "tag": box.tag}) + "\n")


def sweep_containers(tag: str, scratch: Path) -> int:
    """Remove every container that a run left behind; return how many that was.

    Costs nothing where the run started none.
    """
    try:
        lines = (scratch / MARKER).read_text().splitlines()
    except OSError:
        return 0
    programs = {entry["program"] for entry in map(json.loads, lines) if entry["tag"] == tag}
    removed = 0
    for program in sorted(programs):
        names = runtime_output([program, "ps", "--all", "--quiet", "--filter", f"label={LABEL}={tag}"]).split()
        if names:
            runtime_output([program, "rm", "--force", *at_once(program), *names])
        removed += len(names)
    return removed
