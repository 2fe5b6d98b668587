"""`python -m assay.engines.slurm.node.monitor FOLDER`: Prometheus for a campaign on a cluster, and its nodes."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from assay.engines.slurm.folder import SharedFolder
from assay.engines.slurm.node.context import CODE, SubmissionWatch
from assay.errors import AssayError, MeasureError
from assay.files import write_whole
from assay.monitoring.discovery import announcing, watched_node
from assay.monitoring.scraper import RunningPrometheus, failure_document, hold, read_order
from assay.run.scratch import scratch_folder
from assay.run.services.discovery import node_address, node_name
from assay.spec.slurm import MONITOR

GROUP = NAME = MONITOR
END = f"{MONITOR}-end"
_POLL_S = 0.2
_MODE = 0o644


def main(words: Sequence[str] | None = None) -> int:
    """Hold Prometheus until the campaign ends, the batch job is ended, or the file `stop` appears."""
    given = sys.argv[1:] if words is None else list(words)
    if len(given) != 1:
        sys.stderr.write("usage: python -m assay.engines.slurm.node.monitor FOLDER\n")
        return 2
    folder = SharedFolder(Path(given[0]))
    ended = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: ended.set())
    submission = SubmissionWatch(folder, END)
    alone: list[str] = []
    folder.failed_service(GROUP, NAME).unlink(missing_ok=True)  # of one that was submitted before

    def stopped() -> bool:
        if why := submission.abandoned():
            alone.append(why)
        return bool(alone) or ended.is_set() or folder.stop(GROUP).exists()

    try:
        watch(folder, stopped)
        if alone:
            folder.service(GROUP, NAME).unlink(missing_ok=True)
            raise MeasureError(f"the monitor ended by itself: {alone[0]}", code=CODE)
    except AssayError as problem:
        write_whole(folder.failed_service(GROUP, NAME), failure_document(problem), mode=_MODE)
        sys.stderr.write(f"{problem}\n")
        return problem.exit_code
    return 0


def watch(folder: SharedFolder, stopped: Callable[[], bool]) -> None:
    """Watch a campaign until `stopped` says so."""
    order = read_order(folder.metrics)
    if order is None:
        message = "this campaign was submitted without monitoring"
        remedy = "set `monitoring: true` in the benchmark file"
        raise MeasureError(message, code="monitoring", at=str(folder.path), try_=remedy)
    folder.services(GROUP).mkdir(parents=True, exist_ok=True)
    with scratch_folder() as scratch:
        hold(
            order,
            folder.discovery,
            folder.metrics,
            scratch,
            publish=lambda running: publish(folder, running),
            stopped=stopped,
        )


def publish(folder: SharedFolder, prometheus: RunningPrometheus) -> None:
    """Say where Prometheus is, for the tasks that wait for it and for the tunnel."""
    host = node_address()
    record = {
        "name": NAME,
        "host": host,
        "port": prometheus.port,
        "base_url": f"http://{host}:{prometheus.port}",
        "listen": prometheus.settings.listen,
        "node": node_name(),
        "slurm_job": os.environ.get("SLURM_JOB_ID"),
        "version": prometheus.api.version(),
        "published_at": time.time(),
    }
    write_whole(folder.service(GROUP, NAME), json.dumps(record, indent=1).encode(), mode=_MODE)


def wait_for_monitor(folder: SharedFolder, within_s: float) -> str | None:
    """Wait until Prometheus is there; return why not, where it is not in time or has failed."""
    until = time.monotonic() + within_s
    while not folder.service(GROUP, NAME).is_file():
        if folder.failed_service(GROUP, NAME).is_file():
            return f"the monitor failed: {reason(folder)}"
        if time.monotonic() > until:
            return f"the monitor was not there within {within_s:g} s"
        time.sleep(_POLL_S)
    return None


def reason(folder: SharedFolder) -> str:
    """Why the monitor failed, as it said itself."""
    try:
        return str(json.loads(folder.failed_service(GROUP, NAME).read_bytes())["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return "it did not say why"


@contextmanager
def watched(
    folder: SharedFolder,
    labels: Mapping[str, str],
    *,
    who: str,
    services: Sequence[str] = (),
    paths: Mapping[str, str] | None = None,
    host: str = "",
    notify: Callable[[str], None] | None = None,
) -> Iterator[bool]:
    """Have this node, and the services that are started on it, scraped while the body runs; never a reason to fail.

    Args:
        folder: the campaign's shared folder. A campaign without monitoring is left alone.
        labels: `job` for a client, `group` for services that several jobs share.
        who: a name for this batch job, one in the campaign: `g0-0003`, `g1-llm`.
        host: the address under which other nodes reach this one; found out when left out.

    Yields:
        Whether the node is watched.
    """
    order = read_order(folder.metrics)
    say = notify or (lambda _: None)
    why = "" if order is None else wait_for_monitor(folder, order.settings.within)
    if order is None or why:
        if why:
            say(f"continuing without monitoring: {why}")
        yield False
        return
    with ExitStack() as stack:
        try:
            scratch = stack.enter_context(scratch_folder())
            where = stack.enter_context(
                watched_node(
                    order.settings,
                    folder.discovery,
                    scratch,
                    {"campaign": order.campaign, **labels},
                    who=who,
                    services=services,
                    host=host or node_address(),
                    listen="0.0.0.0",  # noqa: S104 - the nodes of the campaign scrape it
                    notify=notify,
                )
            )
            stack.enter_context(announcing(replace(where, paths=dict(paths or {}))))
        except (MeasureError, OSError) as problem:
            say(f"continuing without monitoring: {problem}")
            stack.close()
            yield False
            return
        yield True


if __name__ == "__main__":
    sys.exit(main())
