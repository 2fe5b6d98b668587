"""Files that leave a pod as lines of its log, and how they are put together again: whole, or not at all.

A pod shares no folder with the reader of its result; everybody who may see it may read its log. Each file is
packed, cut into lines that no runtime splits, and announced with its length and content hash. The lines of one file
carry its number and theirs, so that other words between them, lines that come twice and readers that begin again do no
harm. At the end stands a list of everything: what is missing is known to be missing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from assay.analyse.records import MultiRunJobResult
from assay.engines.kubernetes.pod.context import ENDED, ENDED_FILE, read_inside
from assay.engines.node import ProgressView
from assay.errors import AssayError
from assay.exec.document import RESULT
from assay.files import file_digest, write_whole
from assay.report.live import PlainView
from assay.run.records import SingleRunResult

MARK = "@assay"
# Runtimes of containers cut lines at 16 KiB; this many bytes become a line of half of that.
_PIECE = 6_144
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_DEEPEST = 4
# No file of a result is larger; an announcement of more does not come from assay.
MAX_BYTES = 2**31
Taken = Literal["words", "part", "file", "kept", "at", "end"]
# Less than the 10 MiB after which nodes begin a new log and forget the old one, with room for words.
LOG_BYTES = 8 * 2**20
# How long a pod waits with what did not fit: long enough for a process that follows, short enough to free its node.
HOLD_S = 600.0
# In the folder of a result: what waits there, and that it has been fetched.
HELD, TAKEN = "held.json", "taken"
_POLL_S = 0.2
# Of a pod's last words Kubernetes keeps 4096 bytes.
_LAST_WORDS = 3_000


@dataclass(frozen=True, slots=True)
class Parcel:
    """A file of a result, as it is announced."""

    path: str
    """Below the folder of the result, with /."""
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that a pod had to hand out, listed at its end."""

    sent: tuple[Parcel, ...] = ()
    held: tuple[Parcel, ...] = ()
    """Too much for a log: they wait in the pod to be fetched."""
    wait_s: float = 0.0
    """How long they wait."""


def lines_of(content: bytes, number: int, path: str) -> Iterator[str]:
    """The lines that carry one file."""
    packed = zlib.compress(content, 6)
    pieces = [packed[begin : begin + _PIECE] for begin in range(0, len(packed), _PIECE)]
    digest = hashlib.sha256(content).hexdigest()
    yield _line("file", number, {**_entry_of(Parcel(path, len(content), digest)), "lines": len(pieces)})
    for place, piece in enumerate(pieces):
        yield f"{MARK} part {number} {place} {base64.b64encode(piece).decode()}"


def kept_line(parcel: Parcel) -> str:
    """The line that says of a file that it lies on the server, under its content hash."""
    return _line("kept", 0, _entry_of(parcel))


def progress_line(progress: Mapping[str, Any]) -> str:
    """The line that says how far the job is."""
    return _line("at", 0, progress)


def end_line(contents: Contents) -> str:
    """The line that lists everything."""
    listing = {
        "sent": [_entry_of(parcel) for parcel in contents.sent],
        "held": [_entry_of(parcel) for parcel in contents.held],
        "wait_s": contents.wait_s,
    }
    return f"{MARK} end {base64.b64encode(zlib.compress(json.dumps(listing).encode())).decode()}"


def is_ours(line: str) -> bool:
    """Whether a line carries a part of a result, and no words for people."""
    return line.startswith(f"{MARK} ")


def parcel_of(out: Path, path: Path) -> Parcel:
    """A file as it is announced."""
    return Parcel(path.relative_to(out).as_posix(), path.stat().st_size, file_digest(path))


@dataclass(slots=True)
class Sender:
    """Hands out the files of one result."""

    out: Path
    write: Callable[[str], None]
    """Takes one line."""
    budget: float
    """How many characters may be written in all; what is above waits to be fetched."""
    upload: Callable[[Path, Parcel], bool] | None = None
    """Brings a file to a server; False where that cannot be done now."""
    used: int = 0
    _sent: dict[str, Parcel] = field(default_factory=dict)
    _held: dict[str, Parcel] = field(default_factory=dict)

    def send(self, paths: Iterable[Path], share: float = 1.0, *, always: bool = False) -> None:
        """Hand out files that were not handed out before, small ones first.

        Args:
            always: whether they go out in any case, because nothing means anything without them.
        """
        room = float("inf") if always else self.used + share * max(0.0, self.budget - self.used)
        there = [path for path in paths if path.is_file()]
        for path in sorted(there, key=lambda candidate: (candidate.stat().st_size, str(candidate))):
            parcel = parcel_of(self.out, path)
            if self._sent.get(parcel.path) == parcel:
                continue
            if self._uploaded(path, parcel) or self._written(path, parcel, room):
                self._sent[parcel.path] = parcel
                self._held.pop(parcel.path, None)
            else:
                self._held[parcel.path] = parcel

    @property
    def held(self) -> tuple[Parcel, ...]:
        """What was too much."""
        return tuple(self._held.values())

    def end(self, wait_s: float = 0.0) -> Contents:
        contents = Contents(tuple(self._sent.values()), self.held, wait_s if self._held else 0.0)
        self.write(end_line(contents))
        return contents

    def _uploaded(self, path: Path, parcel: Parcel) -> bool:
        if self.upload is None or not self.upload(path, parcel):
            return False
        self.write(kept_line(parcel))
        return True

    def _written(self, path: Path, parcel: Parcel, room: float) -> bool:
        # What is packed best is a tenth of itself: beyond that there is no need to try.
        if self.used + parcel.size / 10 > room:
            return False
        lines = list(lines_of(path.read_bytes(), len(self._sent), parcel.path))
        size = sum(len(line) + 1 for line in lines)
        if self.used + size > room:
            return False
        for line in lines:
            self.write(line)
        self.used += size
        return True


@dataclass(slots=True)
class _Coming:
    """A file whose lines are coming in."""

    parcel: Parcel
    lines: int
    parts: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Receiver:
    """Puts files together from lines; a file appears in the folder when it is whole, and its content is checked."""

    out: Path
    contents: Contents | None = None
    """What there was, once the sender has said so."""
    progress: Mapping[str, Any] | None = None
    """How far the job is, as it said last."""
    wrong: list[str] = field(default_factory=list)
    """What came and could not be used."""
    _coming: dict[int, _Coming] = field(default_factory=dict)
    _early: dict[int, dict[int, bytes]] = field(default_factory=dict)
    _whole: dict[str, Parcel] = field(default_factory=dict)
    _kept: dict[str, Parcel] = field(default_factory=dict)

    def take(self, line: str) -> Taken:
        """Take one line; say what it was."""
        if not is_ours(line):
            return "words"
        try:
            return self._taken(line.rstrip("\r\n").split(" ", 3))
        except (IndexError, KeyError, TypeError, ValueError, AttributeError, zlib.error) as problem:
            self.wrong.append(f"a line of {len(line)} characters: {problem}")
            return "part"

    def missing(self) -> tuple[Parcel, ...]:
        """What the sender says that it sent, and what has not come; nothing where it has not said so yet."""
        sent = () if self.contents is None else self.contents.sent
        return tuple(parcel for parcel in sent if not self.has(parcel))

    def lacking(self) -> tuple[Parcel, ...]:
        """The same, with what was held back."""
        held = () if self.contents is None else self.contents.held
        return (*self.missing(), *(parcel for parcel in held if not self.has(parcel)))

    def on_server(self) -> tuple[Parcel, ...]:
        """What lies on a server and has not been fetched from there."""
        return tuple(parcel for parcel in self._kept.values() if not self.has(parcel))

    def has(self, parcel: Parcel) -> bool:
        """Whether a file is here as it was announced."""
        return self._whole.get(parcel.path) == parcel or self._lies_there(parcel)

    def _taken(self, words: list[str]) -> Taken:
        kind, rest = words[1], words[2:]
        if kind == "part":
            place, _, content = rest[1].partition(" ")
            return self._part(int(rest[0]), int(place), base64.b64decode(content, validate=True))
        if kind == "end":
            message = json.loads(zlib.decompress(base64.b64decode(rest[0], validate=True)))
            self.contents = Contents(
                tuple(map(_parcel, message["sent"])), tuple(map(_parcel, message["held"])), float(message["wait_s"])
            )
            return "end"
        message = json.loads(rest[1])
        if kind == "file":
            return self._announced(int(rest[0]), _parcel(message), int(message["lines"]))
        if kind == "kept":
            parcel = _parcel(message)
            self._kept[parcel.path] = parcel
            return "kept"
        if kind == "at" and isinstance(message, dict):
            self.progress = message
            return "at"
        raise ValueError(f"{kind[:20]!r} is an unknown kind of line")

    def _announced(self, number: int, parcel: Parcel, lines: int) -> Taken:
        if self.has(parcel):
            self._early.pop(number, None)
            return "file"
        coming = self._coming.get(number)
        if coming is None or coming.parcel != parcel:
            self._coming[number] = coming = _Coming(parcel, lines, self._early.pop(number, {}))
        return self._complete(number, coming)

    def _part(self, number: int, place: int, content: bytes) -> Taken:
        coming = self._coming.get(number)
        if coming is None:  # a reader that began in the middle, or a file that is here already
            self._early.setdefault(number, {})[place] = content
            return "part"
        coming.parts[place] = content
        return self._complete(number, coming)

    def _complete(self, number: int, known: _Coming) -> Taken:
        if any(place not in known.parts for place in range(known.lines)):
            return "part"
        del self._coming[number]
        parcel = known.parcel
        packed = b"".join(known.parts[place] for place in range(known.lines))
        content = zlib.decompressobj().decompress(packed, parcel.size + 1)
        if len(content) != parcel.size or hashlib.sha256(content).hexdigest() != parcel.sha256:
            self.wrong.append(f"{parcel.path}: its content is another than announced")
            return "part"
        write_whole(self.out / parcel.path, content)
        self._whole[parcel.path] = parcel
        return "file"

    def _lies_there(self, parcel: Parcel) -> bool:
        with suppress(OSError):
            path = self.out / parcel.path
            if path.stat().st_size == parcel.size and parcel_of(self.out, path) == parcel:
                self._whole[parcel.path] = parcel
                return True
        return False


def _line(kind: str, number: int, content: Mapping[str, Any]) -> str:
    return f"{MARK} {kind} {number} {json.dumps(content, separators=(',', ':'))}"


def _entry_of(parcel: Parcel) -> dict[str, Any]:
    return {"path": parcel.path, "size": parcel.size, "sha256": parcel.sha256}


def _parcel(entry: Mapping[str, Any]) -> Parcel:
    """A parcel as it was written, if its path stays below the folder: a log can say anything."""
    path, size, digest = str(entry["path"]), int(entry["size"]), str(entry["sha256"])
    parts = PurePosixPath(path).parts
    if not parts or len(parts) > _DEEPEST or not all(map(_NAME.fullmatch, parts)) or "/".join(parts) != path:
        raise ValueError(f"{path[:80]!r} is no path of a result")
    if not 0 <= size <= MAX_BYTES or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ValueError(f"{path[:80]!r} is announced with {size} bytes and {digest[:80]!r}")
    return Parcel(path, size, digest)


class PodView(ProgressView):
    """Says how far the job is, and hands out every run as it ends."""

    def __init__(self, sender: Sender, before_run: Callable[[int], None] | None = None) -> None:
        """Who hands out, and what comes before each run.

        Args:
            before_run: waits for those that begin the run together with this pod; nothing to wait for when left out.
        """
        super().__init__(lambda progress: sender.write(progress_line(asdict(progress))))
        self._sender, self._before_run = sender, before_run

    def run(self, run_id: int, of: int) -> None:
        """A run begins, once everybody is there."""
        if self._before_run is not None:
            PlainView.run(self, run_id, of)  # messages in the meantime name this run
            self._before_run(run_id)
        super().run(run_id, of)

    def run_done(self, result: SingleRunResult) -> None:
        """Hand out what the run left."""
        super().run_done(result)
        left = max(1, self._runs - result.run_id)
        send_left(self._sender, 1 / left)


def say(line: str) -> None:
    """Write one line to the pod's log and flush it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def send_left(sender: Sender, share: float = 1.0) -> None:
    """Hand out everything that lies there and was not handed out: documents in any case, files as far as they fit."""
    documents = [*sorted((sender.out / "runs").glob("*.json")), sender.out / RESULT]
    sender.send(documents, always=True)
    sender.send(_files(sender.out), share)


def _files(out: Path) -> Iterable[Path]:
    """Samples and files by content; what is half-written lies apart or hidden."""
    for folder in ("samples", "files"):
        for path in (out / folder).rglob("*"):
            inside = path.relative_to(out).parts
            if path.is_file() and "incoming" not in inside and not any(part.startswith(".") for part in inside):
                yield path


def hand_over(sender: Sender, hold_s: float, unless: Callable[[], None]) -> Contents:
    """Hand out the rest, say that this was all, and wait until what did not fit has been fetched."""
    send_left(sender)
    # Written before it is announced: a reader of the announcement may come immediately.
    write_whole(sender.out / HELD, json.dumps([parcel.path for parcel in sender.held]).encode())
    contents = sender.end(hold_s)
    until_s = time.monotonic() + contents.wait_s
    while time.monotonic() < until_s and not (sender.out / TAKEN).exists():
        unless()
        time.sleep(_POLL_S)
    return contents


def last_words(environ: Mapping[str, str], state: str, code: str = "", message: str = "") -> None:
    """Leave a few words where Kubernetes keeps them with the pod, so that they are there when its log is not."""
    path = Path(environ.get(ENDED) or ENDED_FILE)
    report = {
        "state": state,
        **({"code": code} if code else {}),
        **({"message": message[:_LAST_WORDS]} if message else {}),
    }
    with suppress(OSError):
        if ENDED in environ or path.exists():  # outside of Kubernetes it does not exist
            path.write_text(json.dumps(report))


def words_of(result: MultiRunJobResult) -> tuple[str, str, str]:
    """State, code and message of a result."""
    return result.state, result.error.code if result.error else "", result.error.message if result.error else ""


def uploader(url: str, token: str | None, notify: Callable[[str], None]) -> Callable[[Path, Parcel], bool]:
    """Uploads files to a server; the first refusal is reported, and from then on the log is used."""
    from assay.place.fleet.client import FleetClient

    client = FleetClient(url, token)
    refused: list[str] = []

    def upload(path: Path, parcel: Parcel) -> bool:
        if refused:
            return False
        try:
            if not client.has(parcel.sha256):
                client.upload(path, parcel.sha256, path.name)
        except AssayError as problem:
            refused.append(problem.problem.message)
            notify(f"the server {url} does not take results: {problem.problem.message}; they go into the log instead")
            return False
        return True

    return upload


def main(arguments: list[str], out: Path | None = None) -> int:
    """Give out what is held back, or let the pod go."""
    folder = read_inside().out if out is None else out
    if arguments == ["taken"]:
        (folder / TAKEN).touch()
        return 0
    try:
        names = json.loads((folder / HELD).read_bytes())
    except OSError as problem:
        sys.stderr.write(f"nothing is held back here: {problem.strerror}\n")
        return 1
    sender = Sender(folder, _write, budget=float("inf"))
    sender.send([folder / str(name) for name in names])
    sender.end()
    sys.stdout.flush()
    return 0


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
