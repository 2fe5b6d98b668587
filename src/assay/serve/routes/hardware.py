"""What the results of an agent tell of its machine."""

from __future__ import annotations

from fastapi import APIRouter

from assay.serve.facts.hardware import hardware_of
from assay.serve.facts.records import AgentHardware
from assay.serve.routes.agents import agent_id
from assay.serve.web.access import readers
from assay.serve.web.parameters import AgentId, State

router = APIRouter(prefix="/api/v1/agents", tags=["agents"])


@router.get("/{agent}/hardware", dependencies=[readers])
def get_agent_hardware(agent: AgentId, state: State) -> AgentHardware:
    """Read the fitness, the noise and the tests of an agent's machine, from the newest results that it delivered."""
    return hardware_of(state.kept, state.kept.control.agent(agent_id(state, agent)))
