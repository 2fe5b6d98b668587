"""How much a service can take: probes judged, the search for the highest good rate, saturation and the knee."""

from assay.analyse.capacity.belief import CapacityBelief
from assay.analyse.capacity.evidence import ProbeEvidence, evidence
from assay.analyse.capacity.probe import ProbeJudgement, ProbeOutcome, judge
from assay.analyse.capacity.search import CapacityResult, ProbeStep, RateSearch, knee, saturated

__all__ = [
    "CapacityBelief",
    "CapacityResult",
    "ProbeEvidence",
    "ProbeJudgement",
    "ProbeOutcome",
    "ProbeStep",
    "RateSearch",
    "evidence",
    "judge",
    "knee",
    "saturated",
]
