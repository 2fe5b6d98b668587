"""How a pod hands out what it measured: after every run what that left, at the end the rest, large files on request.

A node keeps only so much of a log (10 MiB by default), and gives out no more than that: what a pod writes is kept below
it. What does not fit waits in the pod for a while, for whoever may run a command there.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from assay.analyse.records import MultiRunJobResult
from assay.engines.kubernetes.pod.inside import ENDED, ENDED_FILE
from assay.engines.kubernetes.pod.parcels import Contents, Parcel, Sender, progress_line
from assay.errors import AssayError
from assay.exec.document import RESULT
from assay.files import write_whole
from assay.report.live import PlainView
from assay.run.records import SingleRunResult

# Less than the 10 MiB after which nodes begin a new log and forget the old one, with room for words.
LOG_BYTES = 8 * 2**20
# How long a pod waits with what did not fit: long enough for somebody who follows, short enough to free its node.
HOLD_S = 600.0
EVERY_S = 5.0
# In the folder of a result: what waits there, and that somebody has fetched it.
HELD, TAKEN = "held.json", "taken"
_LOOK_S = 0.2
# Of a pod's last words Kubernetes keeps 4096 bytes.
_LAST_WORDS = 3_000


class PodView(PlainView):
    """Says what a plain view says, how far the job is, and hands out every run as it ends."""

    def __init__(self, sender: Sender, before_run: Callable[[int], None] | None = None) -> None:
        """Who hands out, and what comes before each run.

        Args:
            before_run: waits for those that begin the run together with this pod; nobody when left out.
        """
        super().__init__(sys.stdout)
        self._sender, self._before_run = sender, before_run
        self._told: dict[str, object] = {}
        self._written_s = -EVERY_S

    def run(self, run_id: int, of: int) -> None:
        """A run begins, once everybody is there."""
        super().run(run_id, of)
        if self._before_run is not None:
            self._before_run(run_id)
        self._told = {"run": run_id + 1, "of": of, "phase": "", "share": 0.0}
        self._write()

    def phase(self, name: str) -> None:
        self._told |= {"phase": name, "share": 0.0}
        self._write()

    def progress(self, share: float, note: str) -> None:  # noqa: ARG002  (notes are for whoever stands beside)
        """So much of the phase is done."""
        self._told["share"] = share
        if time.monotonic() - self._written_s >= EVERY_S:
            self._write()

    def run_done(self, result: SingleRunResult) -> None:
        """Hand out what the run left."""
        super().run_done(result)
        left = max(1, self._runs - result.run_id)
        send_left(self._sender, 1 / left)

    def _write(self) -> None:
        if "run" in self._told:
            self._written_s = time.monotonic()
            self._sender.write(progress_line(self._told))


def say(line: str) -> None:
    """Write one line to the pod's log, at once."""
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
    """Hand out the rest, say that this was all, and wait for whoever fetches what did not fit."""
    send_left(sender)
    # Written before it is told: whoever reads of it may come at once.
    write_whole(sender.out / HELD, json.dumps([one.path for one in sender.held]).encode())
    contents = sender.end(hold_s)
    until_s = time.monotonic() + contents.wait_s
    while time.monotonic() < until_s and not (sender.out / TAKEN).exists():
        unless()
        time.sleep(_LOOK_S)
    return contents


def last_words(environ: Mapping[str, str], state: str, code: str = "", message: str = "") -> None:
    """Leave a few words where Kubernetes keeps them with the pod, so that they are there when its log is not."""
    path = Path(environ.get(ENDED) or ENDED_FILE)
    told = {
        "state": state,
        **({"code": code} if code else {}),
        **({"message": message[:_LAST_WORDS]} if message else {}),
    }
    with suppress(OSError):
        if ENDED in environ or path.exists():  # outside of Kubernetes nobody made it
            path.write_text(json.dumps(told))


def words_of(result: MultiRunJobResult) -> tuple[str, str, str]:
    """State, code and message of a result."""
    return result.state, result.error.code if result.error else "", result.error.message if result.error else ""


def uploader(url: str, token: str | None, tell: Callable[[str], None]) -> Callable[[Path, Parcel], bool]:
    """Brings files to a server; a server that does not take one is told once, and the log is used instead."""
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
            tell(f"the server {url} does not take results: {problem.problem.message}; they go into the log instead")
            return False
        return True

    return upload
