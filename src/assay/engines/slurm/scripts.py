"""The batch scripts of a campaign, some of them around a container, and the order in which Slurm itself keeps them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.engines.slurm.folder import BatchDependency, BatchPlan, SharedFolder
from assay.engines.slurm.node.monitor import END
from assay.engines.slurm.plan import Group
from assay.engines.slurm.scheduler import ClusterFacts
from assay.engines.slurm.script import Script, ScriptCommand, Variable, Word, directives
from assay.errors import UsageError
from assay.folders import cache_folder, images_folder
from assay.run.services.containers import Container, find_runtime, runtime_for
from assay.run.services.containers.runtimes import lacks, mount_point
from assay.spec.benchmark import Needs
from assay.spec.slurm import MONITOR, Batch, Slurm, merged, modest

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
# Enough to write a file and to ask Slurm a few questions.
_END_TIME_S = 600.0
# The monitor outlives what it watches by this much, to write out what it scraped.
_MONITOR_MORE_S = 600.0


@dataclass(frozen=True, slots=True)
class ContainerCommand:
    """How commands are put into a container."""

    around: tuple[str, ...]
    """The runtime's words, with a mark where our program stands; its own words come last."""
    prologue: tuple[str, ...]

    def wrap(self, command: Sequence[Word] | ScriptCommand) -> Sequence[Word] | ScriptCommand:
        """The command inside of the container; of a step, what srun starts."""
        words = command.words if isinstance(command, ScriptCommand) else tuple(command)
        if _TASK not in words:
            return command
        own = next((place for place, word in enumerate(words) if word == "-m"), 1) - 1
        around = (words[own] if word == _HERE else word for word in self.around)
        inside = (*words[:own], *around, *words[own + 1 :])
        return ScriptCommand(inside, command.background) if isinstance(command, ScriptCommand) else inside


def contained(plan: BatchPlan, slurm: Slurm, folder: SharedFolder, base: Path) -> ContainerCommand | None:
    """How an sbatch runs in its container; None where it runs straight on the node."""
    if plan.batch.container is None or plan.role not in ("jobs", "steps"):
        return None
    at = "place.slurm.container"
    runtime = find_runtime(slurm.runtime, at)
    way = runtime_for(runtime)
    plain = Container(
        runtime,
        way.image(plan.batch.container, base, at),
        name=f"assay-{plan.name}",
        tag=f"assay-{plan.name}",
        command=(_HERE,),
        hidden=dict.fromkeys(_PASSED, ""),
        workdir=str(folder.path),
        gpus=plan.batch.gpu_count,
    )
    box = way.fetched(plain, images_folder(), _FETCH_S)
    cache = cache_folder()
    there = cache.is_dir() and (runtime.kind != "charliecloud" or not lacks(box.image, [cache]))
    places = _places([folder.path, base, *([cache] if there else [])])
    if runtime.kind == "charliecloud" and (missing := lacks(box.image, places)):
        names = " ".join(str(path) for path in missing)
        made = " ".join(shlex.quote(f"{box.image}{path}") for path in missing)
        tip = f"mkdir -p {made}" if Path(box.image).is_dir() else f"make {names} in it before it is packed"
        message = f"the image {box.image} has no folder {names}, and charliecloud makes none in an image"
        raise UsageError(message, code="container-mount", at=at, try_=f"{tip}; or use folders below one that it has")
    box = replace(box, mounts={str(place): str(place) for place in places})
    # Every task of an array would have the same name, and two of them may share a node.
    words = _unnamed(way.words(box), box.name)
    cache_path = str(cache) if there else _OWN_CACHE
    return ContainerCommand(tuple(words), (f"export ASSAY_CACHE={shlex.quote(cache_path)}", *_prologue(box)))


def _places(folders: Iterable[Path]) -> list[Path]:
    """Folders that are there, without those that lie inside of another."""
    places: list[Path] = []
    for folder in sorted(dict.fromkeys(folders), key=lambda path: len(path.parts)):
        if folder.is_dir() and not any(folder.is_relative_to(other) for other in places):
            places.append(folder)
    return places


def _prologue(box: Container) -> tuple[str, ...]:
    """What a node must have or know before the runtime's line."""
    if box.runtime.kind == "apptainer":
        return tuple(f'export {mark}{name}="${{{name}:-}}"' for name in _PASSED for mark in _INSIDE)
    if box.runtime.kind != "charliecloud":
        return ()
    mounts = (f"mkdir -p -m 700 {shlex.quote(str(mount_point()))}",) if Path(box.image).is_file() else ()
    # ch-run asks for a name that not every batch job has.
    return ('export USER="${USER:-$(id -un)}"', *mounts)


def _unnamed(words: list[str], name: str) -> list[str]:
    place = next((at for at, word in enumerate(words) if word == name), None)
    return (
        [word for word in words if word != f"--name={name}"]
        if place is None
        else words[: place - 1] + words[place + 1 :]
    )


@dataclass(frozen=True, slots=True)
class ScriptContext:
    """What the scripts of a campaign are made from."""

    campaign: str
    folder: SharedFolder
    slurm: Slurm
    groups: tuple[Group, ...]
    monitored: bool
    base: Path
    """Folder of the benchmark file."""
    facts: ClusterFacts
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that the scripts set."""

    @property
    def python(self) -> str:
        """The Python of the nodes: this one, unless the file names another."""
        return self.slurm.python or sys.executable


def plan_batches(making: ScriptContext) -> tuple[BatchPlan, ...]:
    """Every sbatch of the campaign, each with what it waits for."""
    batches = list(_groups(making))
    if not making.monitored:
        return tuple(batches)
    monitor = BatchPlan(MONITOR, "monitor", MONITOR, monitor_batch(making))
    watched = [replace(batch, after=(*batch.after, BatchDependency("after", (MONITOR,)))) for batch in batches]
    last = tuple(batch.name for batch in batches if batch.role != "service")
    return (
        monitor,
        *watched,
        BatchPlan(END, "end", MONITOR, _end_batch(making), after=(BatchDependency("afterany", last),)),
    )


def monitor_batch(making: ScriptContext) -> Batch:
    """What the monitor asks for: a core for as long as the campaign may take, as far as its partition lets it."""
    own = making.slurm.each.get(MONITOR, Batch())
    batch = merged(modest(making.slurm), own)
    if own.time is not None or batch.time is None:
        return batch
    turns = max(1, len(making.groups))
    wanted = batch.time * turns + _MONITOR_MORE_S
    limit = _limit(making.facts, batch.partition)
    return batch.model_copy(update={"time": wanted if limit is None else max(min(wanted, limit), 60.0)})


def _limit(facts: ClusterFacts, partition: str | None) -> float | None:
    names = partition.split(",") if partition else []
    used = [candidate for candidate in facts.partitions if (candidate.name in names if names else candidate.default)]
    limits = [candidate.time_limit_s for candidate in used if candidate.time_limit_s is not None]
    return min(limits) if limits else None


def _groups(making: ScriptContext) -> Iterator[BatchPlan]:
    last: dict[str, str] = {}
    for group in making.groups:
        before = (BatchDependency("afterany", (last[group.after],)),) if group.after else ()
        if group.kind == "steps":
            yield BatchPlan(group.name, "steps", group.name, _with_needs(group.batch, group.needs), after=before)
            last[group.name] = group.name
            continue
        services = [
            BatchPlan(
                f"{group.name}-{service.name}",
                "service",
                group.name,
                _with_needs(service.batch, service.needs),
                service.name,
                after=before,
            )
            for service in group.services
        ]
        yield from services
        begun = (BatchDependency("after", tuple(batch.name for batch in services)),) if services else ()
        yield BatchPlan(
            group.name,
            "jobs",
            group.name,
            _with_needs(group.batch, group.needs),
            tasks=len(group.jobs),
            after=(*before, *begun),
        )
        last[group.name] = group.name
        if services:
            last[group.name] = f"{group.name}-end"
            yield BatchPlan(
                last[group.name],
                "end",
                group.name,
                _end_batch(making),
                after=(BatchDependency("afterany", (group.name,)),),
            )


def _with_needs(batch: Batch, needs: Needs) -> Batch:
    """The options with what the needs add, to explain a failure with."""
    own = {
        name: value
        for name in ("cpus", "memory", "gpus")
        if getattr(batch, name) is None and (value := getattr(needs, name)) is not None
    }
    return batch.model_copy(update=own)


def _end_batch(making: ScriptContext) -> Batch:
    return modest(making.slurm).model_copy(
        update={"time": _END_TIME_S, "modules": making.slurm.modules, "prologue": making.slurm.prologue}
    )


def script_of(plan: BatchPlan, making: ScriptContext) -> Script:
    array = making_array(plan, making)
    inside = contained(plan, making.slurm, making.folder, making.base)
    words, prologue = _commands(plan, making), plan.batch.prologue
    if inside is not None:
        words, prologue = [inside.wrap(command) for command in words], (*prologue, *inside.prologue)
    needs = Needs()
    if plan.role in ("jobs", "service"):
        needs = _needs(plan, making)
    return Script(
        name=plan.name,
        directives=directives(_for_slurm(plan.batch), needs),
        words=words,
        modules=plan.batch.modules,
        prologue=prologue,
        array=array,
        env=making.env,
        output=making.folder.log_pattern(plan.name, array=array is not None, stream="out"),
        error=making.folder.log_pattern(plan.name, array=array is not None, stream="err"),
        work_dir=making.folder.path,
        about=f"{_ABOUT[plan.role]} of campaign {making.campaign}, group {plan.group}; "
        f"submit it by hand with: sbatch {making.folder.script(plan.name).name}",
    )


_ABOUT = {
    "monitor": "Prometheus",
    "service": "a service",
    "jobs": "the jobs",
    "steps": "services and clients in one allocation",
    "end": "the end of the services",
}


def making_array(plan: BatchPlan, making: ScriptContext) -> str | None:
    """The indexes of an sbatch that is an array."""
    if plan.role != "jobs":
        return None
    return next(group.array for group in making.groups if group.name == plan.group)


def _needs(plan: BatchPlan, making: ScriptContext) -> Needs:
    group = next(group for group in making.groups if group.name == plan.group)
    if plan.role == "jobs":
        return group.needs
    return next(service.needs for service in group.services if service.name == plan.service)


def _for_slurm(batch: Batch) -> Batch:
    """A GPU asked for through `gres` must not be asked for once more because a need was put in."""
    return batch.model_copy(update={"gpus": None}) if batch.gres and isinstance(batch.gpus, int) else batch


def _commands(plan: BatchPlan, making: ScriptContext) -> list[Sequence[Word] | ScriptCommand]:
    where = str(making.folder.path)
    python = [making.python, "-m"]
    if plan.role == "monitor":
        return [[*python, "assay.engines.slurm.node.monitor", where]]
    if plan.role == "end":
        return [[*python, "assay.engines.slurm.node.end", where, plan.group]]
    if plan.role == "service":
        return [[*python, "assay.engines.slurm.node.service", where, plan.group, plan.service]]
    if plan.role == "steps":
        return _steps(plan, making, python, where)
    return [[*python, "assay.engines.slurm.node.task", where, plan.group, Variable("SLURM_ARRAY_TASK_ID")]]


def _steps(
    plan: BatchPlan, making: ScriptContext, python: list[str], where: str
) -> list[Sequence[Word] | ScriptCommand]:
    """Services in the background, each on a node of its own as far as there are enough; then all clients together."""
    group = next(group for group in making.groups if group.name == plan.group)
    nodes = plan.batch.nodes or 1
    held = [
        ScriptCommand(
            (
                *_srun(plan, place % nodes, 1, 1),
                *python,
                "assay.engines.slurm.node.service",
                where,
                group.name,
                service.name,
            ),
            True,
        )
        for place, service in enumerate(group.services)
    ]
    first = len(group.services) if nodes > len(group.services) else 0
    clients = (
        *_srun(plan, first, min(nodes - first, len(group.jobs)), len(group.jobs)),
        "--kill-on-bad-exit=0",
        *python,
        "assay.engines.slurm.node.task",
        where,
        group.name,
    )
    # The services end by themselves once they are asked to; ended by force, they could not tidy up.
    return [*held, clients, (*python, "assay.engines.slurm.node.end", where, group.name), ("wait",)]


def _srun(plan: BatchPlan, first: int, nodes: int, tasks: int) -> tuple[str, ...]:
    cpus = (f"--cpus-per-task={plan.batch.cpus}",) if plan.batch.cpus else ()
    return ("srun", "--overlap", "--mpi=none", f"--relative={first}", f"--nodes={nodes}", f"--ntasks={tasks}", *cpus)


def write_scripts(making: ScriptContext, batches: Sequence[BatchPlan]) -> None:
    for batch in batches:
        making.folder.write_script(batch.name, script_of(batch, making).text())


def variables(lock: str | None, *, control: bool) -> dict[str, str]:
    """What the nodes must know of how `assay run` was called."""
    variables = {"ASSAY_LOCK": lock} if lock else {}
    return variables if control else {**variables, "ASSAY_CONTROL": "off"}
