"""The whole machine as Linux tells it: processors, memory, swap, disks, network, clocks and heat.

Each part stands alone: what a container or a virtual machine does not show is left out with its reason, and the rest
is still read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from assay.run.probes.columns import Window
from assay.run.probes.readers import KernelFile, MachineReading, why

SECTOR = 512  # of /proc/diskstats, whatever the disk itself has
# Asking each core for its clock or its heat wakes it up on some processors.
_CORES = 16
_CPU_ZONES = ("x86_pkg_temp", "cpu-thermal", "cpu_thermal", "soc-thermal", "soc_thermal")
_CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
# Bits of the firmware of a Raspberry Pi: what holds now, not what once held.
_PI_REASONS = {1: "under-voltage", 2: "clock capped", 4: "throttled", 8: "soft temperature limit"}


class _UnseenError(Exception):
    """Why a part cannot be read."""


class MachinePart(Protocol):
    """One part of the machine."""

    def read(self, into: MachineReading) -> None:
        """Add what it tells to a reading."""
        ...


class LinuxMachine:
    """All parts that can be read here."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.absent: dict[str, str] = {}
        self._fast = self._open({"machine.cpu_pct": Processors, "machine.memory_available_bytes": Memory}, root)
        self._counts = self._open({"machine.disk": Disks, "machine.network": Network}, root)
        slow: dict[str, Callable[[Path], MachinePart]]
        slow = {"machine.swap": Swap, "machine.cpu_mhz": Clocks, "machine.temperature_c": Heat}
        self._slow = self._open(slow | {"cpu throttling": Throttling}, root)

    def read(self, *, counts: bool = True, slow: bool = True) -> MachineReading:
        """Take one reading.

        Args:
            counts: whether also bytes of disks and network, whose sums lose nothing between two readings.
            slow: whether also what changes slowly or costs more: swap, clocks, heat.
        """
        reading = MachineReading()
        for parts in (self._fast, *([self._counts] if counts else []), *([self._slow] if slow else [])):
            for name, part in list(parts.items()):
                try:
                    part.read(reading)
                except (OSError, ValueError, IndexError) as problem:
                    del parts[name]
                    self.absent[name] = f"lost in the middle: {why(problem)}"
        return reading

    def throttled(self, window: Window) -> tuple[str, ...] | None:
        """Reasons seen in a window for which the processor held its clocks down; None where unknown."""
        part = self._slow.get("cpu throttling")
        return part.within(window) if isinstance(part, Throttling) else None

    def _open(self, parts: dict[str, Callable[[Path], MachinePart]], root: Path) -> dict[str, MachinePart]:
        opened: dict[str, MachinePart] = {}
        for name, part in parts.items():
            try:
                opened[name] = part(root)
                opened[name].read(MachineReading())
            except (OSError, ValueError, IndexError, _UnseenError) as problem:
                opened.pop(name, None)
                self.absent[name] = why(problem)
        return opened


class Processors:
    """Busy time of all processors together, and what the hypervisor took away."""

    def __init__(self, root: Path) -> None:
        self._file = KernelFile(root / "proc/stat", 512)
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")

    def read(self, into: MachineReading) -> None:
        # user nice system idle iowait irq softirq steal; guests are part of user.
        spent = [int(word) for word in self._file.read().partition(b"\n")[0].split()[1:9]]
        into.totals["busy_s"] = (spent[0] + spent[1] + spent[2] + sum(spent[5:7])) * self._tick_s
        if len(spent) > 7:
            into.totals["steal_s"] = spent[7] * self._tick_s


class Memory:
    """Memory that programs could still get."""

    def __init__(self, root: Path) -> None:
        self._file = KernelFile(root / "proc/meminfo", 512)

    def read(self, into: MachineReading) -> None:
        text = self._file.read()
        begin = text.find(b"MemAvailable:")
        if begin < 0:
            raise ValueError("/proc/meminfo has no MemAvailable")
        into.states["memory_available_bytes"] = float(text[begin + 13 :].split(maxsplit=1)[0]) * 1024


class Disks:
    """Bytes read from and written to real disks: partitions, loops and stacked devices would count them again."""

    def __init__(self, root: Path) -> None:
        self._file = KernelFile(root / "proc/diskstats", 16384, whole=True)
        try:
            devices = sorted((root / "sys/block").iterdir())
        except OSError:
            raise _UnseenError("no /sys/block tells disks from their partitions") from None
        self._disks = frozenset(device.name.encode() for device in devices if "/virtual/" not in str(device.resolve()))
        if not self._disks:
            raise _UnseenError("no disk of its own in /sys/block")

    def read(self, into: MachineReading) -> None:
        read = written = 0
        for line in self._file.read().splitlines():
            words = line.split(None, 10)
            if words[2] in self._disks:
                read, written = read + int(words[5]), written + int(words[9])
        into.totals["disk_read_bytes"], into.totals["disk_write_bytes"] = float(read * SECTOR), float(written * SECTOR)


class Network:
    """Bytes in and out over real interfaces; where a container has none, over all but the loop and bridges."""

    def __init__(self, root: Path) -> None:
        self._file = KernelFile(root / "proc/net/dev", 16384, whole=True)
        names = [line.partition(b":")[0].strip() for line in self._file.read().splitlines()[2:]]
        places = {name: root / "sys/class/net" / os.fsdecode(name) for name in names if name != b"lo"}
        real = {name for name, place in places.items() if (place / "device").exists()}
        self._names = real or {name for name, place in places.items() if not (place / "bridge").exists()}
        if not self._names:
            raise _UnseenError("no interface but the loop")

    def read(self, into: MachineReading) -> None:
        received = sent = 0
        for line in self._file.read().splitlines()[2:]:
            name, _, rest = line.partition(b":")
            if name.strip() in self._names:
                words = rest.split(None, 9)
                received, sent = received + int(words[0]), sent + int(words[8])
        into.totals["net_in_bytes"], into.totals["net_out_bytes"] = float(received), float(sent)


class Swap:
    """Bytes that went to swap and came back: a run that swaps measures the disk."""

    def __init__(self, root: Path) -> None:
        self._file = KernelFile(root / "proc/vmstat", 16384, whole=True)
        self._page = os.sysconf("SC_PAGE_SIZE")

    def read(self, into: MachineReading) -> None:
        text = b"\n" + self._file.read()
        for name, total in ((b"\npswpin ", "swap_in_bytes"), (b"\npswpout ", "swap_out_bytes")):
            begin = text.index(name) + len(name)
            into.totals[total] = float(int(text[begin : begin + 24].split(None, 1)[0]) * self._page)


class Clocks:
    """The clock of the cores, as the mean of those that are asked."""

    def __init__(self, root: Path) -> None:
        cpus = root / "sys/devices/system/cpu"
        paths = sorted(cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
        if not paths:
            raise _UnseenError("no core tells its clock (no cpufreq in /sys/devices/system/cpu)")
        self._files = [KernelFile(path) for path in _spread(paths)]

    def read(self, into: MachineReading) -> None:
        into.states["cpu_mhz"] = sum(file.number() for file in self._files) / len(self._files) / 1e3


class Heat:
    """The highest temperature that a sensor of the processor tells; sensors of other things are not taken for it."""

    def __init__(self, root: Path) -> None:
        zones = [
            zone / "temp"
            for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*"))
            if (kind := _text(zone / "type")) in _CPU_ZONES or kind.startswith("cpu-")
        ]
        chips = sorted((root / "sys/class/hwmon").glob("hwmon*"))
        chips = [chip for chip in chips if _text(chip / "name") in _CPU_SENSORS]
        sensors = [path for chip in chips for path in sorted(chip.glob("temp*_input"))]
        self._files = []
        for path in zones or _spread(sensors):
            with suppress(OSError, ValueError):  # a sensor that is there and tells nothing
                sensor = KernelFile(path)
                sensor.number()
                self._files.append(sensor)
        if not self._files:
            raise _UnseenError("no temperature sensor of the processor in /sys/class/thermal or /sys/class/hwmon")

    def read(self, into: MachineReading) -> None:
        into.states["temperature_c"] = max(file.number() for file in self._files) / 1e3


class Throttling:
    """Whether the processor held its clocks down, and why: counts of the kernel, and bits of a Raspberry Pi."""

    def __init__(self, root: Path) -> None:
        self._slowed: list[tuple[int, int, str]] = []  # from when to when, and why
        self._last_ns = time.perf_counter_ns()
        cpus = root / "sys/devices/system/cpu"
        self._counts = {
            f"{what} too hot": [KernelFile(path) for path in sorted(cpus.glob(f"cpu[0-9]*/thermal_throttle/{file}"))]
            for what, file in (("core", "core_throttle_count"), ("package", "package_throttle_count"))
        }
        firmware = root / "sys/devices/platform/soc/soc:firmware/get_throttled"
        self._bits = KernelFile(firmware) if firmware.exists() else None
        if self._bits is None and not any(self._counts.values()):
            raise _UnseenError("the kernel keeps no count of it (no thermal_throttle in /sys/devices/system/cpu)")
        self._before: dict[str, float] = {}

    def read(self, into: MachineReading) -> None:  # noqa: ARG002  (its state is words, not numbers)
        """Look whether a count has grown."""
        since_ns, self._last_ns = self._last_ns, time.perf_counter_ns()
        for reason, files in self._counts.items():
            count = sum(file.number() for file in files)
            if count > self._before.setdefault(reason, count):
                self._slowed.append((since_ns, self._last_ns, reason))
            self._before[reason] = count
        if self._bits is not None:
            bits = int(self._bits.read(), 16)
            self._slowed += [(since_ns, self._last_ns, reason) for bit, reason in _PI_REASONS.items() if bits & bit]

    def within(self, window: Window) -> tuple[str, ...]:
        """Reasons seen in a window."""
        return tuple(
            dict.fromkeys(reason for since, at, reason in self._slowed if since < window[1] and at > window[0])
        )


def _spread(paths: Sequence[Path]) -> list[Path]:
    """Some of many, from one end to the other."""
    return [paths[number * len(paths) // _CORES] for number in range(_CORES)] if len(paths) > _CORES else list(paths)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
