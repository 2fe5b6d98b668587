"""A barrier: the machines that share a load meet in a folder that all of them see, and begin at one moment.

Each machine that arrives writes a file. The first of them (host 0) waits until all files are there and writes when to
begin, a moment ahead; the others read it. A machine that cannot take part says so, and the others do not wait for it.
Clocks may differ between machines: the times at which each saw the other's file bound the difference, and these bounds
are kept as a fact.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from assay.errors import MeasureError
from assay.files import write_whole

# How far ahead the common start is set: longer than the time after which every machine has seen it, also on a network
# file system that looks again only now and then.
LEAD_S = 2.0
_POLL_S = 0.02
_MODE = 0o644
_START = "start.json"

Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where the machines of a load meet before each run."""

    folder: str
    """One folder for each run is made in it."""
    who: int
    of: int
    lead_s: float = LEAD_S

    def of_run(self, run_id: int) -> Path:
        return Path(self.folder) / f"run-{run_id}"

    def of_jobs(self) -> Path:
        """The folder in which they meet once before all runs."""
        return Path(self.folder) / "jobs"


@dataclass(frozen=True, slots=True)
class BarrierOutcome:
    """How a meeting went, as one of its machines saw it."""

    arrived: int
    start_at_ns: int
    """When all begin, on the clock of the day."""
    waited_s: float
    late_s: float
    """How long after that moment this machine knew of it; 0 when it was in time."""
    clock_offset_s: tuple[float, float] | None
    """Between which bounds this machine's clock is ahead of host 0's; None for host 0 itself."""

    def facts(self) -> dict[str, JsonValue]:
        return {
            "hosts": self.arrived,
            "start_at_epoch_ns": self.start_at_ns,
            "waited_s": round(self.waited_s, 6),
            "late_s": round(self.late_s, 6),
            "clock_offset_from_host_0_s": None if self.clock_offset_s is None else list(self.clock_offset_s),
        }


def meet(
    folder: Path, who: int, of: int, within_s: float, *, lead_s: float = LEAD_S, sleep: Sleep = time.sleep
) -> BarrierOutcome:
    """Arrive, wait for all others, and learn when to begin."""
    try:
        return _Visit(folder, who, of, lead_s).meet(within_s, sleep)
    except OSError as problem:
        message = f"the folder where clients meet cannot be used: {problem.strerror or problem}"
        raise MeasureError(message, code="barrier", at=str(folder), try_="is it shared by all nodes?") from None


def give_up(folder: Path, who: int, why: str) -> None:
    """Say that this machine will not come, unless all have already begun: the others need not wait for it."""
    with suppress(OSError):
        if not (folder / _START).exists():
            _arrival(folder, who).unlink(missing_ok=True)
            write_whole(_absence(folder, who), _line({"who": who, "why": why}), mode=_MODE)


def forget_absences(folder: Path) -> None:
    """Forget who could not come to a meeting that has not begun: machines that begin again may come after all."""
    with suppress(OSError):
        if not (folder / _START).exists():
            for path in folder.glob("absent-*.json"):
                path.unlink(missing_ok=True)


@dataclass(slots=True)
class _Visit:
    folder: Path
    who: int
    of: int
    lead_s: float
    arrived_ns: int = 0

    def meet(self, within_s: float, sleep: Sleep) -> BarrierOutcome:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._refuse_begun()
        began_s = time.monotonic()
        self.arrived_ns = time.time_ns()
        write_whole(_arrival(self.folder, self.who), _line({"who": self.who, "at_ns": self.arrived_ns}), mode=_MODE)
        _absence(self.folder, self.who).unlink(missing_ok=True)
        seen_ns: dict[int, int] = {}
        while True:
            self._read(seen_ns)
            start = self._lead(seen_ns) if self.who == 0 else _read(self.folder / _START)
            if start is not None:
                return self._met(start, time.monotonic() - began_s)
            self._refuse_absent()
            if time.monotonic() - began_s >= within_s:
                raise self._incomplete(seen_ns, within_s)
            sleep(_POLL_S)

    def _refuse_begun(self) -> None:
        """A machine that comes again, or too late, must not load alone what the others have loaded before."""
        if _read(self.folder / _START) is not None:
            message = f"the other clients began this run without client {self.who}"
            try_ = "was its job put back into the queue? run the campaign again"
            raise MeasureError(message, code="barrier-missed", at=str(self.folder), try_=try_)

    def _read(self, seen_ns: dict[int, int]) -> None:
        # Listing the folder makes a network file system ask its server; looking for a name may not.
        names = {path.name for path in self.folder.iterdir()}
        for host in range(self.of):
            if host not in seen_ns and _arrival(self.folder, host).name in names:
                seen_ns[host] = time.time_ns()

    def _lead(self, seen_ns: Mapping[int, int]) -> dict[str, Any] | None:
        """Host 0 says when all begin, as soon as all are there."""
        if len(seen_ns) < self.of:
            return None
        now = time.time_ns()
        start = {
            "start_at_ns": now + int(self.lead_s * 1e9),
            "written_at_ns": now,
            "seen_ns": {str(host): at for host, at in seen_ns.items()},
        }
        write_whole(self.folder / _START, _line(start), mode=_MODE)
        return start

    def _met(self, start: Mapping[str, Any], waited_s: float) -> BarrierOutcome:
        now = time.time_ns()
        late_s = max(0.0, (now - start["start_at_ns"]) / 1e9)
        return BarrierOutcome(self.of, start["start_at_ns"], waited_s, late_s, self._offset(start, now))

    def _offset(self, start: Mapping[str, Any], now: int) -> tuple[float, float] | None:
        """This clock less host 0's: no file is seen before it is written, so each sighting is a bound."""
        if self.who == 0:
            return None
        at_least = (self.arrived_ns - start["seen_ns"][str(self.who)]) / 1e9
        return at_least, (now - start["written_at_ns"]) / 1e9

    def _refuse_absent(self) -> None:
        for path in sorted(self.folder.glob("absent-*.json")):
            absence = _read(path)
            if absence is not None and not _arrival(self.folder, absence["who"]).exists():
                message = f"client {absence['who']} cannot take part in this run: {absence['why']}"
                raise MeasureError(message, code="barrier-absent", at=str(self.folder))

    def _incomplete(self, seen_ns: Mapping[int, int], within_s: float) -> MeasureError:
        missing = [str(host) for host in range(self.of) if host not in seen_ns]
        who = f"client {missing[0]}" if len(missing) == 1 else f"clients {', '.join(missing)}"
        what = f"{who} of {self.of} did not come" if missing else "client 0 did not say when to begin"
        message = f"{what} within {within_s:g} s, so the load was not begun"
        try_ = "look at the logs of these clients; raise measure.timeout where they only wait in the queue"
        return MeasureError(message, code="barrier-incomplete", at=str(self.folder), try_=try_)


def _arrival(folder: Path, who: int) -> Path:
    return folder / f"host-{who}.json"


def _absence(folder: Path, who: int) -> Path:
    return folder / f"absent-{who}.json"


def _line(message: Mapping[str, object]) -> bytes:
    return json.dumps(message).encode()


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return document
