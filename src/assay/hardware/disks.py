"""Disks as the kernel lists them, and the file systems of the folders that a measurement uses."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from assay.hardware.source import Facts, FactSource

# Total and free bytes of the file system that holds a folder.
Usage = Callable[[Path], tuple[int, int]]

_BLOCK = "/sys/block"
_SECTOR = 512  # sysfs counts in these, whatever the disk's own are
_NOT_DISKS = ("loop", "ram", "zram", "fd", "sr", "nbd")
# Over a network a file is as fast as the network and its other users let it be.
_NETWORK = frozenset((
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "afpfs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs",
    "orangefs", "pvfs2", "panfs", "wekafs", "coda", "ncpfs", "webdav", "fuse.sshfs", "fuse.glusterfs",
    "fuse.s3fs", "fuse.ceph", "fuse.ceph-fuse", "fuse.gcsfuse", "fuse.juicefs", "fuse.rclone", "fuse.mount-s3",
    "fuse.blobfuse2", "fuse.cvmfs2", "cvmfs2",
))  # fmt: skip
_IN_MEMORY = frozenset(("tmpfs", "ramfs", "devtmpfs"))
# A folder of the host, seen through a hypervisor.
_OF_THE_HOST = frozenset(("9p", "virtiofs", "vboxsf", "drvfs", "prl_fs"))
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the kernel's table of mounts."""

    point: str
    kind: str
    device: str
    root: str  # the part of the file system that is seen here
    options: str = ""


def disks(source: FactSource) -> list[JsonValue]:
    """Block devices that hold something: model, size, and how they are attached."""
    found: list[JsonValue] = []
    for name in source.names(_BLOCK):
        sectors = source.number(f"{_BLOCK}/{name}/size")
        if sectors and not name.startswith(_NOT_DISKS):
            found.append(_disk(source, name, sectors))
    if not found:
        there = source.exists(_BLOCK)
        source.lack("disks", f"{_BLOCK} lists no disk" if there else f"{_BLOCK} is not there")
    return found


def file_systems(source: FactSource, places: Mapping[str, Path], usage: Usage | None = None) -> Facts:
    """The file system of each place, with its room; one that is reached over a network says so."""
    table = mounts(source)
    return {name: _file_system(source, path, table, usage or _usage, name) for name, path in places.items()}


def mounts(source: FactSource) -> list[Mount]:
    """What is mounted where, as this process sees it."""
    found = []
    for line in source.text("/proc/self/mountinfo").splitlines():
        before, dash, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if dash and len(left) >= 5 and len(right) >= 2:
            options = right[2] if len(right) > 2 else ""
            found.append(Mount(_plain(left[4]), right[0], _plain(right[1]), _plain(left[3]), options))
    return found


def _disk(source: FactSource, name: str, sectors: int) -> Facts:
    folder = f"{_BLOCK}/{name}"
    facts: Facts = {"name": name, "size_bytes": sectors * _SECTOR}
    if model := source.text(f"{folder}/device/model"):
        facts["model"] = " ".join(model.split())
    attached = _attached(source, name)
    if attached:
        facts["attached"] = attached
    facts["nvme"] = name.startswith("nvme")
    rotational = source.text(f"{folder}/queue/rotational")
    if attached == "virtio":  # its driver says 1 whatever the host stores it on
        source.lack(f"disks.{name}.rotational", "a virtual disk: its driver does not know what the host stores it on")
    elif rotational in ("0", "1"):
        facts["rotational"] = rotational == "1"
    if source.text(f"{folder}/ro") == "1":
        facts["read_only"] = True
    return facts


def _attached(source: FactSource, name: str) -> str:
    """How a disk is attached: the transport of an NVMe disk, else the bus that its driver serves."""
    folder = f"{_BLOCK}/{name}/device"
    if name.startswith("nvme"):
        return f"nvme over {transport}" if (transport := source.text(f"{folder}/transport")) else "nvme"
    if name.startswith(("dm-", "md")):
        return "mapped onto other disks"
    return source.link(f"{folder}/subsystem")


def _file_system(source: FactSource, path: Path, table: list[Mount], usage: Usage, name: str) -> Facts:
    facts: Facts = {"folder": str(path)}
    mount = _mount_of(str(path), table)
    if mount is not None:
        facts |= {"type": mount.kind, "device": mount.device, "mounted_at": mount.point}
        facts |= {"network": True} if mount.kind in _NETWORK else {}
        facts |= {"in_memory": True} if mount.kind in _IN_MEMORY else {}
        facts |= {"of_the_host": True} if mount.kind in _OF_THE_HOST else {}
    else:
        source.lack(f"file_systems.{name}.type", "this system has no table of mounts that can be read")
    try:
        total, free = usage(path)
    except OSError as problem:
        source.lack(f"file_systems.{name}.free_bytes", f"{path}: {problem.strerror or problem}")
    else:
        facts |= {"size_bytes": total, "free_bytes": free}
    return facts


def _mount_of(path: str, table: list[Mount]) -> Mount | None:
    """The mount that holds a path: the longest prefix, and of several at one point the last."""
    real = os.path.realpath(path)
    held = [one for one in table if one.point == "/" or real == one.point or real.startswith(f"{one.point}/")]
    return max(reversed(held), key=lambda one: len(one.point), default=None)


def _usage(path: Path) -> tuple[int, int]:
    """Room at a folder, or where it would be made."""
    there = next((one for one in (path, *path.parents) if one.exists()), path)
    known = shutil.disk_usage(there)
    return known.total, known.free


def _plain(text: str) -> str:
    """A path of the kernel's table, whose spaces are written as octal numbers."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
