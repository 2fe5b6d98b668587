"""Pods that run one command together: all of them at the same moment, or the first alone while the others stand by."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from assay.engines.kubernetes.pod.barrier_tcp import Together
from assay.engines.kubernetes.pod.context import Ranks
from assay.engines.node.rendezvous import begin_together
from assay.errors import MeasureError
from assay.run.load.barrier import Meeting, meet

# A command needs a moment to start anyway, and finds the others by itself: no need to set the start far ahead.
LEAD_S = 0.2
_LOOK_S = 0.2
_GRACE_S = 10.0
Tell = Callable[[str], None]


def before_run(meeting: Meeting, within_s: float, tell: Tell) -> Callable[[int], None]:
    """What a pod does before each run: wait until all others are about to begin the same one, then for the moment."""

    def wait(run_id: int) -> None:
        tell(f"waiting for the other {meeting.of - 1} pods before run {run_id + 1}")
        met = meet(meeting.of_run(run_id), meeting.who, meeting.of, within_s, lead_s=LEAD_S)
        time.sleep(max(0.0, (met.start_at_ns - time.time_ns()) / 1e9))

    return wait


def stand_by(
    ranks: Ranks,
    line: Together,
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
        raise MeasureError(
            f"cannot start {ranks.others[0]!r}: {problem.strerror}",
            code="command",
            at="place.kubernetes.distributed.others",
            try_="is it in the image?",
        ) from None
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
