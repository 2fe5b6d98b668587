"""What processes that measure elsewhere agree on: variables, exit codes, and how long they wait for services."""

from __future__ import annotations

from assay.spec.benchmark import Service

# Set to `off` by a campaign that was begun without the control workload.
CONTROL = "ASSAY_CONTROL"
NOT_MEASURED, ENDED_BY_SIGNAL = 3, 143
# Codes of problems after which a record of the problem could not be kept either.
NOT_KEPT = ("store", "samples", "disk")
# Fetching its image, getting ready and warming its model may each take as long as `ready.within`; then a service says
# that it failed. Only if it was killed together with whatever would report that does anybody wait longer.
_STEPS = 3
_SLACK_S = 60.0


def service_patience_s(service: Service) -> float:
    """How long others wait for a service: longer than it can take to get ready or to report that it failed."""
    return _STEPS * service.ready.within + _SLACK_S
