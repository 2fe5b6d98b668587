"""The command line, ended immediately when the agent that started it is gone.

Started as `python -m assay.agent.parent_guard exec JOB.json …` by the agent, which holds the other end of its
standard input; never by a user. Without it, an agent that is killed would leave a measurement behind that no one
wants, and that disturbs the next one. The processes of the run watch their own parents and follow.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading


def main() -> None:
    """Run the command line until it ends or its parent is gone."""
    parent = os.dup(0)
    os.set_inheritable(parent, False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    sys.argv[0] = "assay"
    runpy.run_module("assay", run_name="__main__")


def _watch(parent: int) -> None:
    # Blocks in the kernel until the agent is gone: no wake-up disturbs the measurement.
    try:
        while os.read(parent, 1):
            continue
    except OSError:
        return
    # Not a step further: a result written now would blame the job for the agent's end.
    os._exit(137)


if __name__ == "__main__":
    main()
