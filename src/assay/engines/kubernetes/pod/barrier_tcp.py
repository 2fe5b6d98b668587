"""Where pods meet that go together: each has the folder of the meeting to itself, and a line keeps them the same.

A barrier is a folder in which everybody writes files of their own (see `assay.run.load.barrier`). Pods share no folder,
so the first pod listens, the others call it by its name, and each hands on what it wrote. A pod that falls silent is
reported as absent, so that no other pod waits for it without end.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.errors import MeasureError
from assay.files import write_whole
from assay.run.load.barrier import Meeting, give_up

_POLL_S = 0.05
_AGAIN_S, _SLOWEST_S = 0.2, 2.0
# A pod that was cut off comes back within this, or does not come back.
SILENT_S = 15.0
_FAREWELL_S = 3.0
_MODE = 0o644
_PATH = re.compile(r"^(jobs|run-\d+)/(?:(host|absent)-(\d+)|start)\.json$")
_LONGEST = 1 << 16
_START = "start.json"
Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BarrierAddress:
    """How the pods of a meeting reach each other."""

    host: str
    """Name of the first pod."""
    port: int
    secret: str
    """A pod that does not know it has no business at this meeting."""
    address: str = ""
    """Own address of the first pod, to listen on; all of them when empty."""


@dataclass(slots=True)
class TcpBarrier:
    """One pod at its line."""

    meeting: Meeting
    line: BarrierAddress
    runs: int
    notify: Notify = lambda _text: None
    ended: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)
    ready: threading.Event = field(default_factory=threading.Event)
    _files: dict[str, str] = field(default_factory=dict)
    """Files as everybody knows them: path → content."""
    problem: str = ""

    @property
    def leads(self) -> bool:
        """Whether this is the first pod."""
        return self.meeting.who == 0

    @property
    def over(self) -> bool:
        """Whether the first pod has said goodbye."""
        return self.ended.is_set()

    def wait_over(self, wait_s: float) -> bool:
        """Wait until the first pod says goodbye, at most so long."""
        return self.ended.wait(wait_s)

    @property
    def folder(self) -> Path:
        return Path(self.meeting.folder)

    def own(self) -> Iterator[tuple[str, str | None]]:
        """Files of this pod that were written, changed or removed since the last look: path, and content or None."""
        files = dict(self._lying())
        mine = [path for path in self._files if self._is_mine(path) and path not in files]
        for path in mine:
            if not (self.folder / Path(path).parent / _START).exists():
                del self._files[path]
                yield path, None
        for path, text in files.items():
            if self._files.get(path) != text:
                self._files[path] = text
                yield path, text

    def known(self) -> dict[str, str]:
        """Everything that is known, for a pod that joins or comes back."""
        return dict(self._files)

    def take(self, path: str, text: str | None, who: int | None = None) -> bool:
        """Write what another pod says into this pod's folder; False where it is no business of that pod.

        Args:
            who: number of the pod; None for the first one, which hands on what all others say.
        """
        match = _PATH.match(path)
        if match is None or (who is not None and match[3] != str(who)) or self._is_mine(path):
            return False
        place = self.folder / path
        with suppress(OSError):
            if text is None:
                self._files.pop(path, None)
                place.unlink(missing_ok=True)
            else:
                self._files[path] = text
                write_whole(place, text.encode(), mode=_MODE)
        return True

    def silent(self, who: int) -> None:
        """Say of a pod that it will not come, at every meeting that has not begun."""
        why = f"its pod has been silent for {SILENT_S:g} s"
        for place in (self.meeting.of_jobs(), *(self.meeting.of_run(run) for run in range(self.runs))):
            give_up(place, who, why)

    def _is_mine(self, path: str) -> bool:
        name = Path(path).name
        own = (f"host-{self.meeting.who}.json", f"absent-{self.meeting.who}.json", *([_START] if self.leads else []))
        return name in own

    def _is_ours(self, path: str) -> bool:
        """Also what the first pod says of those that fell silent."""
        return self._is_mine(path) or (self.leads and Path(path).name.startswith("absent-"))

    def _lying(self) -> Iterator[tuple[str, str]]:
        """Own files that lie in the folder now; meetings that have begun no longer change."""
        with suppress(OSError):
            for place in sorted(self.folder.iterdir()):
                begun = f"{place.name}/{_START}" in self._files and not self.leads
                if begun or not place.is_dir():
                    continue
                for path in sorted(place.iterdir()):
                    name = f"{place.name}/{path.name}"
                    if _PATH.match(name) and self._is_ours(name):
                        with suppress(OSError):
                            yield name, path.read_text()


@contextmanager
def together(meeting: Meeting, line: BarrierAddress, runs: int, notify: Notify) -> Iterator[TcpBarrier]:
    """Keep a pod at the line of its meeting for as long as the body runs."""
    pod = TcpBarrier(meeting, line, runs, notify)
    pod.folder.mkdir(parents=True, exist_ok=True)
    work = _Hub(pod).run if pod.leads else _Caller(pod).run
    thread = threading.Thread(target=lambda: asyncio.run(work()), name="meeting", daemon=True)
    thread.start()
    pod.ready.wait()
    if pod.problem:
        message = f"the first pod cannot listen for the others on port {line.port}: {pod.problem}"
        raise MeasureError(message, code="barrier", try_="set another place.kubernetes.distributed.port")
    try:
        yield pod
    finally:
        pod.closing.set()
        thread.join(2 * _FAREWELL_S)


class _Hub:
    """The first pod: takes what the others say, and hands it on."""

    def __init__(self, pod: TcpBarrier) -> None:
        self._pod = pod
        self._lines: dict[int, asyncio.StreamWriter] = {}
        self._left: set[int] = set()
        self._lost: dict[int, float] = {}

    async def run(self) -> None:
        pod = self._pod
        try:
            server = await asyncio.start_server(self._call, pod.line.address or None, pod.line.port, limit=_LONGEST)
        except OSError as problem:
            pod.problem = problem.strerror or str(problem)
            pod.ready.set()
            return
        pod.ready.set()
        async with server:
            while not pod.closing.is_set():
                await self._exchange()
                await asyncio.sleep(_POLL_S)
            await self._exchange()
            await self._farewell()

    async def _exchange(self) -> None:
        for path, text in self._pod.own():
            await self._hand_on({"file": path, "text": text}, but=None)
        now_s = asyncio.get_running_loop().time()
        for who, since_s in list(self._lost.items()):
            if now_s - since_s > SILENT_S:
                del self._lost[who]
                self._pod.notify(f"pod {who} has fallen silent")
                self._pod.silent(who)

    async def _farewell(self) -> None:
        """Tell everybody that it is over, and wait a moment for those that still have to say something."""
        await self._hand_on({"bye": True}, but=None)
        until_s = asyncio.get_running_loop().time() + _FAREWELL_S
        while self._lines and asyncio.get_running_loop().time() < until_s:
            await asyncio.sleep(_POLL_S)

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        who = None
        try:
            who = self._admitted(_read(await asyncio.wait_for(reader.readline(), _FAREWELL_S)))
            if who is None:
                return
            self._lines[who] = writer
            self._lost.pop(who, None)
            for path, text in self._pod.known().items():
                _write(writer, {"file": path, "text": text})
            await writer.drain()
            while line := await reader.readline():
                await self._said(who, _read(line))
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            if who is not None and self._lines.get(who) is writer:
                del self._lines[who]
                if who not in self._left:
                    self._lost[who] = asyncio.get_running_loop().time()

    def _admitted(self, said: Mapping[str, Any]) -> int | None:
        who, meeting = said.get("who"), self._pod.meeting
        valid = isinstance(who, int) and 0 < who < meeting.of and said.get("of") == meeting.of
        return who if valid and said.get("secret") == self._pod.line.secret else None

    async def _said(self, who: int, said: Mapping[str, Any]) -> None:
        if said.get("bye"):
            self._left.add(who)
        elif self._pod.take(str(said.get("file")), said.get("text"), who):
            await self._hand_on(said, but=who)

    async def _hand_on(self, said: Mapping[str, Any], but: int | None) -> None:
        for who, writer in list(self._lines.items()):
            if who != but:
                with suppress(OSError):
                    _write(writer, said)
                    await writer.drain()


class _Caller:
    """Any other pod: says what it wrote, and writes what it hears."""

    def __init__(self, pod: TcpBarrier) -> None:
        self._pod = pod

    async def run(self) -> None:
        pod = self._pod
        pod.ready.set()
        pause_s = _AGAIN_S
        while not pod.closing.is_set() and not pod.over:
            try:
                reader, writer = await asyncio.open_connection(pod.line.host, pod.line.port, limit=_LONGEST)
            except OSError:  # its name may not be known yet, or it does not listen yet
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, _SLOWEST_S)
                continue
            pause_s = _AGAIN_S
            with suppress(OSError, ValueError, asyncio.IncompleteReadError):
                await self._talk(reader, writer)
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pod = self._pod
        meeting = pod.meeting
        _write(writer, {"who": meeting.who, "of": meeting.of, "secret": pod.line.secret})
        for path, text in pod.known().items():  # what it said before the line was cut
            if pod._is_mine(path):
                _write(writer, {"file": path, "text": text})
        listening = asyncio.create_task(self._listen(reader))
        try:
            while not pod.closing.is_set() and not listening.done():
                self._say(writer)
                await writer.drain()
                await asyncio.sleep(_POLL_S)
            self._say(writer)
            if pod.closing.is_set():
                _write(writer, {"bye": True})
            await writer.drain()
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError, OSError, ValueError):
                await listening

    def _say(self, writer: asyncio.StreamWriter) -> None:
        for path, text in self._pod.own():
            _write(writer, {"file": path, "text": text})

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            said = _read(line)
            if said.get("bye"):
                self._pod.ended.set()
                return
            self._pod.take(str(said.get("file")), said.get("text"))


def _write(writer: asyncio.StreamWriter, said: Mapping[str, Any]) -> None:
    writer.write(json.dumps(said).encode() + b"\n")


def _read(line: bytes) -> Mapping[str, Any]:
    said = json.loads(line)
    if not isinstance(said, dict):
        raise ValueError("no message of a meeting")  # noqa: TRY004  (what came is wrong, not who asked)
    return said
