"""One job in a pod: `python -m assay.engines.kubernetes.pod.task`; its environment says where its documents are.

It waits for the services of its job and for the pods that go with it, measures the job document, and hands the result
out through its log. A job that cannot be begun leaves a result that says why. A command runs here, in an image of its
own in a container beside this one, or together with the commands of other pods.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.analyse.records import MultiRunJobResult
from assay.documents import to_json
from assay.engines.kubernetes.pod.barrier_tcp import BarrierAddress, TcpBarrier, together
from assay.engines.kubernetes.pod.context import SERVER, PodContext, Ranks, await_services, read_inside
from assay.engines.kubernetes.pod.log_transport import (
    HOLD_S,
    LOG_BYTES,
    PodView,
    Sender,
    hand_over,
    last_words,
    say,
    send_left,
    uploader,
    words_of,
)
from assay.engines.node import (
    CONTROL,
    ENDED_BY_SIGNAL,
    NOT_MEASURED,
    TerminationRequest,
    TerminationWatch,
    begin_together,
    give_up_all,
)
from assay.errors import NOT_KEPT, AssayError, MeasureError
from assay.exec.document import execute_document, refuse_document
from assay.files import write_whole
from assay.plan.job import Job, is_part
from assay.run.job_files import materialise
from assay.run.load.barrier import Meeting, meet
from assay.run.services import RunningService, containers
from assay.run.services.containers import VARIABLE
from assay.run.services.containers.sidecar import PROGRAM, SIDECAR, opened
from assay.spec.target import CommandTarget

TOKEN = "ASSAY_TOKEN"  # noqa: S105  (the name of a variable)
# Set to keep less in the log than a node allows, and to wait longer or shorter with what does not fit.
LOG, HOLD = "ASSAY_POD_LOG_BYTES", "ASSAY_POD_HOLD_S"
# A pod that is not the first of its job hands out its documents; the measurement is the first one's.
_OTHERS_BYTES = 2**20
_STANDING = "standing-by"
# A command needs a moment to start anyway, and finds the others by itself: no need to set the start far ahead.
LEAD_S = 0.2
_POLL_S = 0.2
_GRACE_S = 10.0
Notify = Callable[[str], None]


def main() -> int:
    """Measure the job of this pod."""
    watchman = TerminationWatch()
    watchman.listen()
    # A job could ask for the token by its name, and send it anywhere.
    token = os.environ.pop(TOKEN, None)
    try:
        return PodTask(read_inside(), watchman, token).run()
    except TerminationRequest as why:
        sys.stderr.write(f"ended: {why}\n")
        last_words(os.environ, "ended", "ended", str(why))
        return ENDED_BY_SIGNAL
    except AssayError as error:
        sys.stderr.write(f"{error}\n")
        last_words(os.environ, "failed", error.problem.code, error.problem.message)
        return error.exit_code


@dataclass(slots=True)
class PodTask:
    """One pod and its job."""

    inside: PodContext
    watchman: TerminationWatch
    token: str | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def run(self) -> int:
        """Measure, hand the result out, and return the exit code."""
        budget = float(self.environ.get(LOG, LOG_BYTES)) if self._first else float(_OTHERS_BYTES)
        server = self.environ.get(SERVER)
        upload = None if not server else uploader(server, self.token, lambda text: say(f"note      {text}"))
        sender = Sender(self.inside.out, say, budget, upload)
        try:
            with beside(self.inside):
                result = self._measured(sender)
        except TerminationRequest:
            send_left(sender)  # runs that were finished are not lost with the pod
            raise
        if result is None:
            last_words(self.environ, "done")
            return 0
        last_words(self.environ, *words_of(result))
        with suppress(TerminationRequest):  # all that fits is out already; no process fetches the rest now
            hand_over(sender, float(self.environ.get(HOLD, HOLD_S)), self.watchman.check)
        return 0 if result.state == "done" else NOT_MEASURED

    @property
    def _first(self) -> bool:
        """Whether the result of this pod is that of its job."""
        return self.inside.ranks is None or self.inside.ranks.rank == 0 or is_part(self.inside.job.definition)

    def _measured(self, sender: Sender) -> MultiRunJobResult | None:
        inside, job = self.inside, self.inside.job
        path = inside.work / "job.json"
        view = PodView(sender)
        why = "its pod was ended"
        with ExitStack() as stack:
            meeting: Meeting | None = None
            try:
                job = self._unpacked(path)
                line = stack.enter_context(self._line(job, view.note))
                meeting = line.meeting if line is not None else None
                if line is not None and self._stands_by():
                    self._stand_by(line, job, view.note)
                    return None
                services = await_services(inside, notify=view.note, unless=self.watchman.check)
                result = self._executed(path, job, sender, line, services)
                why = result.error.message if result.error is not None else "it has ended"
            except AssayError as problem:
                if problem.problem.code in NOT_KEPT:
                    raise
                why = problem.problem.message
                result = refuse_document(path, inside.out, PodView(sender), problem)
            finally:
                if meeting is not None:
                    give_up_all(meeting, job.definition.measure.least_runs, why)
        return result

    def _unpacked(self, path: Path) -> Job:
        """The job with its files where it looks for them, written down for the process that measures it."""
        inside, job = self.inside, self.inside.job
        inside.base.mkdir(parents=True, exist_ok=True)
        write_whole(path, to_json(replace(job, base=str(inside.base)), indent=2).encode())
        job = materialise(job, inside.base, inside.fetch) if job.files else replace(job, base=str(inside.base))
        write_whole(path, to_json(job, indent=2).encode())
        return job

    def _executed(
        self, path: Path, job: Job, sender: Sender, line: TcpBarrier | None, services: Mapping[str, RunningService]
    ) -> MultiRunJobResult:
        meeting = None if line is None else line.meeting
        patience_s = job.definition.longest_s
        hook: Callable[[int], None] | None = None
        if meeting is not None:
            say(f"note      pod {meeting.who} of {meeting.of} waits for the others")
            begin_together(meeting, patience_s)
            if not is_part(job.definition) and self.inside.ranks is not None and self.inside.ranks.launch == "each":
                # A command does not meet others by itself, so that they meet before it is started.
                hook = before_run(meeting, patience_s, lambda text: say(f"note      {text}"))
        control = self.environ.get(CONTROL) != "off"
        return execute_document(
            path,
            self.inside.out,
            PodView(sender, hook),
            services=services,
            control=control,
            meeting=meeting if is_part(job.definition) else None,
        )

    @contextmanager
    def _line(self, job: Job, notify: Callable[[str], None]) -> Iterator[TcpBarrier | None]:
        """The line to the pods that go with this one; None where it goes alone."""
        ranks = self.inside.ranks
        if ranks is None:
            yield None
            return
        meeting = Meeting(str(self.inside.work / "meeting"), ranks.rank, len(ranks.peers))
        line = BarrierAddress(ranks.peers[0], ranks.port, self.inside.secret, self.inside.address)
        with together(meeting, line, job.definition.measure.least_runs, notify) as barrier:
            yield barrier

    def _stands_by(self) -> bool:
        ranks = self.inside.ranks
        return ranks is not None and ranks.launch == "first" and ranks.rank > 0

    def _stand_by(self, line: TcpBarrier, job: Job, notify: Callable[[str], None]) -> None:
        ranks = self.inside.ranks
        if ranks is None:
            raise AssertionError("only one of several pods stands by")
        patience_s = job.definition.longest_s
        stand_by(ranks, line, patience_s, notify, self.watchman.check, to_start(ranks.others, self.inside))


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


def before_run(meeting: Meeting, within_s: float, notify: Notify) -> Callable[[int], None]:
    """What a pod does before each run: wait until all others are about to begin the same one, then for the moment."""

    def wait(run_id: int) -> None:
        notify(f"waiting for the other {meeting.of - 1} pods before run {run_id + 1}")
        met = meet(meeting.of_run(run_id), meeting.who, meeting.of, within_s, lead_s=LEAD_S)
        time.sleep(max(0.0, (met.start_at_ns - time.time_ns()) / 1e9))

    return wait


def stand_by(
    ranks: Ranks,
    line: TcpBarrier,
    within_s: float,
    notify: Notify,
    unless: Callable[[], None],
    start: tuple[Sequence[str], Mapping[str, str]] | None = None,
) -> None:
    """Run what pods but the first run, until the first says that it is over."""
    words, environ = start or (ranks.others, os.environ)
    try:
        process = subprocess.Popen(words, env=dict(environ), stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as problem:
        message = f"cannot start {ranks.others[0]!r}: {problem.strerror}"
        remedy = "is it in the image?"
        raise MeasureError(message, code="command", at="place.kubernetes.distributed.others", try_=remedy) from None
    try:
        begin_together(line.meeting, within_s)
        notify(f"pod {ranks.rank} stands by")
        while not line.wait_over(_POLL_S):
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


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
