"""The command of a pod: in an image of its own beside this one, or together with the commands of other pods."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from assay.engines.kubernetes.pod.barrier_tcp import TcpBarrier
from assay.engines.kubernetes.pod.context import PodContext, Ranks
from assay.engines.node import begin_together
from assay.errors import MeasureError
from assay.run.load.barrier import Meeting, meet
from assay.run.services import containers
from assay.run.services.containers import VARIABLE
from assay.run.services.containers.sidecar import PROGRAM, SIDECAR, opened
from assay.spec.target import CommandTarget

_STANDING = "standing-by"
# A command needs a moment to start anyway, and finds the others by itself: no need to set the start far ahead.
LEAD_S = 0.2
_LOOK_S = 0.2
_GRACE_S = 10.0
Tell = Callable[[str], None]


@contextmanager
def beside(inside: PodContext) -> Iterator[None]:
    """Have programs run in the container beside this one for as long as the body runs; nothing where there is none.

    Both containers see the folder to work in and nothing else, so that what is made for a run must lie there.
    """
    if not _is_boxed(inside):
        yield
        return
    places = {"TMPDIR": inside.work / "tmp", "ASSAY_CACHE": inside.work / "cache"}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    os.environ.update({VARIABLE: SIDECAR.kind, **{name: str(place) for name, place in places.items()}})
    tempfile.tempdir = None  # asked for before it was set
    with opened(inside.work / PROGRAM):
        yield


def to_start(words: Sequence[str], inside: PodContext) -> tuple[list[str], dict[str, str]]:
    """How a command is started where the measured program runs: its words and variables."""
    if not _is_boxed(inside):
        return [*words], dict(os.environ)
    box = containers.Container(
        containers.Runtime(SIDECAR.kind, sys.executable), "", _STANDING, "", command=tuple(words)
    )
    return SIDECAR.words(box), SIDECAR.environment(box, os.environ)


def _is_boxed(inside: PodContext) -> bool:
    target = inside.job.definition.target
    return isinstance(target, CommandTarget) and target.is_boxed


def before_run(meeting: Meeting, within_s: float, tell: Tell) -> Callable[[int], None]:
    """What a pod does before each run: wait until all others are about to begin the same one, then for the moment."""

    def wait(run_id: int) -> None:
        tell(f"waiting for the other {meeting.of - 1} pods before run {run_id + 1}")
        met = meet(meeting.of_run(run_id), meeting.who, meeting.of, within_s, lead_s=LEAD_S)
        time.sleep(max(0.0, (met.start_at_ns - time.time_ns()) / 1e9))

    return wait


def stand_by(
    ranks: Ranks,
    line: TcpBarrier,
    within_s: float,
    tell: Tell,
    unless: Callable[[], None],
    start: tuple[Sequence[str], Mapping[str, str]] | None = None,
) -> None:
    """Run what pods but the first run, until the first says that it is over.

    Raises:
        MeasureError: if the command ends before the first pod is done.
    """
    words, environ = start or (ranks.others, os.environ)
    try:
        process = subprocess.Popen(words, env=dict(environ), stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as problem:
        message = f"cannot start {ranks.others[0]!r}: {problem.strerror}"
        remedy = "is it in the image?"
        raise MeasureError(message, code="command", at="place.kubernetes.distributed.others", try_=remedy) from None
    try:
        begin_together(line.meeting, within_s)
        tell(f"pod {ranks.rank} stands by")
        while not line.wait_over(_LOOK_S):
            unless()
            if (code := process.poll()) is not None:
                raise MeasureError(
                    f"{ranks.others[0]!r} of pod {ranks.rank} ended with code {code} before the first pod was done",
                    code="command",
                    at="place.kubernetes.distributed.others",
                    try_="it must stay: start daemons in the foreground, such as /usr/sbin/sshd -D",
                )
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
