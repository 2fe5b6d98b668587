"""A batch job that runs in a container: its command line around ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.cluster.document import Planned
from assay.folders import cache_folder, images_folder
from assay.place.engines.slurm.folder import Folder
from assay.place.engines.slurm.script import Command, Word
from assay.run.services.containers import Box, find_runtime, way_of
from assay.spec.clusters import Slurm

# What a process on a node must know of the job that it is in.
_PASSED = ("SLURM_JOB_ID", "SLURMD_NODENAME", "SLURM_SUBMIT_HOST", "SLURM_PROCID", "SLURM_CONF", "SLURM_RESTART_COUNT",
           "ASSAY_LOCK", "ASSAY_CONTROL", "ASSAY_RUNTIME", "ASSAY_CACHE", "ASSAY_IMAGES",
           "ASSAY_NODE_ADDRESS")  # fmt: skip
_INSIDE = ("APPTAINERENV_", "SINGULARITYENV_")
# Only this runs inside: the others talk to Slurm, or start containers themselves.
_TASK = "assay.node.task"
# The time that fetching an image may take.
_FETCH_S = 3600.0
# Stands for our own command while the runtime writes its line.
_HERE = "@command@"


@dataclass(frozen=True, slots=True)
class Contained:
    """How commands are put into a container."""

    before: tuple[str, ...]
    prologue: tuple[str, ...]

    def wrap(self, command: Sequence[Word] | Command) -> Sequence[Word] | Command:
        """The command inside of the container; of a step, what srun starts."""
        words = command.words if isinstance(command, Command) else tuple(command)
        if _TASK not in words:
            return command
        own = next((place for place, word in enumerate(words) if word == "-m"), 1) - 1
        inside = (*words[:own], *self.before, *words[own:])
        return Command(inside, command.background) if isinstance(command, Command) else inside


def contained(one: Planned, slurm: Slurm, folder: Folder, base: Path) -> Contained | None:
    """How an sbatch runs in its container; None where it runs straight on the node.

    Raises:
        UsageError: if nothing here runs containers, or the image is not there.
    """
    if one.batch.container is None or one.role not in ("jobs", "steps"):
        return None
    at = "place.slurm.container"
    runtime = find_runtime(slurm.runtime, at)
    way = way_of(runtime)
    places = [folder.path, base, cache_folder(), images_folder()]
    box = Box(
        runtime,
        way.image(one.batch.container, base, at),
        name=f"assay-{one.name}",
        tag=f"assay-{one.name}",
        command=(_HERE,),
        hidden=dict.fromkeys(_PASSED, ""),
        mounts={str(place): str(place) for place in places if place.is_dir()},
        workdir=str(folder.path),
        gpus=one.batch.gpu_count,
    )
    # Every task of an array would have the same name, and two of them may share a node.
    words = _unnamed(way.words(way.fetched(box, images_folder(), _FETCH_S)), box.name)
    exports = [f'export {mark}{name}="${{{name}:-}}"' for name in _PASSED for mark in _INSIDE]
    return Contained(tuple(words[: words.index(_HERE)]), tuple(exports) if runtime.kind == "apptainer" else ())


def _unnamed(words: list[str], name: str) -> list[str]:
    place = next((at for at, word in enumerate(words) if word == name), None)
    return (
        [word for word in words if word != f"--name={name}"]
        if place is None
        else words[: place - 1] + words[place + 1 :]
    )
