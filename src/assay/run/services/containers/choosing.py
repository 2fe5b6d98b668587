"""Which runtime is used, and what a service's section means for it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from assay.errors import MeasureError
from assay.run.services.containers.apptainer import APPTAINER
from assay.run.services.containers.beside import BESIDE
from assay.run.services.containers.box import Box, Kind, Runtime
from assay.run.services.containers.charliecloud import CHARLIECLOUD
from assay.run.services.containers.contract import Way
from assay.run.services.containers.oci import DOCKER, PODMAN
from assay.run.services.plan import Ports, Wanted
from assay.spec.secrets import REFERENCE

# In the order in which they are looked for: those that need no rights and no daemon come first.
WAYS: Mapping[Kind, Way] = {way.kind: way for way in (APPTAINER, PODMAN, CHARLIECLOUD, DOCKER)}


# A site's own choice for services that make none; the engine of a cluster sets it on its nodes.
VARIABLE = "ASSAY_RUNTIME"


def way_of(runtime: Runtime) -> Way:
    return BESIDE if runtime.kind == BESIDE.kind else WAYS[runtime.kind]


def find_runtime(asked: str, at: str, which: Callable[[str], str | None] = shutil.which) -> Runtime:
    """The program that runs containers here: the one asked for, else that of ASSAY_RUNTIME, else the first there is.

    Raises:
        MeasureError: if it is missing, with what was looked for.
    """
    site = os.environ.get(VARIABLE)
    if site == BESIDE.kind:  # set in pods alone, where nothing else can run an image, whatever a file asks for
        return Runtime(BESIDE.kind, sys.executable)
    asked = site or "auto" if asked == "auto" else asked
    looked: list[str] = []
    for kind, way in WAYS.items():
        if asked not in ("auto", kind):
            continue
        for name in way.programs:
            looked.append(name)
            if found := which(name):
                return Runtime(kind, found)
    raise MeasureError(
        f"no program that runs containers is here (looked for {', '.join(looked)})",
        code="container-runtime",
        at=at,
        try_="install one of them, load its module, or start the service as a plain process: container: none",
    )


def make_box(
    wanted: Wanted,
    ports: Ports,
    env: Mapping[str, str],
    base: Path,
    *,
    name: str,
    tag: str,
    which: Callable[[str], str | None] = shutil.which,
) -> Box:
    """What runs a service's image."""
    at = f"{wanted.at}.image"
    runtime = find_runtime(wanted.container, at, which)
    secret = {key for key, value in wanted.env.items() if REFERENCE.search(value)}
    return Box(
        runtime,
        way_of(runtime).image(wanted.image or "", base, at),
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


def _mounts(wanted: Wanted, base: Path) -> dict[str, str]:
    found = {}
    for here, there in wanted.mounts.items():
        path = (base / Path(here).expanduser()).absolute()
        if not path.exists():
            raise MeasureError(
                f"mounts names {str(path)!r}, which is not there",
                code="service-command",
                at=f"{wanted.at}.mounts",
                try_="it is relative to the benchmark file's folder",
            )
        found[str(path)] = there
    return found
