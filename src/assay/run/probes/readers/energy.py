"""Energy of processors: RAPL through powercap (Intel and AMD), AMD's own driver, or `powermetrics` on macOS.

Only root may start `powermetrics`, and Apple calls its figures estimates.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from assay.run.probes.readers import KernelFile, why

Scope = Literal["package", "dram", "system"]
# One range of a counter must last longer at this power than the time between two readings, or a second round of it
# could not be distinguished from the first. No package or memory controller comes near.
_MOST_W = 2000.0
# `intel-rapl-mmio` tells the same packages once more.
_ZONE = re.compile(r"intel-rapl:\d+(:\d+)?")
_SOCKET = re.compile(r"Esocket(\d+)")


@dataclass(slots=True)
class Zone:
    """One counter."""

    source: str
    """`rapl:package-0`."""
    scope: Scope
    file: KernelFile
    range_j: float | None
    """Where it begins again at zero; None for one that does not."""
    joules: float = 0.0
    """Since the first reading."""
    unsure_ns: list[tuple[int, int]] = field(default_factory=list)
    """Stretches in which the counter may have gone round more than once."""
    last_j: float = 0.0
    last_ns: int | None = None

    def read(self, at_ns: int) -> float:
        """Joules since the first reading."""
        now_j = self.file.number() / 1e6
        if self.last_ns is not None:
            grown = now_j - self.last_j
            gap_s = (at_ns - self.last_ns) / 1e9
            if self.range_j is not None and gap_s * _MOST_W > self.range_j:
                self.unsure_ns.append((self.last_ns, at_ns))
            if grown < 0:
                grown = grown + self.range_j if self.range_j is not None else 0.0
            self.joules += max(0.0, grown)
        self.last_j, self.last_ns = now_j, at_ns
        return self.joules


@dataclass(frozen=True, slots=True)
class EnergyStep:
    """What a counter showed at one reading."""

    source: str
    since_ns: int | None
    """The look before; None at the first."""
    at_ns: int
    joules: float
    """Since the first look."""
    grown_j: float
    """Since the look before."""


class Rapl:
    """All counters that may be read here, and the reasons of the others."""

    def __init__(self, root: Path = Path("/"), opened: Callable[[Path], KernelFile] = KernelFile) -> None:
        self.absent: dict[str, str] = {}
        self._opened = opened
        self.zones: list[Zone] = []
        folder = root / "sys/class/powercap"
        names = sorted(path.name for path in folder.iterdir() if _ZONE.fullmatch(path.name)) if folder.is_dir() else []
        for name in names:
            self._open(folder, name, root)
        if not any(zone.scope == "package" for zone in self.zones):
            self._amd(root)
        if not self.zones and not self.absent:
            self.absent["rapl"] = (
                "the processor's energy counters are not shown: no intel-rapl in /sys/class/powercap "
                "(a virtual machine, or a kernel without it)"
            )

    def read(self, now_ns: Callable[[], int] = time.perf_counter_ns) -> list[EnergyStep]:
        """What all counters tell that still answer."""
        steps = []
        for zone in list(self.zones):
            since_ns, before_j, at_ns = zone.last_ns, zone.joules, now_ns()
            try:
                joules = zone.read(at_ns)
            except (OSError, ValueError) as problem:
                self.zones.remove(zone)
                self.absent[zone.source] = f"lost in the middle: {why(problem)}"
            else:
                steps.append(EnergyStep(zone.source, since_ns, at_ns, joules, joules - before_j))
        return steps

    def unsure(self, source: str, window: tuple[int, int]) -> str:
        """Why a counter does not give the energy of a window; empty where it does."""
        for zone in self.zones:
            for begin, end in zone.unsure_ns if zone.source == source else ():
                if begin < window[1] and end > window[0]:
                    return (
                        f"no reading for {(end - begin) / 1e9:.0f} s, in which the counter of "
                        f"{source.partition(':')[2]} may have gone round more than once"
                    )
        return ""

    def _open(self, folder: Path, name: str, root: Path) -> None:
        """Take a zone, if it is a package, its memory or the whole system; cores are part of their package."""
        try:
            kind = (folder / name / "name").read_text().strip()
        except OSError:
            return
        source, scope = self._named(folder, name, kind)
        if scope is None:
            return
        path = folder / name / "energy_uj"
        try:
            self._take(path, source, scope, folder / name / "max_energy_range_uj")
        except PermissionError:
            shown = f"/{path.relative_to(root)}"
            self.absent[source] = (
                f"{shown} may not be read by this user; try: sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"
            )
        except (OSError, ValueError) as problem:
            self.absent[source] = why(problem)

    def _take(self, path: Path, source: str, scope: Scope, most: Path | None = None) -> None:
        file = self._opened(path)
        file.number()
        self.zones.append(Zone(source, scope, file, None if most is None else float(most.read_text()) / 1e6))

    def _named(self, folder: Path, name: str, kind: str) -> tuple[str, Scope | None]:
        if kind.startswith("package"):
            return f"rapl:{kind}", "package"
        if kind == "psys":
            return "rapl:psys", "system"
        if kind != "dram":
            return "", None
        try:
            above = (folder / name.rpartition(":")[0] / "name").read_text().strip()
        except OSError:
            above = name
        return f"rapl:{above}-dram", "dram"

    def _amd(self, root: Path) -> None:
        """The driver `amd_energy`, which counts in 64 bits and so never begins again."""
        for chip in sorted((root / "sys/class/hwmon").glob("hwmon*")):
            try:
                if (chip / "name").read_text().strip() != "amd_energy":
                    continue
                labels = sorted(chip.glob("energy*_label"))
                sockets = {path: _SOCKET.fullmatch(path.read_text().strip()) for path in labels}
            except OSError:
                continue
            for path, socket in sockets.items():
                if socket is not None:
                    source = f"rapl:package-{socket[1]}"
                    try:
                        self._take(path.with_name(path.name.replace("_label", "_input")), source, "package")
                        self.absent.pop(source, None)
                    except (OSError, ValueError) as problem:
                        self.absent[source] = why(problem)


_EVERY_MS = 500  # each report costs some milliseconds to make and to read
_BLOCK = 65536


class Powermetrics:
    """A running `powermetrics`, read by a thread of its own; or the reason why there is none."""

    def __init__(
        self,
        start: Callable[[], IO[bytes]] | None = None,
        *,
        system: str = sys.platform,
        root: bool | None = None,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.absent = ""
        self._found: list[tuple[int, int, float]] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._now_ns = now_ns
        if system != "darwin":
            self.absent = "powermetrics is part of macOS alone"
            return
        if not (os.geteuid() == 0 if root is None else root):
            self.absent = "powermetrics needs root; try: sudo assay run …"
            return
        try:
            stream = (start or self._start)()
        except OSError as problem:
            self.absent = f"powermetrics cannot be started: {problem.strerror or problem}"
            return
        self._thread = threading.Thread(target=self._follow, args=(stream,), daemon=True)
        self._thread.start()

    def take(self) -> list[tuple[int, int, float]]:
        """Begin, end and mean watts of the stretches that were reported since the last time."""
        return [self._found.pop(0) for _ in range(len(self._found))]

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self) -> IO[bytes]:
        words = ["powermetrics", "--samplers", "cpu_power,gpu_power", "--format", "plist", "-i", str(_EVERY_MS)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        if self._process.stdout is None:
            raise OSError("it has no output")
        return self._process.stdout

    def _follow(self, stream: IO[bytes]) -> None:
        try:
            for seconds, watts in reports(stream):
                end_ns = self._now_ns()
                self._found.append((end_ns - round(seconds * 1e9), end_ns, watts))
        except (OSError, ValueError) as problem:
            self.absent = f"lost in the middle: {problem}"
        else:
            self.absent = "powermetrics has ended"


def reports(stream: IO[bytes]) -> Iterator[tuple[float, float]]:
    """Seconds and mean watts of every report of a stream: property lists with a zero byte between them."""
    rest = b""
    while block := stream.read1(_BLOCK) if hasattr(stream, "read1") else stream.read(_BLOCK):
        *whole, rest = (rest + block).split(b"\0")
        yield from (report for text in whole if (report := parse(text)) is not None)
    if rest.strip() and (report := parse(rest)) is not None:
        yield report


def parse(text: bytes) -> tuple[float, float] | None:
    """Seconds and mean watts of processor, graphics and neural engine together; None where no power is reported."""
    import plistlib  # macOS alone pays for it
    from xml.parsers.expat import ExpatError

    try:
        report: dict[str, Any] = plistlib.loads(text.strip())
        seconds = float(report["elapsed_ns"]) / 1e9
        processor: dict[str, Any] = report["processor"]
    except (ValueError, KeyError, TypeError, ExpatError, plistlib.InvalidFileException):
        return None
    if seconds <= 0:
        return None
    # Apple's own chips tell milliwatts of all three parts together; those with an Intel processor, watts of it.
    for key, scale in (("combined_power", 1e-3), ("package_watts", 1.0)):
        if isinstance(watts := processor.get(key), int | float):
            return seconds, float(watts) * scale
    return None
