"""What is asked of Slurm and what it answers: one set of records, whichever way it is reached."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from assay.engines.base import FailureReason as FailureReason
from assay.errors import MeasureError
from assay.spec.references import resolve_secrets
from assay.spec.slurm import Batch, Slurm
from assay.units import show_bytes, show_seconds

Kind = Literal["after", "afterany", "afterok", "afternotok", "aftercorr"]
COMMENT = "assay"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A batch job may begin only after others."""

    kind: Kind
    """`after` waits until they began, the others until they ended."""
    ids: tuple[str, ...]

    def __str__(self) -> str:
        return ":".join((self.kind, *self.ids))


@dataclass(frozen=True, slots=True)
class BatchState:
    """What Slurm reports about one batch job, or one task of an array. None and "" mean unknown."""

    id: str
    """Number of the batch job; of the whole array, for a task."""
    task: int | None
    """Index in its array."""
    name: str
    state: str
    """Slurm's own word, such as PENDING or OUT_OF_MEMORY."""
    reason: str = ""
    """Why it waits or why it ended, in Slurm's word."""
    node: str = ""
    """Nodes it runs or ran on, as Slurm writes lists."""
    exit_code: int | None = None
    signal: int | None = None
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    estimated_start: datetime | None = None
    elapsed_s: float | None = None
    time_limit_s: float | None = None
    """None also where there is no limit."""
    requeues: int | None = None
    """How often it was put back into the queue."""
    memory_max_bytes: int | None = None
    """The most memory that one of its tasks was seen to use."""
    comment: str = ""
    work_dir: str = ""
    partition: str = ""
    source: str = ""
    """Where it comes from: squeue, sacct, jobcomp or slurmrestd."""
    raw: str = ""
    """Number of this very task: accounting that does not know arrays knows it by this."""

    @property
    def key(self) -> str:
        """`17` or `17_3`: what Slurm's commands take."""
        return self.id if self.task is None else f"{self.id}_{self.task}"


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a cluster."""

    name: str
    default: bool
    up: bool
    time_limit_s: float | None
    """None where there is no limit."""
    nodes: int
    idle: int
    cpus_per_node: int | None
    memory_per_node_bytes: int | None
    gres: tuple[str, ...]
    """Generic resources of its nodes, such as `gpu:h200:2`."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What a cluster says about itself."""

    version: str
    name: str
    partitions: tuple[Partition, ...]
    accounting: str
    """How ended jobs are asked for: `sacct`, `jobcomp`, `slurmdbd`, or "" where nothing remembers them."""
    why_no_accounting: str = ""
    max_array: int | None = None
    """Most tasks of one array."""
    kept_s: float | None = None
    """How long the controller itself remembers an ended job."""


class Scheduler(Protocol):
    """A way to reach Slurm."""

    def submit(self, script: Path, *, after: Sequence[Dependency] = (), comment: str) -> str:
        """Hand over a batch script and return the number of its job.

        Raises:
            MeasureError: if Slurm refuses it or does not answer, with its own words.
        """
        ...

    def states(self, ids: Collection[str]) -> Mapping[str, BatchState]:
        """What Slurm tells about jobs, by their key: `17`, and `17_0`, `17_1`… for the tasks of an array.

        Jobs that Slurm does not know, or no longer, are left out.

        Raises:
            MeasureError: if Slurm does not answer.
        """
        ...

    def find(self, comment_prefix: str, *, work_dir: Path | None = None) -> tuple[BatchState, ...]:
        """Jobs of this user whose comment begins with a text, ended ones too where Slurm remembers them.

        Args:
            work_dir: working folder of the jobs, by which those are found whose comment accounting did not keep.

        Raises:
            MeasureError: if Slurm does not answer.
        """
        ...

    def cancel(self, ids: Collection[str]) -> None:
        """End jobs, running or waiting; those that ended before are left alone.

        Raises:
            MeasureError: if Slurm does not answer, or will not.
        """
        ...

    def check(self) -> ClusterFacts:
        """Ask the cluster what it is.

        Raises:
            MeasureError: if it does not answer.
        """
        ...


def comment_of(campaign: str, name: str) -> str:
    """The comment that every batch job of a campaign carries, so that it is found without its number."""
    return f"{COMMENT}:{campaign}:{name}"


def named_in(comment: str, campaign: str) -> str | None:
    """The name inside a comment of a campaign's job; None for the jobs of others."""
    prefix = comment_of(campaign, "")
    return comment.removeprefix(prefix) if comment.startswith(prefix) else None


def taken_as(scheduler: Scheduler, comment: str, problem: MeasureError) -> str:
    """The number of a job that Slurm may have taken although it did not answer."""
    if problem.problem.code != "slurm-silent":
        raise problem
    try:
        taken = {state.id for state in scheduler.find(comment) if state.comment == comment}
    except MeasureError:
        raise problem from None
    if len(taken) != 1:
        raise problem
    return taken.pop()


def read_script(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        message = f"cannot read the batch script: {problem.strerror}"
        raise MeasureError(message, code="no-file", at=str(path)) from None


def scheduler_for(slurm: Slurm) -> Scheduler:
    """Slurm's own commands, or slurmrestd where the section names one."""
    if slurm.rest is None:
        from assay.engines.slurm.commands import CommandLine

        return CommandLine()
    from assay.engines.slurm.rest import Rest

    return Rest(slurm.rest, resolve_secrets(slurm.rest_token) if slurm.rest_token else "")


FINAL = frozenset(
    ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
     "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT")
)  # fmt: skip
# Waiting, or soon to wait again.
WAITING = frozenset(("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"))
# What slurmstepd writes into a job's log when it ends it for its memory; sites without cgroups tell it nowhere else.
_MEMORY = re.compile(r"oom[-_]kill|exceeded (job |step )?memory limit|out of memory handler", re.IGNORECASE)
_HELD = frozenset(("JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue"))
# Exit status that Slurm itself gives a job that the kernel ended for its memory.
_MEMORY_SIGNAL = 125


# Reason of a waiting job → what it means, and whether it can ever go away by itself.
_REASONS: dict[str, str] = {
    "": "Slurm has not reported a reason yet",
    "None": "not looked at yet",
    "Resources": "its resources are busy",
    "Priority": "others come first",
    "Dependency": "another job must end first",
    "BeginTime": "its time has not come yet",
    "JobArrayTaskLimit": "as many tasks of its array run as may (place.slurm.at_once)",
    "Licenses": "a licence is missing",
    "ReqNodeNotAvail": "a node that it needs is down, drained or reserved",
    "Reservation": "its reservation has not begun",
    "Prolog": "its node is being prepared",
    "NodeDown": "a node that it needs is down",
    "PartitionDown": "its partition is closed",
    "PartitionInactive": "its partition takes no jobs now",
    "Cleaning": "its last life is being cleaned up",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its quality of service is not valid",
    "QOSMaxJobsPerUserLimit": "as many of your jobs run as its quality of service allows",
    "QOSMaxCpuPerUserLimit": "your jobs use as many processors as its quality of service allows",
    "QOSMaxGRESPerUser": "your jobs use as many GPUs as its quality of service allows",
    "AssocGrpCpuLimit": "your group uses as many processors as it may",
    "AssocGrpGRES": "your group uses as many GPUs as it may",
    "AssocGrpNodeLimit": "your group uses as many nodes as it may",
    "AssocGrpBillingMinutes": "the account has used up its hours",
    "AssocGrpCPUMinutesLimit": "the account has used up its hours",
    "AssocMaxJobsLimit": "as many of your jobs run as the account allows",
    "JobHeldUser": "it was put on hold",
    "JobHeldAdmin": "an administrator put it on hold",
    "DependencyNeverSatisfied": "a job that it depends on failed",
}
# Reasons that last until the file changes → what to change.
_NEVER: dict[str, str] = {
    "PartitionTimeLimit": "lower place.slurm.time, or use a partition with a longer limit",
    "PartitionNodeLimit": "lower place.slurm.nodes, or use another partition",
    "BadConstraints": "change place.slurm.constraint, nodes, cpus, memory or gpus: no node has all of it",
    "InvalidAccount": "change place.slurm.account",
    "InvalidQOS": "change place.slurm.qos",
    "QOSNotAllowed": "change place.slurm.qos or place.slurm.partition: they do not go together",
    "AccountNotAllowed": "change place.slurm.account or place.slurm.partition: they do not go together",
    "QOSMaxWallDurationPerJobLimit": "lower place.slurm.time, or use another place.slurm.qos",
    "AssocMaxWallDurationPerJobLimit": "lower place.slurm.time",
    "QOSMaxCpuPerJobLimit": "lower place.slurm.cpus or tasks",
    "QOSMaxNodePerJobLimit": "lower place.slurm.nodes",
    "QOSMaxGRESPerJob": "lower place.slurm.gpus",
    "QOSMaxMemoryPerJob": "lower place.slurm.memory",
    "QOSMinGRES": "ask for a GPU with place.slurm.gpus",
}


def is_final(state: str) -> bool:
    """Whether a job in this state has ended for good."""
    return state in FINAL


def failure_of(state: BatchState, batch: Batch, log: str = "") -> FailureReason | None:
    """Why a job gave no result; None while it may still give one, and where Slurm saw nothing wrong.

    Args:
        log: the end of what it wrote; some sites tell only there that its memory ran out.
    """
    if state.state in WAITING:
        return _never_runs(state)
    if not is_final(state.state) or (state.state == "COMPLETED" and not state.exit_code):
        return None
    if state.state == "OUT_OF_MEMORY" or _was_memory(state, log):
        return _out_of_memory(state, batch)
    # A job whose dependency can never hold is cancelled by Slurm itself.
    if state.state == "CANCELLED" and state.reason.startswith("Dependency"):
        return _dependency(state)
    return _FAILURES.get(state.state, _failed)(state, batch)


def forgotten(key: str) -> FailureReason:
    """A job that Slurm no longer knows, and that left no result."""
    message = f"the batch job {key} left no result, and Slurm does not remember how it ended"
    remedy = "look into its log with `assay logs`; a cluster with accounting (sacct) would report it"
    return FailureReason("slurm-forgotten", message, remedy)


def waiting_words(state: BatchState, now: datetime | None = None) -> str:
    """Why a job waits, and when Slurm means to start it.

    Args:
        now: the present, for an estimate in words; the moment itself when left out.
    """
    reason = state.reason.partition(",")[0]
    why = _REASONS.get(reason) or _NEVER.get(reason) or "for a reason of its own"
    words = f"waiting: {why}" + (f" ({state.reason})" if state.reason and state.reason != "None" else "")
    return f"{words}; {_estimate(state.estimated_start, now)}"


def _estimate(start: datetime | None, now: datetime | None) -> str:
    if start is None:
        return "no estimate of its start yet"
    if now is None:
        return f"Slurm means to start it at {start:%Y-%m-%d %H:%M} UTC"
    ahead_s = (start - now).total_seconds()
    return "Slurm means to start it now" if ahead_s < 1 else f"Slurm means to start it in {show_seconds(ahead_s)}"


def _never_runs(state: BatchState) -> FailureReason | None:
    reason = state.reason.partition(",")[0]
    if reason in _HELD or "held state" in state.reason or state.state in ("REQUEUE_HOLD", "SPECIAL_EXIT"):
        who = "an administrator" if reason == "JobHeldAdmin" else "you or Slurm"
        return FailureReason(
            "slurm-held",
            f"the batch job {state.key} is on hold by {who} ({state.reason or state.state})",
            "ask the administrators of the cluster" if reason == "JobHeldAdmin" else f"scontrol release {state.key}",
        )
    if reason == "DependencyNeverSatisfied":
        return _dependency(state)
    if reason in _NEVER:
        message = f"the batch job {state.key} can never run as it was asked for ({state.reason})"
        return FailureReason("slurm-impossible", message, _NEVER[reason])
    return None


def _was_memory(state: BatchState, log: str) -> bool:
    killed = state.signal in (9, _MEMORY_SIGNAL)
    return state.state in ("FAILED", "CANCELLED") and (
        state.signal == _MEMORY_SIGNAL or (killed and bool(_MEMORY.search(log)))
    )


def _out_of_memory(state: BatchState, batch: Batch) -> FailureReason:
    limit = "the partition's default" if batch.memory is None else show_bytes(batch.memory)
    # Slurm looks at intervals: what it saw long before the end would mislead.
    near = batch.memory is not None and (state.memory_max_bytes or 0) > batch.memory / 2
    used = f"; it was last seen with {show_bytes(state.memory_max_bytes or 0)}" if near else ""
    return FailureReason(
        "slurm-oom",
        f"the batch job {state.key} was ended{_where(state)} because its memory ran out: {limit} was asked for{used}",
        "raise place.slurm.memory (or needs.memory), or measure something smaller",
    )


def _timeout(state: BatchState, batch: Batch) -> FailureReason:
    limit_s = state.time_limit_s or batch.time
    limit = "its time limit" if limit_s is None else f"its time limit of {show_seconds(limit_s)}"
    given = "" if batch.time is not None else ", which is the partition's own"
    message = f"the batch job {state.key} was ended{_where(state)} at {limit}{given}"
    return FailureReason("slurm-timeout", message, "raise place.slurm.time, or lower measure.runs or measure.timeout")


def _node_fail(state: BatchState, _asked: Batch) -> FailureReason:
    node = state.node or "its node"
    return FailureReason(
        "slurm-node-fail",
        f"the batch job {state.key} was lost because {node} failed",
        f"run it again; if {node} fails again, leave it out with place.slurm.options: "
        f"['--exclude={state.node or 'NODE'}'] and tell the administrators",
    )


def _preempted(state: BatchState, batch: Batch) -> FailureReason:
    partition = state.partition or batch.partition or "its partition"
    return FailureReason(
        "slurm-preempted",
        f"the batch job {state.key} was preempted by a higher-priority job in {partition}{_times(state)}",
        "run it again, or use a partition or quality of service (place.slurm.partition, qos) that is not preempted; "
        "--requeue under place.slurm.options puts it back into the queue by itself",
    )


def _cancelled(state: BatchState, _asked: Batch) -> FailureReason:
    who = f" ({state.reason})" if state.reason and state.reason != "None" else ""
    # A job that never began has no node; one that ran for less than a second has one, and an elapsed time of 0.
    never = state.started_at is None or (not state.elapsed_s and not state.node)
    when = "before it began" if never else f"after {_elapsed(state)}"
    message = f"the batch job {state.key} was cancelled {when}{who}"
    return FailureReason("slurm-cancelled", message, "run the campaign again: what was measured is kept")


def _dependency(state: BatchState) -> FailureReason:
    message = f"the batch job {state.key} was not run because a job that it depends on failed ({state.reason})"
    remedy = "look at the state of the services and the monitor that it waited for, with `assay logs`"
    return FailureReason("slurm-dependency", message, remedy)


def _deadline(state: BatchState, _asked: Batch) -> FailureReason:
    message = f"the batch job {state.key} could not end before its deadline, so Slurm ended it"
    remedy = "move or remove --deadline under place.slurm.options, or lower place.slurm.time"
    return FailureReason("slurm-deadline", message, remedy)


def _boot_fail(state: BatchState, _asked: Batch) -> FailureReason:
    return FailureReason(
        "slurm-boot-fail",
        f"the batch job {state.key} was not run because {state.node or 'its node'} did not start"
        + (f" ({state.reason})" if state.reason else ""),
        "run it again; if it happens again, tell the administrators",
    )


def _failed(state: BatchState, _asked: Batch) -> FailureReason:
    how = f"signal {state.signal}" if state.signal else f"exit code {state.exit_code}"
    ending = "" if state.exit_code is None and state.signal is None else f" with {how}"
    reason = f" ({state.reason})" if state.reason and state.reason not in ("None", "NonZeroExitCode") else ""
    word = "ended" if state.state == "COMPLETED" else f"is {state.state}"
    remedy = "look into its log with `assay logs`; a module or a line of the prologue may have failed on the node"
    return FailureReason("slurm-failed", f"the batch job {state.key} {word}{_where(state)}{ending}{reason}", remedy)


def _where(state: BatchState) -> str:
    return f" on {state.node}" if state.node else ""


def _times(state: BatchState) -> str:
    return f", after it had been put back {state.requeues} times" if state.requeues else ""


def _elapsed(state: BatchState) -> str:
    return "an unknown time" if state.elapsed_s is None else show_seconds(state.elapsed_s)


_FAILURES = {
    "TIMEOUT": _timeout,
    "NODE_FAIL": _node_fail,
    "PREEMPTED": _preempted,
    "CANCELLED": _cancelled,
    "REVOKED": _cancelled,
    "DEADLINE": _deadline,
    "BOOT_FAIL": _boot_fail,
    "RECONFIG_FAIL": _boot_fail,
}
