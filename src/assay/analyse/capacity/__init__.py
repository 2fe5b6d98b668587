"""How much a service can take: probes judged, the search for the highest good rate, saturation and the knee."""

from assay.analyse.capacity.probe import ProbeJudgement, ProbeOutcome, judged
from assay.analyse.capacity.search import CapacityResult, ProbeStep, RateSearch, knee, next_step, saturated

__all__ = [
    "CapacityResult",
    "ProbeJudgement",
    "ProbeOutcome",
    "ProbeStep",
    "RateSearch",
    "judged",
    "knee",
    "next_step",
    "saturated",
]
