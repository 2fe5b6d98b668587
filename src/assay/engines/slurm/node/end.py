"""`python -m assay.engines.slurm.node.end FOLDER GROUP`: ends a group, in a batch job that starts after its clients.

It asks the services to end by their `stop` file, and cancels what has not ended by itself, or has not even begun.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from assay.engines.slurm.folder import SharedFolder
from assay.engines.slurm.node.context import read_known
from assay.engines.slurm.scheduler import BatchState, Scheduler, comment_of, is_final, named_in
from assay.errors import AssayError, MeasureError
from assay.files import write_whole
from assay.spec.slurm import MONITOR

# Longer than services are given to end when they are asked in good order.
GRACE_S = 25.0
MONITOR_GRACE_S = 300.0
_POLL_S = 1.0
_MODE = 0o644
_TRIES = 3
_BEFORE_BEGIN = ("PENDING", "CONFIGURING", "SUSPENDED", "REQUEUED")


def main(arguments: list[str]) -> int:
    """End the services of a group."""
    folder, name = SharedFolder(Path(arguments[0])), arguments[1]
    request_end(folder, name)
    try:
        from assay.engines.slurm.commands import CommandLine

        # The monitor has everything to write out that it scraped.
        grace_s = MONITOR_GRACE_S if name == MONITOR else GRACE_S
        campaign, own = read_known(folder).campaign, os.environ.get("SLURM_JOB_ID", "")
        left = end_group(CommandLine(), campaign, name, own=own, grace_s=grace_s)
    except AssayError as error:
        # Without Slurm's commands on this node the file alone does it: services look at it as long as they live.
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(f"group {name} has ended; cancelled: {', '.join(left) or 'nothing'}\n")
    return 0


def request_end(folder: SharedFolder, group: str) -> None:
    """Write the file that asks the services of a group to end."""
    write_whole(folder.stop(group), b"the clients have ended\n", mode=_MODE)


def end_group(
    scheduler: Scheduler,
    campaign: str,
    group: str,
    *,
    own: str = "",
    grace_s: float = GRACE_S,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[str, ...]:
    """Cancel the batch jobs of a group that do not end by themselves; return which those were."""
    until_s = time.monotonic() + grace_s
    while True:
        left = [job for job in _found(scheduler, campaign, group) if own not in (job.id, job.key)]
        running = [job for job in left if job.state not in _BEFORE_BEGIN]
        if not running or time.monotonic() >= until_s:
            break
        sleep(_POLL_S)
    keys = tuple(dict.fromkeys(job.key for job in left))
    if keys:
        scheduler.cancel(keys)
    return keys


def _found(scheduler: Scheduler, campaign: str, group: str) -> list[BatchState]:
    for attempt in range(_TRIES):
        try:
            jobs = scheduler.find(comment_of(campaign, group))
        except MeasureError:
            if attempt + 1 == _TRIES:
                raise
            time.sleep(_POLL_S)
        else:
            return [job for job in jobs if not is_final(job.state) and _belongs(job, campaign, group)]
    raise AssertionError("the last try returns or raises")


def _belongs(state: BatchState, campaign: str, group: str) -> bool:
    """Whether a batch job is the group's: `point-1` is no part of `point-10`."""
    name = named_in(state.comment, campaign) or ""
    return name == group or name.startswith((f"{group}-", f"{group}."))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
