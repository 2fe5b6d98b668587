"""Parts of a machine: memory and its modules, disks and file systems, accelerators as layers and drivers tell them."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from assay.hardware import apple
from assay.hardware.source import Facts, FactSource, why_not

if TYPE_CHECKING:
    from assay.hardware.gpu.detect import Detection
    from assay.hardware.gpu.record import Gpu

_ENTRIES = "/sys/firmware/dmi/entries"
_EDAC = "/sys/devices/system/edac/mc"
# From the table of memory types in the SMBIOS standard.
_TYPES = {
    0x12: "DDR", 0x13: "DDR2", 0x14: "DDR2 FB-DIMM", 0x18: "DDR3", 0x1A: "DDR4", 0x1B: "LPDDR", 0x1C: "LPDDR2",
    0x1D: "LPDDR3", 0x1E: "LPDDR4", 0x1F: "persistent", 0x20: "HBM", 0x21: "HBM2", 0x22: "DDR5", 0x23: "LPDDR5",
    0x24: "HBM3",
}  # fmt: skip
_OTHER, _UNKNOWN, _PLAIN_RAM = 0x01, 0x02, 0x07


def memory(source: FactSource) -> Facts:
    """How much memory there is and of which kind, as far as it does not change while the machine runs."""
    if source.system == "darwin":
        return apple.memory(source)
    table = _meminfo(source)
    facts: Facts = {}
    for fact, name in (("total_bytes", "MemTotal"), ("swap_bytes", "SwapTotal")):
        if name in table:
            facts[fact] = table[name]
        else:
            source.lack(f"memory.{fact}", f"/proc/meminfo has no {name}")
    if table.get("HugePages_Total"):
        facts["huge_pages"] = {"count": table["HugePages_Total"] // 1024, "size_bytes": table.get("Hugepagesize")}
    if modules := _modules(source) or _by_error_counters(source):
        facts["modules"] = modules
    return facts


def memory_now(source: FactSource) -> Facts:
    """How much memory is free for a new program at this moment."""
    table = _meminfo(source)
    pairs = (("available_bytes", "MemAvailable"), ("swap_free_bytes", "SwapFree"))
    facts: Facts = {fact: table[name] for fact, name in pairs if name in table}
    if not facts and source.here:  # not a Linux machine
        import psutil

        facts = {"available_bytes": psutil.virtual_memory().available, "swap_free_bytes": psutil.swap_memory().free}
    return facts


def module(raw: bytes) -> Facts | None:
    """One memory module from its SMBIOS record (type 17); None for an empty slot."""
    if len(raw) < 0x15 or raw[0] != 17 or not 0x15 <= raw[1] <= len(raw):
        raise ValueError("no SMBIOS record of a memory device")
    record, strings = raw[: raw[1]], raw[raw[1] :].split(b"\0")
    size = _size(record)
    if size == 0:
        return None
    facts: dict[str, JsonValue | None] = {
        "size_bytes": size,
        "type": _type(record[0x12]),
        "speed_mts": _speed(record, 0x20, 0x58),
        "rated_mts": _speed(record, 0x15, 0x54),
        "slot": _string(strings, _number(record, 0x10, 1)),
        "part": _string(strings, _number(record, 0x1A, 1)),
        "maker": _string(strings, _number(record, 0x17, 1)),
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}


def _meminfo(source: FactSource) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for line in source.text("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isascii() and words[0].isdecimal():
            sizes[name] = int(words[0]) * 1024
    return sizes


def _modules(source: FactSource) -> list[JsonValue]:
    """The modules as the firmware's table lists them, equal ones together; only the administrator may read it."""
    entries = source.names(_ENTRIES, r"17-\d+")
    if not entries:
        source.lack("memory.modules", f"{_ENTRIES} has no memory devices")
    modules: list[Facts] = []
    for entry in entries:
        path = f"{_ENTRIES}/{entry}/raw"
        try:
            parsed = module(source.bytes(path))
        except OSError as problem:
            source.lack("memory.modules", why_not(problem, path))
        except ValueError as problem:
            source.lack("memory.modules", f"{path}: {problem}")
        else:
            if parsed is not None:
                modules.append(parsed)
    if entries and not modules:
        source.lack("memory.modules", f"{_ENTRIES} lists empty slots alone")
    if modules:
        source.absent.pop("memory.modules", None)
    return _counted(modules)


def _by_error_counters(source: FactSource) -> list[JsonValue]:
    """Size and type of each module from the driver of the memory controller, which knows no speeds."""
    modules: list[Facts] = []
    for controller in source.names(_EDAC, r"mc\d+"):
        for name in source.names(f"{_EDAC}/{controller}", r"(?:dimm|rank)\d+"):
            folder = f"{_EDAC}/{controller}/{name}"
            size, kind = source.number(f"{folder}/size"), source.text(f"{folder}/dimm_mem_type")
            if size:
                modules.append({"size_bytes": size * 2**20, **({"type": kind} if kind else {})})
    if modules:
        why = source.absent.pop("memory.modules", "")
        source.lack("memory.speed", f"{why}; the memory controller's driver tells sizes and types alone")
    return _counted(modules)


def _counted(modules: list[Facts]) -> list[JsonValue]:
    alike: Counter[tuple[tuple[str, JsonValue], ...]] = Counter(
        tuple((name, value) for name, value in entry.items() if name != "slot") for entry in modules
    )
    return [{"count": count, **dict(pairs)} for pairs, count in alike.items()]


def _size(record: bytes) -> int | None:
    """Bytes of a module; 0 for an empty slot, None where the firmware does not know."""
    size = _number(record, 0x0C, 2)
    if size is None or size == 0xFFFF:
        return None
    if size == 0x7FFF:  # too large for the field: the size stands, in MiB, in a later one
        large = _number(record, 0x1C, 4)
        return None if large is None else (large & 0x7FFF_FFFF) * 2**20
    return (size & 0x7FFF) * (2**10 if size & 0x8000 else 2**20)


def _speed(record: bytes, at: int, extended: int) -> int | None:
    speed = _number(record, at, 2)
    if speed == 0xFFFF:
        speed = _number(record, extended, 4)
    return speed or None


def _type(code: int) -> str | None:
    if code in (_OTHER, _UNKNOWN, _PLAIN_RAM, 0):
        return None
    return _TYPES.get(code, f"type {code:#04x}")


def _number(record: bytes, at: int, width: int) -> int | None:
    """A number of a record; None where the record ends before it: older firmware writes shorter ones."""
    return int.from_bytes(record[at : at + width], "little") if at + width <= len(record) else None


def _string(strings: list[bytes], number: int | None) -> str | None:
    """The text behind a string number, which counts from one; makers fill the place with words for nothing."""
    if not number or number > len(strings):
        return None
    text = strings[number - 1].decode("ascii", "replace").strip()
    return None if text.lower() in ("", "unknown", "not specified", "no dimm", "none") else text


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
    devices: list[JsonValue] = []
    for name in source.names(_BLOCK):
        sectors = source.number(f"{_BLOCK}/{name}/size")
        if sectors and not name.startswith(_NOT_DISKS):
            devices.append(_disk(source, name, sectors))
    if not devices:
        exists = source.exists(_BLOCK)
        source.lack("disks", f"{_BLOCK} lists no disk" if exists else f"{_BLOCK} is not there")
    return devices


def file_systems(source: FactSource, places: Mapping[str, Path], usage: Usage | None = None) -> Facts:
    """The file system of each place, with its room; one that is reached over a network says so."""
    table = mounts(source)
    return {name: _file_system(source, path, table, usage or _usage, name) for name, path in places.items()}


def mounts(source: FactSource) -> list[Mount]:
    """What is mounted where, as this process sees it."""
    mounts = []
    for line in source.text("/proc/self/mountinfo").splitlines():
        before, dash, after = line.partition(" - ")
        fields, right = before.split(), after.split()
        if dash and len(fields) >= 5 and len(right) >= 2:
            options = right[2] if len(right) > 2 else ""
            mounts.append(Mount(_plain(fields[4]), right[0], _plain(right[1]), _plain(fields[3]), options))
    return mounts


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
    held = [mount for mount in table if mount.point == "/" or real == mount.point or real.startswith(f"{mount.point}/")]
    return max(reversed(held), key=lambda mount: len(mount.point), default=None)


def _usage(path: Path) -> tuple[int, int]:
    """Room at a folder, or where it would be made."""
    nearest = next((folder for folder in (path, *path.parents) if folder.exists()), path)
    usage = shutil.disk_usage(nearest)
    return usage.total, usage.free


def _plain(text: str) -> str:
    """A path of the kernel's table, whose spaces are written as octal numbers."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


# Device classes of the drivers of NPUs and similar devices.
_CLASSES = ("accel", "apex", "hailo_chardev", "habanalabs", "neuron_device", "xrt_user", "npu", "vpu")
_PCI = "/sys/bus/pci/devices"
_USB = "/sys/bus/usb/devices"
# "Processing accelerator" in the classes of the PCI standard.
_PCI_CLASS = 0x12
_GPU_DRIVERS = ("nvidia", "nouveau", "amdgpu", "radeon", "i915", "xe")
# Google's USB accelerator: as it is plugged in, and after its first use.
_USB_IDS = {("1a6e", "089a"), ("18d1", "9302")}
# What changes while the machine runs; a result keeps it with the moment at which it was read.
_MOMENTARY = ("temperature_c", "throttle", "clocks_mhz")


def gpu_facts(detection: Detection, *, now: bool) -> Facts:
    """The GPUs, the layer that reported them, and what each other layer answered."""
    return {**detection.record(), "gpus": [_facts(gpu, now=now) for gpu in detection.gpus]}


def counted_gpus(detection: Detection) -> tuple[Gpu, ...]:
    """The GPUs on which work can be placed: a bare display adapter, which has no memory of its own, is none."""
    return tuple(gpu for gpu in detection.gpus if gpu.layer != "sysfs" or gpu.memory_bytes)


def other_accelerators(source: FactSource) -> list[JsonValue]:
    accelerators = [*_by_class(source), *_by_pci(source), *_by_usb(source)]
    unique: dict[str, Facts] = {}
    for accelerator in accelerators:
        unique.setdefault(str(accelerator.get("pci") or accelerator.get("usb") or accelerator["name"]), accelerator)
    return [*unique.values()]


def _facts(gpu: Gpu, *, now: bool) -> Facts:
    record = gpu.record()
    if now:
        return record
    facts = {name: value for name, value in record.items() if name not in _MOMENTARY}
    if gpu.pcie:  # an idle link goes slower
        facts["pcie"] = {name: value for name, value in gpu.pcie.items() if name.startswith("max_")}
    return facts


def _by_class(source: FactSource) -> Iterable[Facts]:
    for kind in _CLASSES:
        for name in source.names(f"/sys/class/{kind}"):
            folder = f"/sys/class/{kind}/{name}/device"
            uevent = _uevent(source, folder)
            facts = {
                "name": name,
                "class": kind,
                "driver": uevent.get("DRIVER") or source.link(f"{folder}/driver"),
                "pci": uevent.get("PCI_SLOT_NAME", ""),
                "pci_id": uevent.get("PCI_ID", "").lower(),
            }
            yield {fact: text for fact, text in facts.items() if text}


def _by_pci(source: FactSource) -> Iterable[Facts]:
    for slot in source.names(_PCI):
        number = source.number(f"{_PCI}/{slot}/class")
        driver = source.link(f"{_PCI}/{slot}/driver")
        if number is None or number >> 16 != _PCI_CLASS or driver in _GPU_DRIVERS:
            continue
        pair = [source.text(f"{_PCI}/{slot}/{part}").removeprefix("0x") for part in ("vendor", "device")]
        facts: Facts = {"name": slot, "class": "processing accelerator", "pci": slot}
        facts |= {"driver": driver} if driver else {}
        yield facts | ({"pci_id": ":".join(pair)} if all(pair) else {})


def _by_usb(source: FactSource) -> Iterable[Facts]:
    for name in source.names(_USB):
        ids = (source.text(f"{_USB}/{name}/idVendor"), source.text(f"{_USB}/{name}/idProduct"))
        if ids in _USB_IDS:
            product = source.text(f"{_USB}/{name}/product")
            yield {"name": product or name, "class": "usb", "usb": name, "usb_id": ":".join(ids)}


def _uevent(source: FactSource, folder: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in source.text(f"{folder}/uevent").splitlines())
    return {name: value for name, sign, value in pairs if sign}
