"""SARK's campaigns: one model URL and a list of jobs, each with a compute unit and a number of inferences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from pydantic import JsonValue

from assay.errors import UsageError
from assay.spec.benchmark import LEAST_RUNS
from assay.spec.importers.registry import Imported
from assay.spec.section import COMPUTE_UNITS, canonical

TITLE = "a SARK campaign"
DEFAULT_INFERENCES = 10
MAX_INFERENCES = 1_000_000
_KEYS = ("model_url", "jobs", "name", "labels")
_KEYS_OF_A_JOB = ("compute_unit", "num_inference_runs", "worker_id")


def recognises(document: Mapping[str, Any]) -> bool:
    """Whether a document looks like a campaign."""
    return "model_url" in document and "jobs" in document and "benchmark" not in document


def imported(document: Mapping[str, Any]) -> Imported:
    """A campaign as one benchmark document, whose matrix has a point for each job."""
    benchmarks = benchmarks_of(document)
    remarks = [f"{key}: no field of a campaign that is known; left out" for key in document if key not in _KEYS]
    remarks += [
        f"jobs[{index}].{key}: no field of a job that is known; left out"
        for index, job in enumerate(document["jobs"])
        for key in job
        if key not in _KEYS_OF_A_JOB
    ]
    if len(benchmarks) == 1:
        return Imported(benchmarks[0], tuple(remarks))
    points = [_point(entry) for entry in benchmarks]
    if len({repr(point) for point in points}) < len(points):
        remarks.append("jobs that are equal are measured once: raise measure.runs to measure more often")
    shared: dict[str, JsonValue] = {key: benchmarks[0][key] for key in ("benchmark", "labels")}
    target: dict[str, JsonValue] = {"model": benchmarks[0]["target"]["model"]}
    document = {**shared, "target": target, "measure": {"runs": LEAST_RUNS}, "matrix": {"include": points}}
    return Imported(document, tuple(remarks))


def _point(benchmark: Mapping[str, Any]) -> JsonValue:
    agent = benchmark.get("needs", {}).get("agent")
    return {
        "target.device": benchmark["target"]["device"],
        "measure.until.samples": benchmark["measure"]["until"]["samples"],
        **({"needs.agent": agent} if agent else {}),
    }


def benchmarks_of(body: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """One benchmark document for each job of a campaign.

    Args:
        body: `{model_url, jobs: [{compute_unit, num_inference_runs?, worker_id?}], name?, labels?}`.
    """
    if not isinstance(body, Mapping):
        raise _wrong("the body must be a JSON object with model_url and jobs", "body")
    absent = [key for key in ("model_url", "jobs") if key not in body]
    if absent:
        raise _wrong(f"missing required field: {' and '.join(absent)}", absent[0])
    model, jobs = _model_url(body["model_url"]), body["jobs"]
    common = {"benchmark": _name(body.get("name"), model), "labels": _labels(body.get("labels"))}
    if not isinstance(jobs, list) or not jobs:
        raise _wrong("jobs must be a list with at least one job", "jobs")
    return tuple({**common, **_definition(model, job, f"jobs[{index}]")} for index, job in enumerate(jobs))


def _definition(model: str, job: object, at: str) -> dict[str, Any]:
    if not isinstance(job, Mapping):
        raise _wrong(f"a job must be an object with compute_unit, not {job!r}", at)
    agent = job.get("worker_id") or None
    if agent is not None and not isinstance(agent, str):
        raise _wrong(f"worker_id must be text, not {agent!r}", f"{at}.worker_id")
    return {
        "target": {"model": model, "device": _device(job.get("compute_unit"), at)},
        "measure": {"runs": LEAST_RUNS, "until": {"samples": _inferences(job, at)}},
        **({"needs": {"agent": agent}} if agent else {}),
    }


def _device(unit: object, at: str) -> str:
    allowed = ", ".join(COMPUTE_UNITS.values())
    if not unit:
        raise _wrong(f"compute_unit is missing; use one of {allowed}", f"{at}.compute_unit")
    if not isinstance(unit, str) or unit not in COMPUTE_UNITS.values():
        raise _wrong(f"unknown compute_unit {unit!r}; use one of {allowed}", f"{at}.compute_unit")
    return canonical(unit)


def _inferences(job: Mapping[str, Any], at: str) -> int:
    count = job.get("num_inference_runs", DEFAULT_INFERENCES)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_INFERENCES:
        raise _wrong(
            f"num_inference_runs must be a whole number from 1 to {MAX_INFERENCES:,}, not {count!r}",
            f"{at}.num_inference_runs",
        )
    return count


def _model_url(url: object) -> str:
    if not isinstance(url, str) or not url.strip():
        raise _wrong(f"model_url must be the URL of a model, not {url!r}", "model_url")
    scheme, separator, _ = url.strip().partition("://")
    if separator and scheme.lower() not in ("http", "https"):
        raise _wrong(f"model_url must be an http or https URL, not {scheme}://", "model_url")
    return url.strip()


def _name(name: object, model: str) -> str:
    """The campaign's own name, or that of the model file."""
    if name is None:
        return unquote(model.partition("?")[0].rstrip("/").rpartition("/")[2])[:200] or "SARK campaign"
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= 200:
        raise _wrong(f"name must be text of 1 to 200 characters, not {name!r}", "name")
    return name.strip()


def _labels(labels: object) -> dict[str, str]:
    if labels is None:
        return {}
    if not isinstance(labels, Mapping) or not all(isinstance(text, str) for pair in labels.items() for text in pair):
        raise _wrong("labels must be an object of texts", "labels")
    return dict(labels)


def _wrong(message: str, at: str) -> UsageError:
    return UsageError(
        message, code="campaign", at=at, try_="send {model_url, jobs: [{compute_unit, num_inference_runs}]}"
    )
