"""What many short jobs cost on Kubernetes through assay, beside plain `kubectl create` of the same commands."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from time import perf_counter
from unittest.mock import patch

from tests.tiers.kubernetes.admin import Admin, Thing
from tests.tiers.kubernetes.kubernetes_cluster import IMAGE, PERSON, KubernetesCluster
from tests.tiers.kubernetes.kubernetes_cluster import lacking as absent
from tests.tiers.kubernetes.site import Site

from assay.api.run import run
from assay.documents import to_json
from assay.plan.plan import make_plan
from assay.report.live import SilentView
from assay.spec.load import Loaded, load
from benches.page import Page, Table

_TITLE = "Short jobs on Kubernetes"
_ABOUT = """\
Jobs that each print one line: how long it takes from the first command until every result is there, beside plain
`kubectl create` of as many Jobs with the same command, which keeps no results at all. A real Kubernetes 1.20 on this
machine with two nodes (kubelet, containerd); everything shares the machine's real cores. The scheduler lets twenty pods
run at once, whoever made them."""
_LINE = "x=1"
_CPUS = 0.2
_NAMESPACE = "test-bench"
# What belongs to a machine that measures alone.
_OFF = ("ASSAY_LOCK", "ASSAY_CONTROL")
_PATIENCE_S = 3_000
# A ConfigMap may hold 1 MiB.
_DOCUMENTS = 100


@dataclass(frozen=True, slots=True)
class Seen:
    """One way to get the jobs done."""

    submitted_s: float
    """Until Kubernetes had all of them."""
    done_s: float
    """Until the last had ended and, where there are results, all were in."""
    results: str


def bench(*, quick: bool = False) -> Page:
    """Take the same jobs through Kubernetes by hand and through assay."""
    jobs = 8 if quick else 200
    if why := absent():
        rows = [["all", f"not measured: {why}"]]
        return Page("kubernetes", _TITLE, _ABOUT, [Table("Jobs", ["way", "figure"], rows)])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-bench-", dir="/tmp")))
        cluster = KubernetesCluster(folder / "cluster")
        cluster.folder.mkdir()
        stack.callback(cluster.stop)
        cluster.start()
        cluster.make_namespace(_NAMESPACE)
        site = Site(cluster, _NAMESPACE, folder)
        site.grant()
        environ = {
            "KUBECONFIG": str(cluster.kubeconfig(PERSON, _NAMESPACE)),
            "ASSAY_CACHE": str(folder / "cache"),
            **dict.fromkeys(_OFF, "off"),
        }
        stack.enter_context(patch.dict(os.environ, environ))
        loaded = load(_document(jobs), base=folder)
        _plain(cluster, folder, "warm", [_job("warm", ["/bin/echo", _LINE])])
        echo = [_job(f"echo-{number}", ["/bin/echo", _LINE]) for number in range(jobs)]
        seen = {
            "plain `kubectl create`": _plain(cluster, folder, "echo", echo),
            "**assay run**": _assay(cluster, loaded, folder, jobs),
            "plain Jobs of `assay exec`": _plain(cluster, folder, "exec", _by_hand(loaded)),
        }
    return Page("kubernetes", _TITLE, _ABOUT, [_table(seen, jobs)])


def _document(jobs: int) -> dict[str, object]:
    asked = {"image": IMAGE, "cpus": _CPUS, "limits": "none", "one_per_node": False}
    return {
        "benchmark": "short",
        "target": {"command": ["/bin/echo", _LINE], "metrics": [{"name": "x", "pattern": "x=(.*)"}]},
        "matrix": {"target.env.N": [str(number) for number in range(jobs)]},
        "measure": {"runs": 1, "timeout": "5m"},
        "place": {"engine": "kubernetes", "kubernetes": asked},
    }


def _job(name: str, words: Sequence[str], documents: str = "") -> Thing:
    """A Job as somebody writes it by hand."""
    resources = {"requests": {"cpu": f"{1000 * _CPUS:.0f}m"}}
    container: Thing = {"name": "job", "image": IMAGE, "command": list(words), "resources": resources}
    pod: Thing = {"restartPolicy": "Never", "containers": [container]}
    if documents:
        container["env"] = [{"name": name, "value": "off"} for name in _OFF]
        container["volumeMounts"] = [{"name": "jobs", "mountPath": "/jobs"}]
        pod["volumes"] = [{"name": "jobs", "configMap": {"name": documents}}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }


def _by_hand(loaded: Loaded) -> list[Thing]:
    """Jobs that measure the same documents without anything that follows or collects them."""
    made: list[Thing] = []
    held: dict[str, dict[str, str]] = {}
    for job in make_plan(loaded, lambda _: {}).jobs:
        name = f"documents-{job.index // _DOCUMENTS}"
        held.setdefault(name, {})[f"{job.index}.json"] = to_json(replace(job, base="/tmp"))
        words = ["assay", "exec", f"/jobs/{job.index}.json", "--out", "/tmp/out"]
        made.append(_job(f"exec-{job.index}", words, name))
    maps = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        for name, data in held.items()
    ]
    return [*maps, *made]


def _plain(cluster: KubernetesCluster, folder: Path, name: str, things: Sequence[Thing]) -> Seen:
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(things)}))
    names = {one["metadata"]["name"] for one in things if one["kind"] == "Job"}
    version = cluster.admin.page("jobs")["metadata"]["resourceVersion"]
    begin = perf_counter()
    cluster.kubectl("create", f"--namespace={_NAMESPACE}", f"--filename={file}")
    submitted = perf_counter() - begin
    ended = _until_ended(cluster.admin, version, names)
    done = perf_counter() - begin
    cluster.kubectl("delete", f"--namespace={_NAMESPACE}", f"--filename={file}")
    good = sum(ended.values())
    return Seen(submitted, done, f"none; {good} of {len(names)} ended well")


def _until_ended(admin: Admin, version: str, names: set[str]) -> dict[str, bool]:
    """Whether each of these Jobs ended well, once all have ended."""
    ended: dict[str, bool] = {}
    with admin.watched("jobs", version, _PATIENCE_S) as lines:
        for line in lines:
            job = json.loads(line)["object"]
            for condition in job.get("status", {}).get("conditions") or ():
                ended[job["metadata"]["name"]] = condition["type"] == "Complete"
            if names <= ended.keys():
                return ended
    raise TimeoutError("the jobs do not end")


def _assay(cluster: KubernetesCluster, loaded: Loaded, folder: Path, jobs: int) -> Seen:
    version = cluster.admin.page("jobs")["metadata"]["resourceVersion"]
    begin = perf_counter()
    submitted: list[float] = []

    def watch() -> None:
        with cluster.admin.watched("jobs", version, _PATIENCE_S) as lines:
            for line in lines:
                submitted.extend([perf_counter() - begin] if json.loads(line)["type"] == "ADDED" else [])
                if len(submitted) == jobs:
                    return

    watching = Thread(target=watch, daemon=True)
    watching.start()
    result = run(loaded, store=folder / "store", view=SilentView())
    done = perf_counter() - begin
    watching.join(10)
    good = sum(job.state == "done" and job.metrics["x"].median == 1 for job in result.jobs)
    why = sorted({job.error.code for job in result.jobs if job.error is not None})
    lacking = "" if good == jobs else f", **fail**: {', '.join(why) or 'another number'}"
    return Seen(submitted[-1] if submitted else done, done, f"{good} of {jobs} judged, in the store{lacking}")


def _table(seen: dict[str, Seen], jobs: int) -> Table:
    base = next(iter(seen.values()))
    rows = [
        [
            name,
            f"{one.submitted_s:.2f}",
            f"{one.done_s:.1f}",
            f"{1e3 * one.done_s / jobs:,.0f}",
            "" if one is base else f"{1e3 * (one.done_s - base.done_s) / jobs:,.0f}",
            one.results,
        ]
        for name, one in seen.items()
    ]
    columns = ["way", "submitted after s", "all done after s", "ms per job", "above plain, ms per job", "results"]
    when = (
        f"{jobs} jobs, one round each; `done` is when the last Job had ended; for assay, when every result was in the "
        "store and nothing was left in the cluster."
    )
    why = (
        "`assay exec` by hand measures the same job documents without anything that follows or collects them: what "
        "assay run takes beyond it is the engine's. The rest is a Python process that measures, with the machine's "
        "state before and after, on real cores that twenty of them share here."
    )
    return Table(f"{jobs} jobs", columns, rows, [when, why])
