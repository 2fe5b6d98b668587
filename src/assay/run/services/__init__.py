"""Services started for a benchmark: processes or containers, ready before they are used, and always ended.

`started` holds services for one run, `held` for all runs of a job; both are a keeper process with a lifeline.
"""

from __future__ import annotations

from assay.run.services.holding import held, started
from assay.run.services.running import Ending, Running, ended, log_tail, refuse_ended

__all__ = ["Ending", "Running", "ended", "held", "log_tail", "refuse_ended", "started"]
