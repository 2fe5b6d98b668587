"""What of the machine this process may use: its CPUs by affinity, cpuset and quota, its memory by its cgroups."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from assay.hardware.components import Mount, mounts
from assay.hardware.source import Facts, FactSource, cpu_set

_DEFAULT = "/sys/fs/cgroup"
# The kernel's word for "no limit" in version 1 is the largest whole number of pages, which depends on their size.
_NO_LIMIT = 2**62
# Marks that container engines leave themselves.
_FILES = (
    ("podman", "/run/.containerenv"), ("docker", "/.dockerenv"), ("apptainer", "/.singularity.d"),
    ("kubernetes", "/var/run/secrets/kubernetes.io/serviceaccount"),
    ("kubernetes", "/run/secrets/kubernetes.io/serviceaccount"), ("lxc", "/dev/.lxc"), ("lxc", "/dev/lxd/sock"),
)  # fmt: skip
_VARIABLES = (
    ("apptainer", "APPTAINER_CONTAINER"), ("apptainer", "SINGULARITY_CONTAINER"),
    ("kubernetes", "KUBERNETES_SERVICE_HOST"),
)  # fmt: skip
# Whole names: `docker.service` is the engine itself, which runs outside of its containers.
_CGROUPS = (
    ("kubernetes", re.compile(r"kubepods(?:[-.].*)?")),
    ("docker", re.compile(r"docker(?:-.+\.scope)?")),
    ("podman", re.compile(r"libpod-.+")),
    ("lxc", re.compile(r"lxc(?:\.payload.*)?")),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit and the file that sets it."""

    value: float
    file: str


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What this process may use; None where nothing limits it."""

    version: str | None  # of the cgroups: "v1", "v2", "v1 and v2"
    affinity: int | None
    cpuset: Bound | None
    quota: Bound | None  # cores, may be a fraction
    memory: Bound | None  # bytes

    @property
    def usable_cores(self) -> int | None:
        """Cores that can be busy at the same time: the least of affinity, cpuset and quota, rounded up."""
        bounds = [self.affinity] if self.affinity is not None else []
        bounds += [int(self.cpuset.value)] if self.cpuset else []
        bounds += [math.ceil(self.quota.value)] if self.quota else []
        return max(1, min(bounds)) if bounds else None

    def record(self) -> Facts:
        facts: dict[str, JsonValue | None] = {
            "usable_cores": self.usable_cores,
            "affinity_cores": self.affinity,
            "cgroups": self.version,
        }
        for name, bound in (("cpuset_cores", self.cpuset), ("quota_cores", self.quota), ("memory_bytes", self.memory)):
            if bound is not None:
                facts[name] = bound.value if name == "quota_cores" else int(bound.value)
                facts[f"{name.partition('_')[0]}_set_by"] = bound.file
        return {name: value for name, value in facts.items() if value is not None}


def limits(source: FactSource) -> ProcessLimits:
    """The limits of this process, over all its cgroups and all their parents."""
    if source.system != "linux":
        source.lack("limits", f"{source.system} has no cgroups")
        return ProcessLimits(None, None, None, None, None)
    folders = _hierarchies(source)
    versions = sorted({version for version, _, _ in folders})
    if not folders:
        source.lack("limits.cgroups", "no cgroup file system is mounted")
    quotas = [quota for version, names, steps in folders if "cpu" in names for quota in _quotas(source, version, steps)]
    memory = [
        limit for version, names, steps in folders if "memory" in names for limit in _memory(source, version, steps)
    ]
    cpusets = [cpuset for _, names, steps in folders if "cpuset" in names for cpuset in _cpusets(source, steps)]
    return ProcessLimits(
        version=" and ".join(versions) or None,
        affinity=_affinity(source),
        cpuset=_least(cpusets),
        quota=_least(quotas),
        memory=_least(memory),
    )


def container(source: FactSource) -> Facts:
    """The container engines whose marks are here, each with its mark; empty outside of containers."""
    marks: dict[str, JsonValue] = {}
    for kind, path in _FILES:
        if source.exists(path):
            marks.setdefault(kind, path)
    for kind, variable in _VARIABLES:
        if source.environ.get(variable):
            marks.setdefault(kind, f"the variable {variable}")
    for named, mark in (
        (source.environ.get("container", ""), "the variable container"),
        (source.text("/run/systemd/container"), "/run/systemd/container"),
    ):
        if named and named != "oci":  # which engines of several kinds write
            marks.setdefault(named, mark)
    for kind, name in _CGROUPS:
        if any(name.fullmatch(part) for _, _, path in _memberships(source) for part in path.split("/")):
            marks.setdefault(kind, "/proc/self/cgroup")
    return marks


def parse_quota(text: str) -> float | None:
    """Cores of a `cpu.max` line such as `200000 100000`; None for `max`."""
    words = text.split()
    if len(words) not in (1, 2):
        raise ValueError(f"{text[:40]!r} is no quota")
    if words[0] == "max":
        return None
    quota, period = int(words[0]), int(words[1]) if len(words) == 2 else 100_000
    if quota <= 0 or period <= 0:
        raise ValueError(f"{text[:40]!r} is no quota")
    return quota / period


def _memberships(source: FactSource) -> Iterator[tuple[str, frozenset[str], str]]:
    """The cgroups of this process: version, controllers and path."""
    for line in source.text("/proc/self/cgroup").splitlines():
        number, colon, rest = line.partition(":")
        names, second, path = rest.partition(":")
        if colon and second and path.startswith("/"):
            yield ("v2" if number == "0" and not names else "v1"), frozenset(names.split(",")), path


def _hierarchies(source: FactSource) -> list[tuple[str, frozenset[str], list[str]]]:
    """Each hierarchy with the folders to ask, from the process's own cgroup up to the top that can be seen."""
    table = [row for row in mounts(source) if row.kind in ("cgroup", "cgroup2")]
    hierarchies = []
    for version, names, path in _memberships(source):
        mount = _mount(table, version, names) or _unlisted(source, version, names)
        if mount is None:
            continue
        held = names if version == "v1" else frozenset(("cpu", "cpuset", "memory"))
        hierarchies.append((version, held, _steps(source, mount, path)))
    return hierarchies


def _mount(table: Iterable[Mount], version: str, names: frozenset[str]) -> Mount | None:
    if version == "v2":
        return next((mount for mount in table if mount.kind == "cgroup2"), None)
    return next((mount for mount in table if mount.kind == "cgroup" and names <= {*mount.options.split(",")}), None)


def _unlisted(source: FactSource, version: str, names: frozenset[str]) -> Mount | None:
    """Where cgroups are by custom, for a system whose table of mounts cannot be read."""
    if version == "v2":
        exists = source.exists(f"{_DEFAULT}/cgroup.controllers")
        return Mount(_DEFAULT, "cgroup2", "", "/") if exists else None
    candidates = (f"{_DEFAULT}/{name}" for name in (",".join(sorted(names)), *sorted(names)) if name)
    return next((Mount(path, "cgroup", "", "/") for path in candidates if source.exists(path)), None)


def _steps(source: FactSource, mount: Mount, path: str) -> list[str]:
    """Folders from a cgroup up to the mount: limits of every parent hold as well.

    A container often sees its own part of the tree alone, mounted as if it were the whole; then what is above
    cannot be read, and the path of the process starts at the real top or within the container.
    """
    inside = path
    if mount.root != "/" and (path == mount.root or path.startswith(f"{mount.root}/")):
        inside = path[len(mount.root) :]
    parts = [part for part in inside.split("/") if part]
    if ".." in parts:  # a cgroup outside of what is seen here
        parts = []
    folders = [mount.point.rstrip("/") + "".join(f"/{part}" for part in parts[:n]) for n in range(len(parts), -1, -1)]
    return [folder for folder in folders if source.exists(folder)]


def _quotas(source: FactSource, version: str, steps: Iterable[str]) -> Iterator[Bound]:
    for folder in steps:
        file = f"{folder}/cpu.max" if version == "v2" else f"{folder}/cpu.cfs_quota_us"
        text = source.text(file)
        if not text or text == "-1":
            continue
        if version == "v1":
            text = f"{text} {source.text(f'{folder}/cpu.cfs_period_us') or '100000'}"
        try:
            cores = parse_quota(text)
        except ValueError as problem:
            source.lack("limits.quota_cores", f"{file}: {problem}")
            continue
        if cores is not None:
            yield Bound(cores, file)


def _memory(source: FactSource, version: str, steps: Iterable[str]) -> Iterator[Bound]:
    for folder in steps:
        file = f"{folder}/{'memory.max' if version == 'v2' else 'memory.limit_in_bytes'}"
        text = source.text(file)
        if text in ("", "max"):
            continue
        if not (text.isascii() and text.isdecimal()):
            source.lack("limits.memory_bytes", f"{file} says {text[:40]!r}, which is no number")
        elif int(text) < _NO_LIMIT:
            yield Bound(int(text), file)


def _cpusets(source: FactSource, steps: Iterable[str]) -> Iterator[Bound]:
    """The CPUs of the nearest cgroup that tells them: those are already what its parents leave."""
    for folder in steps:
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            text = source.text(f"{folder}/{name}")
            try:
                cpus = cpu_set(text)
            except ValueError as problem:
                source.lack("limits.cpuset_cores", f"{folder}/{name}: {problem}")
                continue
            if cpus:
                yield Bound(len(cpus), f"{folder}/{name}")
                return


def _affinity(source: FactSource) -> int | None:
    """CPUs on which the scheduler may put this process."""
    for line in source.text("/proc/self/status").splitlines():
        name, _, rest = line.partition(":")
        if name == "Cpus_allowed_list":
            try:
                return len(cpu_set(rest.strip())) or None
            except ValueError as problem:
                source.lack("limits.affinity_cores", f"/proc/self/status: {problem}")
    if source.here and hasattr(os, "sched_getaffinity"):
        source.absent.pop("limits.affinity_cores", None)
        return len(os.sched_getaffinity(0))
    source.lack("limits.affinity_cores", "/proc/self/status has no Cpus_allowed_list")
    return None


def _least(bounds: Iterable[Bound]) -> Bound | None:
    return min(bounds, key=lambda bound: bound.value, default=None)
