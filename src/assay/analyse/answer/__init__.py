"""What a campaign answers: the best point, the effect of each matrix axis, the reasons for doubt, and what failed.

Facts alone, pure and from the results as they are stored; `assay.report.answer` puts them into words. Nothing here is
more certain than the spread between runs allows: points whose runs do not separate them are all best, and an effect
whose interval holds 1 is "cannot tell".
"""

from assay.analyse.answer.campaign import answer_of
from assay.analyse.answer.reasons import MOST_DOUBTS, Reason, main_reason, reasons_of, severity_of
from assay.analyse.answer.records import (
    SEVERITIES,
    AnswerColumn,
    AnswerFigure,
    AnswerRow,
    AxisEffect,
    BaselineAnswer,
    BestPoints,
    BestQuality,
    CampaignAnswer,
    DoubtGroup,
    FailureGroup,
    SearchedCapacity,
    Severity,
)

__all__ = [
    "MOST_DOUBTS",
    "SEVERITIES",
    "AnswerColumn",
    "AnswerFigure",
    "AnswerRow",
    "AxisEffect",
    "BaselineAnswer",
    "BestPoints",
    "BestQuality",
    "CampaignAnswer",
    "DoubtGroup",
    "FailureGroup",
    "Reason",
    "SearchedCapacity",
    "Severity",
    "answer_of",
    "main_reason",
    "reasons_of",
    "severity_of",
]
