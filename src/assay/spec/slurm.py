"""The section for batch clusters: how jobs, services and clients are handed to Slurm."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeVar
from unicodedata import category

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator

from assay.spec.references import REFERENCE
from assay.spec.section import Duration, Section, Size, section_of

# The options of sbatch that assay writes itself: given again, they would break how jobs are followed and collected.
OWN_OPTIONS = frozenset(
    ("array", "a", "dependency", "d", "comment", "job-name", "J", "output", "o", "error", "e", "parsable", "wrap",
     "wait", "W", "test-only", "chdir", "D", "input", "i", "open-mode", "export", "export-file", "quiet", "Q", "help",
     "h", "usage", "version", "V", "clusters", "M", "hold", "H", "ignore-pbs")
)  # fmt: skip
# The keys of a section that say the same as an option, so that one of them would be overlooked.
_KEYS = {
    "partition": "partition", "p": "partition", "account": "account", "A": "account", "qos": "qos", "q": "qos",
    "time": "time", "t": "time", "nodes": "nodes", "N": "nodes", "ntasks": "tasks", "n": "tasks",
    "cpus-per-task": "cpus", "c": "cpus", "mem": "memory", "gres": "gres", "constraint": "constraint",
    "C": "constraint", "exclusive": "exclusive", "reservation": "reservation", "gpus": "gpus", "G": "gpus",
    "gpus-per-node": "gpus",
}  # fmt: skip
_OPTION = re.compile(r"^--?([A-Za-z][A-Za-z0-9-]*)(?:[= ].*)?$")
_GPUS = re.compile(r"^(?:(?P<model>[A-Za-z0-9_.-]+):)?(?P<count>\d+)$")
# The batch jobs that assay starts beside the services, which can have no such names.
MONITOR = "monitor"
RESERVED = frozenset((MONITOR, "clients", "end"))
# The fields that say how much of a machine a job gets, as against where it runs and who pays.
RESOURCES = ("nodes", "tasks", "cpus", "memory", "gpus", "gres", "constraint", "exclusive", "container", "options")


def unwritable(text: str) -> str:
    """The first character of a text that no line of a batch script can carry; empty where all can stand there."""
    return next((char for char in text if char != "\t" and category(char) in ("Cc", "Cs", "Zl", "Zp")), "")


def _one_line(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty; write a value, or leave the key out")
    if odd := unwritable(text):
        raise ValueError(f"{text!r} has the character {odd!r}, which cannot stand in a batch script; write one line")
    return text


Line = Annotated[str, AfterValidator(_one_line)]


class Batch(Section):
    """Options of one batch job."""

    partition: Line | None = None
    """Partition to submit to; several by comma."""
    account: Line | None = None
    """Account to charge."""
    qos: Line | None = None
    """Quality of service."""
    time: Annotated[Duration, Field(gt=0)] | None = None
    """Wall-time limit of a batch job; Slurm rounds it up to minutes. The partition's own when left out."""
    nodes: int | None = Field(default=None, ge=1)
    """Nodes of one batch job."""
    tasks: int | None = Field(default=None, ge=1)
    """Tasks of one batch job."""
    cpus: int | None = Field(default=None, ge=1)
    """Processors of each task; from `needs.cpus` when left out."""
    memory: Annotated[Size, Field(gt=0)] | None = None
    """Memory on each node; from `needs.memory` when left out."""
    gpus: Annotated[int, Field(ge=0)] | Line | None = None
    """GPUs on each node: a number, or a model and a number such as `h200:2`; from `needs.gpus` when left out."""
    gres: Line | None = None
    """Other generic resources on each node, such as `shard:1`."""
    constraint: Line | None = None
    """Features that the nodes must have."""
    exclusive: bool | None = None
    """Whether the job gets its nodes for itself."""
    reservation: Line | None = None
    """Reservation to use."""
    modules: tuple[Line, ...] = ()
    """Modules to load first, such as `CUDA/12.4`."""
    prologue: tuple[Line, ...] = ()
    """Shell lines to run first, after the modules; the job fails with the first that fails."""
    container: Line | None = None
    """Image in which the job itself runs; straight on the node when left out."""
    options: tuple[Line, ...] = ()
    """Further options of sbatch, such as `--mail-type=END`."""

    @field_validator("gpus")
    @classmethod
    def _counts_gpus(cls, value: int | str | None) -> int | str | None:
        if isinstance(value, str) and not _GPUS.fullmatch(value):
            raise ValueError(f"{value!r} is no number of GPUs; write 2, or a model and a number such as h200:2")
        return value

    @field_validator("options")
    @classmethod
    def _are_options(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            match = _OPTION.fullmatch(text)
            if match is None:
                raise ValueError(f"{text!r} is no option of sbatch; write for example --mail-type=END")
            if match[1] in OWN_OPTIONS:
                raise ValueError(f"{text!r} is set by assay itself; remove it")
            if match[1] in _KEYS:
                raise ValueError(f"{text!r} has a key of its own: {_KEYS[match[1]]}; use that")
        return value

    @model_validator(mode="after")
    def _one_gpu_request(self) -> Batch:
        if self.gpus is not None and self.gres and re.search(r"(^|,)\s*(gres[/:])?gpu([:,=]|$)", self.gres):
            raise ValueError(
                f"gpus is {self.gpus!r} and gres is {self.gres!r}, which asks for GPUs too; keep one of them"
            )
        return self

    @property
    def gpu_count(self) -> int | None:
        """How many GPUs each node must have; None where the section does not say."""
        if isinstance(self.gpus, str):
            match = _GPUS.fullmatch(self.gpus)
            return None if match is None else int(match["count"])
        return self.gpus


class Clients(Batch):
    """Client jobs that drive the load together, each with resources of its own."""

    count: int = Field(default=1, ge=1, le=64)
    """How many."""


class Slurm(Batch):
    """Where and how batch jobs run on a Slurm cluster."""

    folder: Line | None = None
    """Folder that login node and compute nodes share; from ASSAY_SHARED, else inside the store, when left out."""
    python: Line | None = None
    """Python with assay on the compute nodes; the one of the login node when left out."""
    services: Literal["jobs", "steps", "node"] = "jobs"
    """Whether services are batch jobs of their own, steps of one allocation with the clients, or processes beside the
    client on its node."""
    clients: Annotated[int, Field(ge=1, le=64)] | Clients | None = None
    """Client jobs that drive the load together: how many, or a section with their resources; sets `load.hosts`."""
    each: dict[str, Batch] = {}
    """Options for one service by its name, or for `monitor`; what is left out comes from this section."""
    at_once: int | None = Field(default=None, ge=1)
    """How many jobs of an array may run at the same time; as many as the cluster allows when left out."""
    parallel: bool = False
    """Whether points with services run beside each other; one after another when left out."""
    cluster: Line | None = None
    """Name of a cluster from `assay clusters add`, whose settings hold where this section is silent."""
    rest: Line | None = None
    """URL of slurmrestd, such as `http://slurm:6820` or `unix:/run/slurmrestd.sock`; the commands of Slurm when left
    out."""
    rest_token: Line | None = None
    """Token for slurmrestd, as `${env:SLURM_JWT}`."""
    runtime: Literal["auto", "apptainer", "podman", "charliecloud", "docker"] = "auto"
    """What runs the images on the nodes; whichever is there when left out."""
    node_exporter: int | None = Field(default=None, ge=1, le=65_535)
    """Port of a node exporter that already runs on the nodes; assay starts its own when left out."""

    @property
    def client_count(self) -> int | None:
        """How many client jobs share a load; None where the section does not say."""
        return self.clients.count if isinstance(self.clients, Clients) else self.clients

    @property
    def has_open_token(self) -> bool:
        """Whether the token itself stands in the file, and not a reference to it."""
        return self.rest_token is not None and REFERENCE.fullmatch(self.rest_token) is None

    @field_validator("rest")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"^(https?://[^/\s]+|unix:/)", value):
            raise ValueError(f"{value!r} is no address of slurmrestd; write http://HOST:6820 or unix:/PATH")
        return value


B = TypeVar("B", bound=Batch)


def merged(base: Batch, own: B) -> B:
    """The options of one job: its own, and those of the section around it where it is silent.

    Args:
        base: the section around it, such as `place.slurm` or a cluster's settings.
        own: what the job says itself.
    """
    own_keys = {name for name in own.model_fields_set if getattr(own, name) is not None}
    taken = {name: getattr(base, name) for name in base.model_fields_set if name not in own_keys}
    shared = {name: value for name, value in taken.items() if name in type(own).model_fields and value is not None}
    if {"gpus", "gres"} & own_keys:  # both name GPUs: what a job says of one replaces both
        shared = {name: value for name, value in shared.items() if name not in ("gpus", "gres")}
    return own.model_copy(update=shared)


def modest(base: Batch) -> Batch:
    """The same place and account without the resources: for jobs that only watch, wait or tidy up."""
    taken = {name: getattr(base, name) for name in Batch.model_fields if name not in RESOURCES}
    return Batch().model_copy(update={name: value for name, value in taken.items() if value not in (None, ())})


def with_clients(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A benchmark document whose clients on a cluster are written out as `load.hosts`, where nothing says otherwise."""
    engine = section_of(document, "place").get("engine")
    clients = section_of(document, "place", str(engine)).get("clients") if engine in ("slurm", "kubernetes") else None
    count = clients.get("count", 1) if isinstance(clients, dict) else clients
    load = document.get("load", {})
    if not isinstance(count, int) or isinstance(count, bool) or not isinstance(load, dict) or "hosts" in load:
        return document
    return {**document, "load": {**load, "hosts": count}} if count > 1 else document
