"""`assay serve` as a process that kills itself while it fires a schedule; all else, the clock too, is as always.

python -m tests.live.serve.dying_server before|inside|after COUNT [options of `assay serve`]
"""

import os
import signal
import sys

from assay.cli.main import main
from assay.serve.live import loops as schedules


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(where: str, after: int) -> None:
    """Die with the firing that follows so many: before its transaction, inside it, or when it is kept."""
    really, done = schedules.keep, []

    def keep(state, planned, also):
        last = len(done) == after
        if last and where == "before":
            die()

        def inside(session, campaign):
            also(session, campaign)
            session.flush()
            if last and where == "inside":
                die()

        plan = really(state, planned, also=inside)
        if last and where == "after":
            die()
        done.append(plan)
        return plan

    schedules.keep = keep


if __name__ == "__main__":
    die_at(sys.argv[1], int(sys.argv[2]))
    sys.argv = ["assay", "serve", *sys.argv[3:]]
    main()
