"""The job: one point of a benchmark's matrix, for one machine, as engines move it.

Its life cycle is one table of (state, event) → state. Its digest identifies what it measures: same meaning, same
digest, whatever the spelling.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import JsonValue

from assay.errors import AssayError
from assay.spec.benchmark import Definition
from assay.spec.matrix import Point
from assay.spec.paths import FILE_KEYS

State = Literal["pending", "running", "done", "failed", "cancelled", "poisoned"]
Event = Literal["start", "finish", "fail", "cancel", "interrupt", "release", "expire", "poison", "retry"]

TABLE: dict[tuple[State, Event], State] = {
    ("pending", "start"): "running",
    ("pending", "fail"): "failed",  # no machine can run it
    ("pending", "cancel"): "cancelled",
    ("running", "finish"): "done",
    ("running", "fail"): "failed",
    ("running", "cancel"): "cancelled",
    ("running", "interrupt"): "pending",  # its process is gone; finished runs are kept
    ("running", "release"): "pending",  # its agent returned it, through no fault of the job
    ("running", "expire"): "pending",  # the agent's heartbeats stopped; the lease is void and the job is offered again
    ("running", "poison"): "poisoned",  # too many agents were lost while running it
    ("failed", "retry"): "pending",
    ("poisoned", "retry"): "pending",
    ("cancelled", "retry"): "pending",
}

FINAL: frozenset[State] = frozenset({"done", "failed", "cancelled", "poisoned"})

CampaignState = Literal["done", "partial", "failed", "cancelled"]


def campaign_state(counts: Mapping[str, int]) -> CampaignState:
    """The final state of a campaign, from the states of its jobs; the same on every engine."""
    ended = {state for state, jobs in counts.items() if jobs}
    if ended == {"done"}:
        return "done"
    if ended == {"cancelled"}:
        return "cancelled"
    return "partial" if "done" in ended else "failed"


def after(state: State, event: Event) -> State:
    try:
        return TABLE[state, event]
    except KeyError:
        raise AssayError(f"a job that is {state} cannot {event}", code="lifecycle") from None


# Part of every digest: raised when the meaning of the same definition changes.
DIGEST_VERSION = 1


_FORMER_DEFAULTS: Mapping[str, JsonValue] = {"runs": 5, "interval": 0.05}


def _drop_former_defaults(meaning: dict[str, Any]) -> None:
    """Results of files that name what once was a default keep the digest that they had."""
    measure = meaning.pop("measure", {})
    named = {key: value for key, value in measure.items() if _FORMER_DEFAULTS.get(key) != value}
    if named:
        meaning["measure"] = named


def digest_of(definition: Definition, fingerprints: Mapping[str, str]) -> str:
    """Hash what a job measures.

    Defaults (explicit or omitted), key order, unit spelling, file format and machine prices do not count. Files count
    by content, not by path.

    Args:
        fingerprints: text in the definition (a path, a command) → SHA-256 of the content behind it.
    """
    meaning = definition.model_dump(mode="json", exclude_defaults=True)
    meaning.pop("prices", None)
    _drop_former_defaults(meaning)
    meaning["files"] = sorted(set(fingerprints.values()))
    target = meaning.get("target", {})
    if target.get("model") in fingerprints:
        target["model"] = fingerprints[target["model"]]
        target.pop("sha256", None)
    for entry in meaning.get("workload", {}).get("inputs", {}).values():
        if isinstance(entry, dict) and entry.get("file") in fingerprints:
            entry["file"] = fingerprints[entry["file"]]
    for owner in (target, *meaning.get("services", {}).values()):
        for download in owner.get("fetch", ()):
            if download.get("src") in fingerprints:
                download["src"] = fingerprints[download["src"]]
    for key in FILE_KEYS:
        *parts, last = key.split(".")
        section: Any = meaning
        for part in parts:
            section = section.get(part, {})
        if section.get(last) in fingerprints:
            section[last] = fingerprints[section[last]]
    return content_hash({"version": DIGEST_VERSION, "definition": meaning})


def content_hash(value: object) -> str:
    """SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


JOB_SCHEMA = "assay.job/1"


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file that travels with a job: its name without folder, and its content."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Job:
    """One point of the matrix, complete: nothing else is needed to measure it."""

    benchmark: str
    digest: str
    index: int
    definition: Definition
    point: Mapping[str, JsonValue] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    base: str = "."
    """Folder that relative paths of the definition start from."""
    campaign: str = ""
    files: Mapping[str, tuple[JobFile, ...]] = field(default_factory=dict)
    """Text of the definition that names a file → that file and those beside it; empty where they lie here."""
    git: Mapping[str, JsonValue] = field(default_factory=dict)
    """Commit of the folder that its files came from, if another machine measures it."""
    schema: Literal["assay.job/1"] = "assay.job/1"

    @property
    def id(self) -> str:
        """Name of this job inside its campaign's history."""
        return f"{self.campaign or 'adhoc'}-job-{self.index}"


# The key of a point that holds a job's machine, where several share a load.
HOST = "load.host"


def split(definition: Definition, point: Point) -> tuple[tuple[Definition, Point], ...]:
    """The jobs of one point: one, or one for each machine that shares its load."""
    hosts = definition.load.hosts
    if hosts == 1 or definition.load.host is not None:
        return ((definition, point),)
    return tuple((_for_host(definition, host), {**point, HOST: host}) for host in range(hosts))


def is_part(definition: Definition) -> bool:
    """Whether a job drives only its share of a load."""
    return definition.load.hosts > 1 and definition.load.host is not None


def whole(job: Job) -> Job:
    """The job that a part belongs to: the load of all machines together."""
    point = {path: value for path, value in job.point.items() if path != HOST}
    return replace(job, definition=_for_host(job.definition, None), point=point)


def point_key(job: Job) -> str:
    """A hash that the parts of one point share, and no other job has."""
    whole_job = whole(job)
    return content_hash([whole_job.definition.model_dump(mode="json", exclude_defaults=True), dict(whole_job.point)])


def _for_host(definition: Definition, host: int | None) -> Definition:
    return definition.model_copy(update={"load": definition.load.model_copy(update={"host": host})})
