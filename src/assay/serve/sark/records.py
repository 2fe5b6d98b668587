"""Our records and errors in SARK's words: same fields, same names for states."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import JsonValue
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from assay.analyse.records import CampaignRecord, MetricStatistics, MultiRunJobResult
from assay.errors import AssayError, SpecError, UsageError
from assay.place.fleet.protocol import Enrolment
from assay.place.needs import Profile
from assay.plan.job import Job, content_hash
from assay.report.export import sark_columns
from assay.report.wording import failure_sentence
from assay.serve.web.problems import RequestProblem, Unavailable, is_away, status_of
from assay.spec.importers.sark import DEFAULT_INFERENCES
from assay.spec.section import COMPUTE_UNITS, canonical, compute_unit
from assay.spec.target import ModelTarget
from assay.store.records import AgentRecord, CampaignSummary, JobSummary

WORKER_STATES = ("active", "busy", "cleanup", "faulty")
# SARK's own names; its campaigns know no word for one that was cancelled.
CAMPAIGN_STATES = {"running": "running", "done": "completed", "partial": "partial"}
JOB_STATES = {"pending": "pending", "running": "running", "done": "Complete", "cancelled": "cancelled"}
_OS = {"linux": "linux", "darwin": "macos", "macos": "macos", "windows": "windows"}
_GB = 2**30


def worker_id(agent: str) -> str:
    return f"worker-{agent.removeprefix('agent-')}"


def agent_id(worker: str) -> str:
    return f"agent-{worker.removeprefix('worker-')}" if worker.startswith("worker-") else worker


def enrolment_of(body: Mapping[str, Any]) -> Enrolment:
    """A registration of SARK's as an enrolment; what the worker says of itself is all there is."""
    facts: dict[str, JsonValue] = {str(name): value for name, value in body["device_info"].items()}
    name = str(body["device_name"])
    units = [str(unit) for unit in body["capabilities"]]
    profile = Profile(
        name=name,
        os=_OS.get(str(facts.get("DeviceOs", "")).lower(), str(facts.get("DeviceOs", "")).lower()),
        cpus=1,
        memory_bytes=int(_number(facts.get("Ram")) * _GB),
        runtimes={"onnxruntime": "unknown"} if units else {},
        devices={"onnxruntime": {kind: f"{unit}, as the worker says" for unit in units if (kind := _device(unit))}},
    )
    device: dict[str, JsonValue] = {
        "name": name,
        "ip_address": str(body["ip_address"]),
        "capabilities": [*units],
        "device_info": facts,
        "registered_by": "sark",
    }
    return Enrolment(_identity(body, facts), name, profile, device)


def worker_record(agent: AgentRecord) -> dict[str, JsonValue]:
    info = device_info(agent)
    return {
        "worker_id": worker_id(agent.id),
        "device_name": agent.name,
        "ip_address": str(agent.device.get("ip_address", "")),
        "capabilities": list(capabilities(agent)),
        "device_info": info,
        "soc": info.get("Soc", ""),
        "ram_gb": info.get("Ram"),
        "os": info.get("DeviceOs", ""),
        "os_version": info.get("DeviceOsVersion", ""),
        "udid": info.get("UDID", ""),
        "registered_at": agent.enrolled_at,
        "status": agent.state,
        "last_seen": agent.last_seen,
    }


def capabilities(agent: AgentRecord) -> tuple[str, ...]:
    """The compute units that an agent offers, by SARK's names."""
    units = agent.device.get("capabilities")
    if isinstance(units, list) and agent.device.get("registered_by") == "sark":
        return tuple(str(unit) for unit in units)
    return tuple(
        COMPUTE_UNITS[device] for device in agent.profile.devices.get("onnxruntime", {}) if device in COMPUTE_UNITS
    )


def device_info(agent: AgentRecord) -> dict[str, JsonValue]:
    """Facts about a device under SARK's names; what is not known is left out."""
    device_info = agent.device.get("device_info")
    if isinstance(device_info, dict):
        return device_info
    facts = agent.device
    fields: dict[str, JsonValue] = {
        "DeviceName": agent.name,
        "Soc": facts.get("soc") or facts.get("cpu"),
        "Ram": round(agent.profile.memory_bytes / _GB) or None,
        "DiscreteGpu": facts.get("gpu"),
        "VRam": round(agent.profile.gpu_memory_bytes / _GB) or None,
        "DeviceOs": facts.get("os") or agent.profile.os,
        "DeviceOsVersion": facts.get("os_version"),
        "UDID": facts.get("id"),
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def health_record(agent: AgentRecord, now: float, timeout_s: float) -> dict[str, JsonValue]:
    """Whether a worker was seen lately; the fifth field goes by both names that SARK's users know."""
    silent_s = max(0.0, now - agent.last_seen)
    return {
        "worker_id": worker_id(agent.id),
        "status": agent.state,
        "is_healthy": agent.state != "faulty" and silent_s < timeout_s,
        "last_heartbeat": agent.last_seen,
        "time_since_heartbeat": silent_s,
        "seconds_since_heartbeat": silent_s,
        "heartbeat_timeout": timeout_s,
    }


def unit_of(job: Job) -> str | None:
    """SARK's name of what a job runs on; None where it measures no model."""
    target = job.definition.target
    return compute_unit(target.device) if isinstance(target, ModelTarget) else None


def job_record(summary: JobSummary, job: Job, attempts: int) -> dict[str, JsonValue]:
    target = job.definition.target
    return {
        "job_id": summary.id,
        "campaign_id": summary.campaign,
        "model_url": target.model if isinstance(target, ModelTarget) else None,
        "compute_unit": unit_of(job),
        "worker_id": worker_id(summary.agent) if summary.agent else None,
        "device_name": summary.agent_name,
        "num_inference_runs": job.definition.measure.until.samples or DEFAULT_INFERENCES,
        "submitted_at": summary.submitted_at,
        "status": JOB_STATES.get(summary.state, "Failed"),
        "retry_count": max(0, attempts - 1),
        "started_at": summary.started_at,
        "completed_at": summary.ended_at,
        "timeout_seconds": job.definition.measure.timeout,
    }


def campaign_record(
    summary: CampaignSummary, jobs: Sequence[Mapping[str, JsonValue]], created_at: float, results_file: str | None
) -> dict[str, JsonValue]:
    counts = breakdown(summary)
    return {
        "campaign_id": summary.id,
        "model_url": next((job["model_url"] for job in jobs), None),
        "total_jobs": summary.jobs,
        "jobs": [dict(job) for job in jobs],
        "created_at": created_at,
        "status": CAMPAIGN_STATES.get(summary.state, "failed"),
        "completed_jobs": counts["complete"],
        "failed_jobs": counts["failed"],
        "results_file": results_file,
    }


def breakdown(summary: CampaignSummary) -> dict[str, int]:
    """Jobs by state, in SARK's four words: every job is in one of them."""
    counts = summary.counts
    ended_badly = sum(counts.get(state, 0) for state in ("failed", "cancelled", "poisoned"))
    return {
        "pending": counts.get("pending", 0),
        "running": counts.get("running", 0),
        "complete": counts.get("done", 0),
        "failed": ended_badly,
    }


def result_record(record: CampaignRecord, result: MultiRunJobResult, worker: str | None) -> dict[str, JsonValue]:
    """A result under the names that SARK's workers used; what was not measured is left out."""
    columns = {name: value for name, value in sark_columns(record, result).items() if value is not None}
    failure = result.failure if result.state != "done" else None
    return {
        "job_id": result.job,
        "campaign_id": record.campaign,
        "worker_id": worker,
        "status": columns["Status"],
        **columns,
        **_extremes("LoadMs", result.metrics.get("load_ms")),
        **_extremes("InferenceMs", result.metrics.get("latency_ms")),
        **({"remark": failure_sentence(failure)} if failure else {}),
    }


def queue_name(unit: str) -> str:
    """The name of a capability's queue: `CPU (ONNX)` is `cpu_onnx`."""
    return unit.lower().replace(" ", "_").replace("(", "").replace(")", "")


def _extremes(prefix: str, stats: MetricStatistics | None) -> dict[str, float]:
    return {f"{prefix}Min": stats.min, f"{prefix}Max": stats.max} if stats else {}


def _identity(body: Mapping[str, Any], facts: Mapping[str, JsonValue]) -> str:
    """What tells two workers apart: the device's own id, else everything that it says of itself, its address too."""
    own = facts.get("UDID")
    said = [body["device_name"], body["ip_address"], *(facts.get(name) for name in ("Soc", "Ram", "DeviceOs"))]
    return f"sark-{content_hash([own] if own else said)}"


def _device(unit: str) -> str | None:
    try:
        return canonical(unit)
    except ValueError:
        return None


def _number(value: JsonValue) -> float:
    try:
        return max(0.0, float(str(value).split()[0]))
    except (ValueError, IndexError):
        return 0.0


_Answer = Callable[[Request], Coroutine[Any, Any, Response]]


class SarkRoute(APIRoute):
    """A route whose errors have SARK's shape; what is our own fault still goes to the log."""

    def get_route_handler(self) -> _Answer:
        inner = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await inner(request)
            except RequestProblem as problem:
                return _error(problem.status_code, str(problem.body["detail"]), problem.headers)
            except HTTPException as problem:
                return _error(problem.status_code, str(problem.detail), problem.headers)
            except (AssayError, SQLAlchemyError) as problem:
                return _ours(problem)

        return answered


async def json_body(request: Request) -> dict[str, Any]:
    """The body as a JSON object, whatever type the client says it has: SARK's own examples name none."""
    try:
        body = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON", code="body") from None
    if not isinstance(body, dict):
        raise UsageError("the body must be a JSON object", code="body")
    return body


def _ours(problem: AssayError | SQLAlchemyError) -> Response:
    if is_away(problem):
        away = Unavailable()
        return _error(away.status_code, str(away.detail), away.headers)
    if isinstance(problem, SQLAlchemyError):
        raise problem
    status = HTTPStatus.BAD_REQUEST if isinstance(problem, SpecError) else status_of(problem)
    text = "; ".join(detail.message for detail in problem.problems)
    return _error(status, f"{text}; {problem.problem.try_}" if problem.problem.try_ else text)


def _error(status: int, text: str, headers: Any = None) -> JSONResponse:  # noqa: ANN401  (a mapping or nothing)
    return JSONResponse({"error": text}, status_code=status, headers=dict(headers or {}))
