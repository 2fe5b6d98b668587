"""What makes pods out of jobs and deployments in the tests, and finds nodes for them: as the real ones do."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.kube.objects import Object, Objects, amount, labels_match, now, tell_event

Delete = Callable[[str, Object, float | None], None]
_INDEX = "batch.kubernetes.io/job-completion-index"
# From this version on a pod that was deleted counts as failed; before, another one simply takes its place.
_COUNTS_DELETED = (1, 22)


def _owned(one: Object, owner: Object) -> bool:
    return any(ref["uid"] == owner["metadata"]["uid"] for ref in one["metadata"].get("ownerReferences", []))


def _age_s(text: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()


class Controllers:
    """Jobs, deployments, owners, and the scheduler."""

    def __init__(self, objects: Objects, version: tuple[int, int], delete: Delete) -> None:
        self.objects, self.version, self._delete = objects, version, delete
        self.made: list[Object] = []
        """What every pod that there ever was said of itself."""
        self._seen: dict[str, dict[str, str]] = {}
        """Job → its pods and the last phase in which they were seen, by their names."""

    def look(self) -> None:
        """Bring everything one step on."""
        for job in self.objects.all("jobs"):
            self._job(job)
        for one in self.objects.all("deployments"):
            self._deployment(one)
        self._collect()
        self._schedule()

    # Jobs

    def _job(self, job: Object) -> None:
        status = job.get("status") or {}
        if any(one["type"] in ("Complete", "Failed") for one in status.get("conditions", [])):
            self._forget_late(job, status)
            return
        if job["spec"].get("suspend"):
            return
        pods = [one for one in self.objects.all("pods", job["metadata"]["namespace"]) if _owned(one, job)]
        failed = self._failed(job, pods)
        done = [one for one in pods if one["status"]["phase"] == "Succeeded"]
        active = [one for one in pods if one["status"]["phase"] in ("Pending", "Running") and not _is_leaving(one)]
        wanted = job["spec"].get("completions", 1)
        started = status.get("startTime") or now()
        told: Object = {"startTime": started, "active": len(active), "succeeded": len(done), "failed": failed}
        limit = job["spec"].get("activeDeadlineSeconds")
        if failed > job["spec"].get("backoffLimit", 6):
            self._fail(job, told, active, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        elif limit is not None and _age_s(started) > limit:
            self._fail(job, told, active, "DeadlineExceeded", "Job was active longer than specified deadline")
        elif len(done) >= wanted:
            self._set(job, {**told, "completionTime": now(), "conditions": [_condition("Complete")]})
        else:
            self._set(job, told)
            self._add_pods(job, active, done, wanted)

    def _failed(self, job: Object, pods: list[Object]) -> int:
        seen = self._seen.setdefault(job["metadata"]["uid"], {})
        seen.update({one["metadata"]["name"]: one["status"]["phase"] for one in pods})
        there = {one["metadata"]["name"] for one in pods}
        gone = [name for name, phase in seen.items() if name not in there and phase != "Succeeded"]
        leaving = [one for one in pods if _is_leaving(one) and one["status"]["phase"] in ("Pending", "Running")]
        counted = len(gone) + len(leaving) if self.version >= _COUNTS_DELETED else 0
        return sum(one["status"]["phase"] == "Failed" for one in pods) + counted

    def _fail(self, job: Object, told: Object, active: list[Object], reason: str, message: str) -> None:
        for pod in active:
            self._delete("pods", pod, None)
        self._set(job, {**told, "active": 0, "conditions": [_condition("Failed", reason, message)]})
        tell_event(self.objects, job, reason, message)

    def _add_pods(self, job: Object, active: list[Object], done: list[Object], wanted: int) -> None:
        meta, spec = job["metadata"], job["spec"]
        indexed = spec.get("completionMode") == "Indexed"
        taken = {(one["metadata"].get("annotations") or {}).get(_INDEX) for one in (*active, *done)}
        missing = min(spec.get("parallelism", 1), wanted - len(done)) - len(active)
        for index in range(wanted if indexed else missing):
            if missing <= 0:
                return
            if indexed and str(index) in taken:
                continue
            missing -= 1
            pod = self._pod(job, "Job", f"{meta['name']}-{index}-" if indexed else f"{meta['name']}-")
            pod["metadata"]["labels"] |= {"job-name": meta["name"], "controller-uid": meta["uid"]}
            if indexed:
                pod["metadata"].setdefault("annotations", {})[_INDEX] = str(index)
                pod["spec"].setdefault("hostname", f"{meta['name']}-{index}")
            self._seen[meta["uid"]][self._create(pod, meta["namespace"])] = "Pending"

    def _pod(self, owner: Object, kind: str, prefix: str) -> Object:
        pod: Object = copy.deepcopy(owner["spec"]["template"])
        pod.setdefault("metadata", {}).setdefault("labels", {})
        pod["metadata"] |= {
            "generateName": prefix,
            "ownerReferences": [
                {
                    "kind": kind,
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "apiVersion": "v1",
                    "controller": True,
                }
            ],
        }
        return {**pod, "kind": "Pod", "status": {"phase": "Pending"}}

    def _create(self, pod: Object, namespace: str) -> str:
        made = self.objects.create("pods", namespace, pod)["metadata"]
        self.made.append(made)
        return str(made["name"])

    def _set(self, one: Object, status: Object) -> None:
        meta = one["metadata"]
        resource = "jobs" if one["kind"] == "Job" else "deployments"
        self.objects.change(resource, meta["namespace"], meta["name"], lambda found: found.update(status=status))

    def _forget_late(self, job: Object, status: Object) -> None:
        kept_s = job["spec"].get("ttlSecondsAfterFinished")
        ended = next(one["lastTransitionTime"] for one in status["conditions"] if one["type"] in ("Complete", "Failed"))
        if kept_s is not None and _age_s(ended) > kept_s:
            self._delete("jobs", job, None)

    # Deployments

    def _deployment(self, one: Object) -> None:
        pods = [pod for pod in self.objects.all("pods", one["metadata"]["namespace"]) if _owned(pod, one)]
        alive = [pod for pod in pods if not _is_leaving(pod) and pod["status"]["phase"] in ("Pending", "Running")]
        wanted = one["spec"].get("replicas", 1)
        for _ in range(wanted - len(alive)):
            self._create(
                self._pod(one, "ReplicaSet", f"{one['metadata']['name']}-5d9c7b-"), one["metadata"]["namespace"]
            )
        ready = sum(is_ready(pod) for pod in alive)
        told = {
            "replicas": len(alive),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "updatedReplicas": len(alive),
        }
        if {key: (one.get("status") or {}).get(key) for key in told} != told:
            available = _condition("Available", status=str(ready >= wanted))
            self._set(one, {**told, "conditions": [available]})

    # Owners

    def _collect(self) -> None:
        """What belongs to nobody any more goes."""
        alive = {one["metadata"]["uid"] for kind in ("jobs", "deployments") for one in self.objects.all(kind)}
        for kind in ("pods", "configmaps", "services", "secrets"):
            for one in self.objects.all(kind):
                owners = one["metadata"].get("ownerReferences", [])
                if owners and not any(ref["uid"] in alive for ref in owners) and not _is_leaving(one):
                    self._delete(kind, one, None)

    # The scheduler

    def _schedule(self) -> None:
        nodes = self.objects.all("nodes")
        for pod in self.objects.all("pods"):
            if pod["spec"].get("nodeName") or _is_leaving(pod) or pod["status"]["phase"] != "Pending":
                continue
            if pod["spec"].get("schedulingGates"):
                continue
            placed = [one for one in self.objects.all("pods") if one["spec"].get("nodeName") and _holds_room(one)]
            reasons = {node["metadata"]["name"]: _unfit(pod, node, placed) for node in nodes}
            fitting = [name for name, why in reasons.items() if not why]
            if fitting:
                counts = Counter(one["spec"]["nodeName"] for one in placed)
                self._bind(pod, min(fitting, key=lambda name: (counts[name], name)))
            else:
                self._refuse(pod, [why for why in reasons.values() if why])

    def _bind(self, pod: Object, node: str) -> None:
        def act(one: Object) -> None:
            one["spec"]["nodeName"] = node
            one["status"]["conditions"] = [_condition("PodScheduled")]

        self.objects.change("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], act)

    def _refuse(self, pod: Object, reasons: list[str]) -> None:
        counted = ", ".join(f"{count} {why}" for why, count in sorted(Counter(reasons).items()))
        message = f"0/{len(reasons)} nodes are available: {counted}."
        told = next((one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled"), {})
        if told.get("message") == message:
            return
        refused = _condition("PodScheduled", "Unschedulable", message, status="False")

        def act(one: Object) -> None:
            one["status"]["conditions"] = [refused]

        self.objects.change("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], act)
        tell_event(self.objects, pod, "FailedScheduling", message)


def _condition(kind: str, reason: str = "", message: str = "", status: str = "True") -> Object:
    told = {"type": kind, "status": status, "lastTransitionTime": now(), "lastProbeTime": now()}
    return {**told, **({"reason": reason} if reason else {}), **({"message": message} if message else {})}


def _is_leaving(one: Object) -> bool:
    return bool(one["metadata"].get("deletionTimestamp"))


def _holds_room(pod: Object) -> bool:
    return pod["status"]["phase"] in ("Pending", "Running")


def is_ready(pod: Object) -> bool:
    """Whether a pod says that it is ready."""
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))


def _unfit(pod: Object, node: Object, placed: list[Object]) -> str:
    """Why a pod cannot go to a node, in the scheduler's words; empty where it can."""
    spec, name = pod["spec"], node["metadata"]["name"]
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(node["metadata"].get("labels") or {})}
    for taint in node["spec"].get("taints", []):
        if taint["effect"] != "PreferNoSchedule" and not any(
            _tolerates(one, taint) for one in spec.get("tolerations", [])
        ):
            return f"node(s) had taint {{{taint['key']}: {taint.get('value', '')}}}, that the pod didn't tolerate"
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return "node(s) didn't match Pod's node affinity/selector"
    here = [one for one in placed if one["spec"]["nodeName"] == name]
    if any(_apart(pod, one) or _apart(one, pod) for one in here):
        return "node(s) didn't match pod anti-affinity rules"
    return _too_little(pod, node, here)


def _tolerates(one: Object, taint: Object) -> bool:
    if one.get("effect") not in (None, "", taint["effect"]):
        return False
    if one.get("operator", "Equal") == "Exists":
        return one.get("key") in (None, "", taint["key"])
    return (one.get("key"), one.get("value", "")) == (taint["key"], taint.get("value", ""))


def _apart(pod: Object, other: Object) -> bool:
    """Whether a pod wants no node on which another one is."""
    rules = pod["spec"].get("affinity", {}).get("podAntiAffinity", {})
    for term in rules.get("requiredDuringSchedulingIgnoredDuringExecution", []):
        spaces = term.get("namespaces") or [pod["metadata"]["namespace"]]
        anywhere = "namespaceSelector" in term and term["namespaceSelector"] is not None
        if not anywhere and other["metadata"]["namespace"] not in spaces:
            continue
        if _selects(term.get("labelSelector") or {}, other):
            return True
    return False


def _selects(selector: Object, one: Object) -> bool:
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for rule in selector.get("matchExpressions") or []:
        many = f"({','.join(rule.get('values') or [])})"
        parts.append(
            {
                "In": f"{rule['key']} in {many}",
                "NotIn": f"{rule['key']} notin {many}",
                "Exists": rule["key"],
                "DoesNotExist": f"!{rule['key']}",
            }[rule["operator"]]
        )
    return labels_match(",".join(parts), one)


def requests_of(pod: Object) -> dict[str, float]:
    """What a pod asks for, all containers together."""
    total: Counter[str] = Counter()
    for one in pod["spec"]["containers"]:
        asked = one.get("resources") or {}
        for name, text in {**(asked.get("limits") or {}), **(asked.get("requests") or {})}.items():
            total[name] += amount(text)  # type: ignore[assignment]
    return {**total, "pods": 1}


def _too_little(pod: Object, node: Object, here: list[Object]) -> str:
    there: dict[str, Any] = node["status"]["allocatable"]
    used: Counter[str] = Counter()
    for one in here:
        used.update(requests_of(one))  # type: ignore[arg-type]
    for name, wanted in requests_of(pod).items():
        if wanted and used[name] + wanted > amount(there.get(name, 0)):
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
    return ""


def write_hosts(path: Path, objects: Objects) -> None:
    """Say which names of services and pods stand for which addresses, for the resolver in the pods."""
    known: dict[str, str] = {}
    for service in objects.all("services"):
        meta, spec = service["metadata"], service["spec"]
        for port in spec.get("ports", []):
            assert port.get("targetPort", port["port"]) == port["port"], "here a service has the port of its pods"
        pods = [
            one
            for one in objects.all("pods", meta["namespace"])
            if _selects({"matchLabels": spec.get("selector")}, one)
        ]
        for pod in pods:
            address = pod["status"].get("podIP")
            if not address or not (is_ready(pod) or spec.get("publishNotReadyAddresses")) or not _holds_room(pod):
                continue
            names = [meta["name"]]
            if pod["spec"].get("subdomain") == meta["name"] and pod["spec"].get("hostname"):
                names.append(f"{pod['spec']['hostname']}.{meta['name']}")
            for name in names:
                known |= {
                    f"{name}{more}": address for more in ("", f".{meta['namespace']}", f".{meta['namespace']}.svc")
                }
    text = json.dumps(known)
    if not path.exists() or path.read_text() != text:
        partial = path.with_suffix(".part")
        partial.write_text(text)
        partial.replace(path)
