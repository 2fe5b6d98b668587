"""Whether a cluster can be used from here: Slurm answers, the folder is shared, a node has what jobs need."""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from assay.engines.slurm.folder import locate
from assay.engines.slurm.scheduler import ClusterFacts, Scheduler, failure_of, is_final, scheduler_for, waiting_words
from assay.engines.slurm.script import Script, directives
from assay.errors import AssayError, MeasureError
from assay.files import write_whole
from assay.run.services.containers import RUNTIMES
from assay.spec.benchmark import Needs
from assay.spec.slurm import Slurm, modest

_NODE_TIME_S = 300.0
_POLL_S = 1.0
# Asked of the Python on the node: what it is, and what runs containers there.
_PROBE = """\
import getpass, json, os, platform, shutil, subprocess, sys
os.environ.setdefault("USER", getpass.getuser())  # Charliecloud will not start without it
def version(name):
    try:
        done = subprocess.run([name, "--version"], capture_output=True, text=True, timeout=20)
        return (done.stdout or done.stderr).strip().splitlines()[0]
    except Exception as problem:
        return str(problem)
found = {"name": platform.node(), "python": sys.version.split()[0]}
try:
    import assay
    found["assay"] = assay.__version__
except Exception as problem:
    found["assay"] = "missing: " + str(problem)
for name in sys.argv[2:]:
    if shutil.which(name):
        found[name] = version(name)
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
"""


@dataclass(frozen=True, slots=True)
class SlurmCheck:
    """What was found out about a cluster."""

    facts: ClusterFacts
    reached_by: str
    here: dict[str, str] = field(default_factory=dict)
    """What this machine says: folder, python, runtimes."""
    node: dict[str, str] = field(default_factory=dict)
    """What a compute node says; empty where none was asked."""
    problems: tuple[str, ...] = ()


def check(slurm: Slurm, store: Path, *, on_node: bool = False) -> SlurmCheck:
    """Look whether a cluster can be used.

    Args:
        store: the user's store, in which the shared folder lies by default.
    """
    scheduler = scheduler_for(slurm)
    facts = scheduler.check()
    folder = locate(slurm.folder, store)
    problems = [*_partitions(slurm, facts), *_folder(folder)]
    here = {"shared folder": str(folder), "python": slurm.python or sys.executable, "containers": _runtimes()}
    node: dict[str, str] = {}
    if on_node and not problems:
        try:
            node = _probed_node(slurm, folder, scheduler)
        except AssayError as problem:
            problems.append(problem.problem.message)
        problems += [f"assay on the node is {node['assay']}"] if "missing" in node.get("assay", "") else []
    reached = "the commands of Slurm" if slurm.rest is None else f"slurmrestd at {slurm.rest}"
    return SlurmCheck(facts, reached, here, node, tuple(problems))


def _partitions(slurm: Slurm, facts: ClusterFacts) -> list[str]:
    partitions = {partition.name: partition for partition in facts.partitions}
    wanted = slurm.partition.split(",") if slurm.partition else []
    problems = [
        f"there is no partition {name!r}; there is {', '.join(partitions) or 'none'}"
        for name in wanted
        if name not in partitions
    ]
    limits = [(name, partitions[name].time_limit_s) for name in wanted if name in partitions]
    problems += [
        f"time is above the limit of partition {name}"
        for name, limit in limits
        if limit is not None and slurm.time is not None and slurm.time > limit
    ]
    return problems


def _folder(folder: Path) -> list[str]:
    probe = folder / ".probe"
    try:
        write_whole(probe, b"")
        probe.unlink()
    except OSError as problem:
        return [f"the shared folder {folder} cannot be written: {problem.strerror}; set folder, or ASSAY_SHARED"]
    return []


def _runtimes() -> str:
    from assay.run.services.containers.contract import version

    names = [name for way in RUNTIMES.values() for name in way.programs]
    versions = {name: version(name) for name in names if shutil.which(name)}
    return (
        ", ".join(f"{name} {version}" for name, version in versions.items())
        or f"none here (looked for {', '.join(names)})"
    )


def _probed_node(slurm: Slurm, folder: Path, scheduler: Scheduler) -> dict[str, str]:
    """What a node says, through a batch job that runs a few lines of Python."""
    place = folder / f"check-{time.time_ns():x}"
    place.mkdir(parents=True)
    answer = place / "answer.json"
    (place / "ask.py").write_text(_PROBE, encoding="utf-8")
    names = [name for way in RUNTIMES.values() for name in way.programs]
    batch = modest(slurm).model_copy(update={"time": _NODE_TIME_S})
    script = Script(
        name="assay-check",
        directives=directives(batch, Needs()),
        modules=slurm.modules,
        prologue=slurm.prologue,
        words=[[slurm.python or sys.executable, str(place / "ask.py"), str(answer), *names]],
        output=place / "out",
        error=place / "err",
        work_dir=place,
        about="asks a node what it has",
    )
    (place / "check.sh").write_text(script.text(), encoding="utf-8")
    number = scheduler.submit(place / "check.sh", comment=f"assay:check:{place.name}")
    try:
        _await(scheduler, number, place, answer)
        facts = {name: str(value) for name, value in json.loads(answer.read_bytes()).items()}
    except (OSError, ValueError) as problem:
        message = f"the batch job ran, but its output {answer} is not visible on this machine: {problem}"
        remedy = "name a folder that nodes share: folder, or ASSAY_SHARED"
        raise MeasureError(message, code="shared-folder", try_=remedy) from None
    finally:
        scheduler.cancel([number])
    shutil.rmtree(place, ignore_errors=True)  # kept where something is wrong, so that the cause can be found
    return facts


def _await(scheduler: Scheduler, number: str, place: Path, answer: Path) -> None:
    until_s = time.monotonic() + _NODE_TIME_S
    while not answer.is_file():
        state = scheduler.states([number]).get(number)
        reason = failure_of(state, Slurm()) if state is not None else None
        if reason is not None:
            raise MeasureError(f"{reason.message}; {_last(place / 'err')}", code=reason.code, try_=reason.try_)
        if state is not None and is_final(state.state):
            time.sleep(2 * _POLL_S)  # files of other nodes appear late
            return
        if time.monotonic() > until_s:
            words = waiting_words(state) if state is not None else "Slurm does not say why"
            raise MeasureError(
                f"the batch job {number} did not run within {_NODE_TIME_S:g} s: {words}", code="slurm-waiting"
            )
        time.sleep(_POLL_S)


def _last(path: Path) -> str:
    try:
        return f"it wrote last: {path.read_text(errors='replace')[-500:].strip() or 'nothing'}"
    except OSError:
        return "it wrote nothing"
