"""The process that keeps a system running.

Started as `python -m assay.infra.processes FOLDER` by `assay infra create`; never by a user. It leaves the shell that
it was started from, and ends by SIGTERM: first all parts, then itself. When it is killed, the parts end by themselves.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from assay.errors import AssayError
from assay.infra.processes.parts import RECORD, LocalRecord, answer_of, parts_of
from assay.infra.processes.supervisor import SUPERVISOR, Supervisor, supervisor_runs
from assay.infra.record import kept, make_keys
from assay.run.processes import adopt_orphans
from assay.run.scratch import held


def main(folder: Path) -> int:
    record = kept(folder, RECORD, LocalRecord)
    if record is None:
        sys.stderr.write(f"there is no system in {folder}\n")
        return 2
    if _is_taken(folder):
        sys.stderr.write("another supervisor runs\n")
        return 2
    adopt_orphans()
    keys = make_keys(folder)
    with held(folder / SUPERVISOR):
        parts = parts_of(folder, record, keys)
        Supervisor(folder, parts, lambda part: answer_of(part, record, keys), os.environ).run()
    return 0


def _is_taken(folder: Path) -> bool:
    """Whether another supervisor runs; a process that only looks holds the folder for a moment too."""
    for _ in range(20):
        if not supervisor_runs(folder):
            return False
        time.sleep(0.1)
    return True


def leave_the_shell() -> None:
    """Continue in a detached process; the one that was started exits."""
    if os.fork():
        os._exit(0)
    os.setsid()


if __name__ == "__main__":
    leave_the_shell()
    try:
        sys.exit(main(Path(sys.argv[1])))
    except AssayError as problem:
        sys.stderr.write(f"{problem}\n")
        sys.exit(problem.exit_code)
