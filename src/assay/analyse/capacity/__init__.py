"""How much a service can take: probes judged, the search for the highest good rate, saturation and the knee."""

from assay.analyse.capacity.knee import Knee, knee
from assay.analyse.capacity.probe import Judged, ProbeOutcome, judge_probe, judged
from assay.analyse.capacity.saturation import saturated
from assay.analyse.capacity.search import Done, RateSearch, Step, next_step

__all__ = [
    "Done",
    "Judged",
    "Knee",
    "ProbeOutcome",
    "RateSearch",
    "Step",
    "judge_probe",
    "judged",
    "knee",
    "next_step",
    "saturated",
]
