"""Services started for a benchmark: processes or containers, ready before they are used, and always ended.

`started` holds services for one run, `held` for all runs of a job; both are a keeper process with a lifeline.
"""

from __future__ import annotations

from assay.run.services.service import RunningService, ServiceExit, exit_of, log_tail, refuse_ended
from assay.run.services.session import held, started

__all__ = ["RunningService", "ServiceExit", "exit_of", "held", "log_tail", "refuse_ended", "started"]
