"""A batch job that runs in a container: its command line around ours."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.engines.slurm.folder import BatchPlan, SharedFolder
from assay.engines.slurm.script import Command, Word
from assay.errors import UsageError
from assay.folders import cache_folder, images_folder
from assay.run.services.containers import Container, find_runtime, runtime_for
from assay.run.services.containers.runtimes import lacks, mount_point
from assay.spec.clusters import Slurm

# What a process on a node must know of the job that it is in.
_PASSED = ("SLURM_JOB_ID", "SLURMD_NODENAME", "SLURM_SUBMIT_HOST", "SLURM_PROCID", "SLURM_CONF", "SLURM_RESTART_COUNT",
           "ASSAY_LOCK", "ASSAY_CONTROL", "ASSAY_RUNTIME", "ASSAY_CACHE", "ASSAY_IMAGES",
           "ASSAY_NODE_ADDRESS")  # fmt: skip
_INSIDE = ("APPTAINERENV_", "SINGULARITYENV_")
# Only this runs inside: the others talk to Slurm, or start containers themselves.
_TASK = "assay.engines.slurm.node.task"
# The time that fetching an image may take.
_FETCH_S = 3600.0
# Stands for our own program while the runtime writes its line.
_HERE = "@command@"
# A folder of each container's own, for where the image has no place for the kept models.
_OWN_CACHE = "/tmp/assay-cache"  # noqa: S108


@dataclass(frozen=True, slots=True)
class ContainerCommand:
    """How commands are put into a container."""

    around: tuple[str, ...]
    """The runtime's words, with a mark where our program stands; its own words come last."""
    prologue: tuple[str, ...]

    def wrap(self, command: Sequence[Word] | Command) -> Sequence[Word] | Command:
        """The command inside of the container; of a step, what srun starts."""
        words = command.words if isinstance(command, Command) else tuple(command)
        if _TASK not in words:
            return command
        own = next((place for place, word in enumerate(words) if word == "-m"), 1) - 1
        around = (words[own] if word == _HERE else word for word in self.around)
        inside = (*words[:own], *around, *words[own + 1 :])
        return Command(inside, command.background) if isinstance(command, Command) else inside


def contained(one: BatchPlan, slurm: Slurm, folder: SharedFolder, base: Path) -> ContainerCommand | None:
    """How an sbatch runs in its container; None where it runs straight on the node.

    Raises:
        MeasureError: if nothing here runs containers, or the image is not there.
        UsageError: if the image has no place for the campaign's folders.
    """
    if one.batch.container is None or one.role not in ("jobs", "steps"):
        return None
    at = "place.slurm.container"
    runtime = find_runtime(slurm.runtime, at)
    way = runtime_for(runtime)
    plain = Container(
        runtime,
        way.image(one.batch.container, base, at),
        name=f"assay-{one.name}",
        tag=f"assay-{one.name}",
        command=(_HERE,),
        hidden=dict.fromkeys(_PASSED, ""),
        workdir=str(folder.path),
        gpus=one.batch.gpu_count,
    )
    box = way.fetched(plain, images_folder(), _FETCH_S)
    cache = cache_folder()
    there = cache.is_dir() and (runtime.kind != "charliecloud" or not lacks(box.image, [cache]))
    places = _places([folder.path, base, *([cache] if there else [])])
    if runtime.kind == "charliecloud" and (missing := lacks(box.image, places)):
        raise _no_place(box.image, missing, at)
    box = replace(box, mounts={str(place): str(place) for place in places})
    # Every task of an array would have the same name, and two of them may share a node.
    words = _unnamed(way.words(box), box.name)
    kept = str(cache) if there else _OWN_CACHE
    return ContainerCommand(tuple(words), (f"export ASSAY_CACHE={shlex.quote(kept)}", *_prologue(box)))


def _places(folders: Iterable[Path]) -> list[Path]:
    """Folders that are there, without those that lie inside of another."""
    found: list[Path] = []
    for folder in sorted(dict.fromkeys(folders), key=lambda one: len(one.parts)):
        if folder.is_dir() and not any(folder.is_relative_to(other) for other in found):
            found.append(folder)
    return found


def _prologue(box: Container) -> tuple[str, ...]:
    """What a node must have or know before the runtime's line."""
    if box.runtime.kind == "apptainer":
        return tuple(f'export {mark}{name}="${{{name}:-}}"' for name in _PASSED for mark in _INSIDE)
    if box.runtime.kind != "charliecloud":
        return ()
    mounts = (f"mkdir -p -m 700 {shlex.quote(str(mount_point()))}",) if Path(box.image).is_file() else ()
    # ch-run asks for a name that not every batch job has.
    return ('export USER="${USER:-$(id -un)}"', *mounts)


def _no_place(image: str, missing: Sequence[Path], at: str) -> UsageError:
    names = " ".join(str(one) for one in missing)
    made = " ".join(shlex.quote(f"{image}{one}") for one in missing)
    tip = f"mkdir -p {made}" if Path(image).is_dir() else f"make {names} in it before it is packed"
    return UsageError(
        f"the image {image} has no folder {names}, and charliecloud makes none in an image",
        code="container-mount",
        at=at,
        try_=f"{tip}; or use folders below one that it has",
    )


def _unnamed(words: list[str], name: str) -> list[str]:
    place = next((at for at, word in enumerate(words) if word == name), None)
    return (
        [word for word in words if word != f"--name={name}"]
        if place is None
        else words[: place - 1] + words[place + 1 :]
    )
