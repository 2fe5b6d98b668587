"""What the tests of the server share: a machine, a benchmark, a result, and an agent made of requests."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import httpx
import numpy as np

from assay.analyse.judge import judge
from assay.documents import from_json, to_json, to_plain
from assay.place.fleet.protocol import LeaseGiven
from assay.plan.job import Job
from assay.run.records import DeviceProof, Failure, RunOutcome, SampleSet, SingleRunResult
from assay.store.samples import encode

AT = "2026-01-01T00:00:00.000+00:00"


def profile(name: str = "box", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "os": "linux",
        "cpus": 4,
        "memory_bytes": 8 * 2**30,
        "runtimes": {"onnxruntime": "1.20"},
        "devices": {"onnxruntime": {"cpu": "CPU"}},
        **more,
    }


def enrolment(name: str = "box", **more: Any) -> dict[str, Any]:
    return {"identity": f"identity of {name}", "name": name, "profile": profile(name), "version": "0.1.0", **more}


def benchmark(name: str = "speed", batches: tuple[int, ...] = (1, 2), **more: Any) -> dict[str, Any]:
    return {
        "benchmark": name,
        "target": {"model": "squeezenet"},
        "measure": {"runs": 3},
        "matrix": {"workload.batch": list(batches)},
        **more,
    }


def samples_file(seed: int = 0) -> tuple[bytes, str]:
    """A sample file as an agent makes one, and its hash."""
    values = np.random.default_rng(seed).normal(10.0, 0.1, 50)
    content = bytes(encode((SampleSet("latency_ms", "measure", np.arange(50, dtype=np.int64) * 10_000_000, values),)))
    return content, hashlib.sha256(content).hexdigest()


def result_of(job: Job, *, failed: bool = False, samples: str | None = None, scale: float = 1.0) -> dict[str, Any]:
    """A result document as `assay exec` writes one."""
    outcomes = []
    for run in range(3):
        error = Failure("crashed", "the process died", phase="load") if failed else None
        values = np.random.default_rng(run).normal(10.0 * scale, 0.1, 50)
        sets = (SampleSet("latency_ms", "measure", np.arange(50, dtype=np.int64) * 10_000_000, values),)
        ran = SingleRunResult(
            run,
            run == 0,
            AT,
            AT,
            1.0,
            metrics={"load_ms": 5.0},
            error=error,
            device=DeviceProof("cpu", "cpu", {"CPUExecutionProvider": 5}, "the profile"),
        )
        outcomes.append(RunOutcome(ran, () if failed else sets))
    result = judge(job, outcomes, {"machine": {"name": "box"}}, planned_runs=3)
    runs = tuple(replace(run, samples=samples if run.run_id == 0 else None) for run in result.runs)
    return to_plain(replace(result, runs=runs))


class Agent:
    """A device that speaks to a server in plain requests."""

    def __init__(self, client: httpx.Client, name: str = "box", **more: Any) -> None:
        self.client, self.name = client, name
        answer = client.post("/agents", json=enrolment(name, **more))
        assert answer.status_code in (200, 201), answer.text
        self.enrolled = answer.json()
        self.id = self.enrolled["agent"]

    def lease(self, wait_s: float = 60.0, device: str = "") -> LeaseGiven | None:
        answer = self.client.post(f"/agents/{self.id}/lease", json={"wait_s": wait_s, "device": device})
        if answer.status_code == 204:
            return None
        assert answer.status_code == 200, answer.text
        return from_json(LeaseGiven, answer.content, source="server")

    def beat(self, *held: LeaseGiven, state: str = "busy") -> httpx.Response:
        told = [{"job": one.job.id, "fence": one.fence} for one in held]
        return self.client.post(f"/agents/{self.id}/heartbeat", json={"state": state, "held": told})

    def deliver(self, lease: LeaseGiven, document: dict[str, Any] | None = None) -> httpx.Response:
        path = f"/jobs/{lease.job.id}/attempts/{lease.fence}/result"
        document = result_of(lease.job) if document is None else document
        return self.client.put(path, params={"agent": self.id}, json=document)

    def progress(self, lease: LeaseGiven, **more: Any) -> httpx.Response:
        told = {"agent": self.id, "run": 0, "runs": 3, "phase": "measure", "share": 0.5, **more}
        return self.client.post(f"/jobs/{lease.job.id}/attempts/{lease.fence}/progress", json=told)

    def upload(self, content: bytes, name: str = "a file") -> str:
        digest = hashlib.sha256(content).hexdigest()
        answer = self.client.put(f"/artefacts/{digest}", params={"name": name}, content=content)
        assert answer.status_code in (200, 201), answer.text
        return digest

    def work(self) -> int:
        """Do every job there is; how many."""
        done = 0
        while (lease := self.lease(wait_s=0)) is not None:
            assert self.deliver(lease).json() == {"delivery": "accepted"}
            done += 1
        return done


def submit(client: httpx.Client, document: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    answer = client.post("/campaigns", json={"document": document or benchmark(), **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def is_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check an error answer and give its body."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (body["status"], body["code"]) == (status, code), body
    assert body["detail"]
    return body


def document_of(job: Job) -> str:
    return to_json(job)
