"""The result of a job that an agent cannot start or deliver: failed, with the reason, so that nothing repeats."""

from __future__ import annotations

import json

from assay.clock import Clock, iso
from assay.errors import Problem
from assay.plan.job import Job


def failed_result(job: Job, problem: Problem, clock: Clock, phase: str = "prepare") -> bytes:
    """A result document without any run; written by hand, because its records would load numerics into the agent."""
    now = iso(clock.utc())
    failure = {"code": problem.code, "message": problem.message, "phase": phase, "try_": problem.try_}
    document = {
        "job": job.id,
        "digest": job.digest,
        "index": job.index,
        "point": dict(job.point),
        "state": "failed",
        "verdict": "invalid",
        "checks": [],
        "gates": [],
        "metrics": {},
        "runs": [],
        "total_runs": job.definition.measure.runs,
        "successful_runs": 0,
        "failed_runs": 0,
        "cold_start": {},
        "environment": {},
        "definition": job.definition.model_dump(mode="json", exclude_defaults=True),
        "started_at": now,
        "completed_at": now,
        "error": failure,
    }
    return json.dumps(document, indent=2).encode()
