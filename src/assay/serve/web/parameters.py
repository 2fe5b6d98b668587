"""Parameters that several routes share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends, Header, Path, Query, Request, Response

from assay.place.fleet.protocol import AGENT_KEY
from assay.serve.state import ServerState, state_of
from assay.store.listing import JobFilter

Answers = dict[int | str, dict[str, Any]]  # further answers of a route, for the OpenAPI document

State = Annotated[ServerState, Depends(state_of)]

Cursor = Annotated[str | None, Query(max_length=1000, description="Where the page before ended: its `next`.")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many make a page.")]
Text = Annotated[str, Query(max_length=200)]
# Words, not text: a slip of the pen must not read as an empty list.
AgentStateName = Annotated[Literal["", "active", "busy", "cleanup", "faulty"], Query(alias="state")]
CampaignStateName = Annotated[
    Literal["", "running", "done", "partial", "failed", "cancelled", "interrupted"], Query(alias="state")
]
JobStateName = Annotated[
    Literal["", "pending", "running", "done", "failed", "cancelled", "poisoned"], Query(alias="state")
]
VerdictName = Annotated[Literal["", "valid", "suspect", "invalid"], Query()]
AgentId = Annotated[str, Path(max_length=200, description="Id of the agent, or its name where that is unique.")]
CampaignId = Annotated[str, Path(max_length=64)]
JobId = Annotated[str, Path(max_length=80)]
Fence = Annotated[int, Path(ge=0, le=2**31 - 1, description="Number of the lease.")]
RunId = Annotated[int, Path(ge=0, le=2**31 - 1)]
Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the content.")]
AgentKey = Annotated[str, Header(alias=AGENT_KEY, max_length=200, description="The key that the agent enrolled with.")]
ByAgent = Annotated[str, Query(max_length=64, description="Id of the agent.")]


def wanted_jobs(
    state: JobStateName = "",
    benchmark: Text = "",
    campaign: Text = "",
    agent: Text = "",
    verdict: VerdictName = "",
    text: Text = "",
) -> JobFilter:
    """Which jobs a request asks for."""
    return JobFilter(state, benchmark, campaign, agent, text, verdict)


WantedJobs = Annotated[JobFilter, Depends(wanted_jobs)]


def unchanged(request: Request, tag: str) -> Response | None:
    """The answer 304 when the client has this very version."""
    known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    return Response(status_code=304, headers={"ETag": tag}) if tag.removeprefix("W/") in known or "*" in known else None
