"""Every kind of object that assay makes on Kubernetes, from files that ask for everything there is to ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from assay.engines.kubernetes.client.api import Version
from assay.engines.kubernetes.objects.manifests import (
    JobSubmission,
    Setting,
    document,
    file_names,
    file_objects,
    job_objects,
    secret,
)
from assay.engines.kubernetes.objects.plan import group
from assay.engines.kubernetes.objects.pods import meeting_service
from assay.engines.kubernetes.objects.services import service_objects
from assay.plan.plan import make_plan
from assay.spec.kubernetes import Kubernetes
from assay.spec.load import load

CAMPAIGN, NAMESPACE = "c0ffee12", "measuring"
FILE = b"a file that goes with the jobs"
COMMAND = {"command": "true", "metrics": [{"name": "x", "pattern": "x=(.*)"}]}
SERVED = {"service": "llm", "api": "openai-chat", "model": "m"}
READY = {"http": "/health", "command": "true", "within": "30s"}
SERVICES = {"llm": {"command": "serve --port {port} --db {host:db}:{port:db}", "port": 9000, "ready": READY,
                    "env": {"TOKEN": "${env:TOKEN}", "PRICE": "5$"}, "needs": {"gpus": 1}},
            "db": {"image": "docker://db:1", "ready": {"tcp": True},
                   "fetch": [{"src": "s3://b/x/", "path": "/x"}]}}  # fmt: skip
LOAD = {"concurrency": 9, "duration": "4s"}
EVERYTHING = {
    "pull": "missing", "pull_secret": ["login", "other"], "node_selector": {"zone": "a"}, "one_per_node": True,
    "tolerations": ["nvidia.com/gpu=present:NoSchedule", {"key": "spot", "effect": "NoExecute", "within": "60s"}],
    "cpus": 1.5, "memory": "2GiB", "storage": "1GiB", "gpus": 2, "resources": {"rdma/hca": 1}, "shm": "1GiB",
    "priority_class": "measuring", "runtime_class": "nvidia", "scheduler": "default-scheduler", "queue": "lane",
    "service_account": "bench", "env": {"MODE": "$fast $(x)"}, "secrets": {"A": "own/key", "B": "${env:B}"},
    "volumes": {"claim": "/data"}, "labels": {"team": "a"}, "annotations": {"example.com/why": "a b"},
    "privileged": True, "deadline": "5m",
}  # fmt: skip
EACH = {key: value for key, value in EVERYTHING.items() if key not in ("deadline", "queue", "secrets")}
SECRET = {"secrets": {"TOKEN": "own/token"}}
# Name → what the file says besides; `asked` goes into place.kubernetes.
FILES: dict[str, dict[str, Any]] = {
    "plain": {},
    "several": {"matrix": {"target.env.N": ["1", "2"]}},
    "everything": {"asked": EVERYTHING},
    "restricted": {"asked": {"restricted": True}},
    "services": {"target": SERVED, "services": SERVICES, "load": LOAD, "asked": {**SECRET, "each": {"db": EACH}}},
    "clients": {"target": SERVED, "services": SERVICES, "load": LOAD, "asked": {**SECRET, "clients": 3}},
    "services in the pod": {
        "target": SERVED, "services": {"llm": {"command": "serve"}}, "load": LOAD, "asked": {"services": "pod"},
    },
    "ranks": {"asked": {"distributed": {"pods": 3, "ranks": 2}}},
    "ranks by MPI": {"asked": {"distributed": {"pods": 2, "launch": "first", "others": "/usr/sbin/sshd -D"}}},
    "an image of its own": {"target": {**COMMAND, "image": "docker://team/bench:1"}},
}  # fmt: skip


def version(minor: int) -> Version:
    """A server of a release."""
    return Version(1, minor, f"v1.{minor}.0")


def manifests(name: str, minor: int, **asked: object) -> tuple[dict[str, Any], ...]:
    """All objects of one of FILES on a server of a release.

    Args:
        name: of the file.
        minor: version of the server.
        asked: goes into place.kubernetes besides.
    """
    more = {key: value for key, value in FILES[name].items() if key != "asked"}
    kubernetes = {"image": "assay:1", **FILES[name].get("asked", {}), **asked}
    place = {"engine": "kubernetes", "kubernetes": kubernetes}
    loaded = load({"benchmark": "b", "target": COMMAND, **more, "place": place})
    jobs = [replace(job, campaign=CAMPAIGN) for job in make_plan(loaded, lambda _: {}).jobs]
    section = loaded.benchmark.place.kubernetes or Kubernetes()
    setting = Setting(CAMPAIGN, section, version(minor), NAMESPACE, {"ASSAY_LOCK": "off"})
    return tuple(_objects(setting, jobs, group(jobs, loaded.benchmark)))


def _objects(setting: Setting, jobs, groups) -> Iterator[dict[str, Any]]:
    held = [one for parts in file_objects(setting, {"ab" * 32: FILE}).values() for one in parts]
    yield from held
    yield secret(setting, {"B": "b"})
    for one in groups:
        if (meeting := meeting_service(setting, one)) is not None:
            yield meeting
        yield from service_objects(setting, one, jobs[one.jobs[0]].definition.services)
        for index in one.jobs:
            submission = JobSubmission(one, jobs[index], files=file_names(held))
            yield document(setting, submission)
            yield from job_objects(setting, submission)
