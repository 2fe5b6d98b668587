"""How much a service can take: probes judged, the search for the highest good rate, saturation and the knee."""

from assay.analyse.capacity.probe import ProbeJudgement, ProbeOutcome, judge_probe, judged
from assay.analyse.capacity.saturation import Knee, knee, saturated
from assay.analyse.capacity.search import CapacityResult, ProbeStep, RateSearch, next_step

__all__ = [
    "CapacityResult",
    "Knee",
    "ProbeJudgement",
    "ProbeOutcome",
    "ProbeStep",
    "RateSearch",
    "judge_probe",
    "judged",
    "knee",
    "next_step",
    "saturated",
]
