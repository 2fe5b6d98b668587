"""Campaigns, jobs, agents and labels held against each other."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from assay.serve.facts.compare import compare_sides
from assay.serve.facts.frontier import frontier_of
from assay.serve.facts.records import Comparison, Frontier
from assay.serve.facts.sides import read_sides
from assay.serve.web.access import readers
from assay.serve.web.parameters import State, Text

router = APIRouter(prefix="/api/v1", tags=["results"])

_SIDE = "`campaign:ID`, `job:ID`, `agent:NAME` or `label:KEY=VALUE`; may be given several times."
Side = Annotated[str, Query(max_length=300)]
Sides = Annotated[list[Side], Query(min_length=2, max_length=8, description=f"{_SIDE} The first is the base.")]
OneSide = Annotated[list[Side], Query(min_length=1, max_length=8, description=_SIDE)]
Metrics = Annotated[list[str], Query(max_length=20, description="Only these metrics; the headline ones when left out.")]
Metric = Annotated[str, Query(min_length=1, max_length=200)]
Anyway = Annotated[
    bool | None,
    Query(description="Compare although machine or settings differ; as agents are compared when left out."),
]


@router.get("/compare", dependencies=[readers])
def compare(
    side: Sides,
    state: State,
    metric: Metrics = [],  # noqa: B006 - FastAPI copies it
    benchmark: Text = "",
    anyway: Anyway = None,
) -> Comparison:
    """Compare sides with the first of them: better, worse, or cannot tell and why."""
    return compare_sides(read_sides(state.kept, side, benchmark), metric, anyway=anyway)


@router.get("/frontier", dependencies=[readers])
def get_frontier(
    side: OneSide, x: Metric, y: Metric, state: State, per: Literal["", "watt", "dollar"] = "", benchmark: Text = ""
) -> Frontier:
    """Hold jobs between two metrics, and say which of them no other one beats; `per` divides the second metric."""
    return frontier_of(state.kept, read_sides(state.kept, side, benchmark), x, y, per)
