"""What is asked of Slurm and what it answers: one set of records, whichever way it is reached."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from assay.spec.secrets import resolve_secrets
from assay.spec.slurm import Slurm

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
    """What Slurm tells about one batch job, or one task of an array. None and "" stand for "not told"."""

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
    """Who told it: squeue, sacct, jobcomp or slurmrestd."""
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
    max_jobs: int | None = None
    """Most jobs that the controller keeps at once."""
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

        Jobs that Slurm does not know (any more) are left out.

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


def scheduler_for(slurm: Slurm) -> Scheduler:
    """Slurm's own commands, or slurmrestd where the section names one.

    Raises:
        MeasureError: if the variable with its token is not set.
    """
    if slurm.rest is None:
        from assay.engines.slurm.commands import CommandLine

        return CommandLine()
    from assay.engines.slurm.rest import Rest

    return Rest(slurm.rest, resolve_secrets(slurm.rest_token) if slurm.rest_token else "")
