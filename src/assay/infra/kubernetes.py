"""The whole system in a Kubernetes cluster: the Helm chart of deploy/, by the programs `helm` and `kubectl`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.errors import MeasureError, UsageError
from assay.infra.commands import call, deploy_folder, find, succeeds
from assay.infra.record import (
    DEFAULT,
    InfraOptions,
    Notify,
    PartState,
    Status,
    find_system,
    keep,
    make_folder,
    remove_folder,
)
from assay.version import __version__

RECORD = "helm.json"
CHART = "helm/assay"
NAMESPACE = "assay"
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
_KINDS = "deployments,statefulsets"
_HELM = "install Helm 3 (https://helm.sh/docs/intro/install), or apply the chart by other means: it is in deploy/helm"
_KUBECTL = "install kubectl (https://kubernetes.io/docs/tasks/tools)"


@dataclass(frozen=True, slots=True)
class HelmRecord:
    """A release of the chart."""

    version: str
    release: str
    namespace: str
    context: str | None
    """Of the kubeconfig, as it was then; None if that has none."""
    made_namespace: bool
    """Whether the namespace is there for this release alone."""
    made: tuple[str, ...] = ()

    def helm(self, *words: str) -> list[str]:
        where = () if self.context is None else ("--kube-context", self.context)
        return [find("helm", "a system in a Kubernetes cluster", _HELM), *words, "--namespace", self.namespace, *where]

    def kubectl(self, *words: str) -> list[str]:
        return [*_kubectl(self.context), "--namespace", self.namespace, *words]


def create(options: InfraOptions, notify: Notify) -> Status:
    """Install the chart, or bring a release up to date, and wait until all of it is ready."""
    for path in options.values:
        if not path.is_file():
            raise UsageError("there is no such file of values", code="no-file", at=str(path))
    folder, existing = find_system("kubernetes", options.name, RECORD, HelmRecord)
    record = existing or _first(options, folder)
    _refuse_moved(options, record)
    notify(f"installing the chart as {record.release} into the namespace {record.namespace}")
    words = ["upgrade", "--install", record.release, str(deploy_folder() / CHART)]
    words += ["--wait", "--timeout", f"{round(options.within_s)}s"]
    words += [word for path in options.values for word in ("--values", str(path))]
    words += [word for setting in options.settings for word in ("--set", setting)]
    call(record.helm(*words), code="helm")
    return status(options.name)


def status(name: str) -> Status:
    folder, record = find_system("kubernetes", name, RECORD, HelmRecord)
    if record is None:
        return Status("kubernetes", name, "absent")
    words = record.kubectl("get", _KINDS, "--selector", f"{INSTANCE}={record.release}", "--output", "json")
    parts = tuple(part_of(manifest) for manifest in json.loads(call(words, code="kubectl"))["items"])
    return Status.of("kubernetes", name, parts, folder, _then(record))


def destroy(name: str, notify: Notify, *, keep_data: bool) -> None:
    """Remove a release and, unless the data are kept, its volumes, its secrets and the namespace made for it."""
    folder, record = find_system("kubernetes", name, RECORD, HelmRecord)
    if record is None:
        return
    if succeeds(record.helm("status", record.release)):
        call(record.helm("uninstall", record.release, "--wait"), code="helm")
    if keep_data:
        notify(f"the release is gone; volumes and secrets stay in the namespace {record.namespace}")
        return
    # The chart keeps these when it is removed, so that no results are lost by a slip.
    selector = f"{INSTANCE}={record.release}"
    words = record.kubectl("delete", "persistentvolumeclaims,secrets", "--selector", selector, "--wait")
    call(words, code="kubectl")
    if record.made_namespace:
        call([*_kubectl(record.context), "delete", "namespace", record.namespace, "--wait"], code="kubectl")
    remove_folder(folder, record.made)
    notify(f"the release {record.release} and its data are removed from the cluster")


def part_of(workload: dict[str, Any]) -> PartState:
    """A part by what the cluster tells of its Deployment or StatefulSet."""
    name = workload["metadata"].get("labels", {}).get(COMPONENT) or workload["metadata"]["name"]
    wanted, status = workload["spec"].get("replicas", 1), workload.get("status", {})
    there, conditions = status.get("readyReplicas", 0), status.get("conditions", [])
    why = [
        condition.get("message", "")
        for condition in conditions
        if condition.get("status") == "False" and condition.get("message")
    ]
    good = there >= wanted
    detail = f"{there} of {wanted} ready" + (f": {why[0]}" if why and not good else "")
    return PartState(name, "healthy" if good else "unhealthy", detail=detail)


def _first(options: InfraOptions, folder: Path) -> HelmRecord:
    """Write down what is about to be made, so that it is found again whatever happens."""
    find("helm", "a system in a Kubernetes cluster", _HELM)
    context = options.context or _current_context()
    _refuse_unreachable(context)
    namespace = options.namespace or NAMESPACE
    # Who may not make namespaces may not look for them either; helm says so if it is not there.
    there = succeeds([*_kubectl(context), "get", "namespace", namespace])
    made_namespace = not there and succeeds([*_kubectl(context), "create", "namespace", namespace])
    release = NAMESPACE if options.name == DEFAULT else f"{NAMESPACE}-{options.name}"
    record = HelmRecord(__version__, release, namespace, context, made_namespace, make_folder(folder))
    keep(folder, RECORD, record)
    return record


def _then(record: HelmRecord) -> dict[str, str]:
    service = f"service/{record.release}-server"
    token = f"secret/{record.release}-keys"
    where = f"kubectl{'' if record.context is None else f' --context {record.context}'} -n {record.namespace}"
    return {
        "reach the server": f"{where} port-forward {service} 8080:8080",
        "admin token": f"{where} get {token} -o jsonpath='{{.data.admin}}' | base64 --decode > admin.token",
        "measure": "assay run bench.yaml --server http://127.0.0.1:8080 --token-file admin.token",
        "dashboard": "http://127.0.0.1:8080/ (sign in with what is in admin.token)",
    }


def _kubectl(context: str | None) -> list[str]:
    program = find("kubectl", "a system in a Kubernetes cluster", _KUBECTL)
    return [program, *(() if context is None else ("--context", context))]


def _current_context() -> str | None:
    """The context of the kubeconfig, kept so that `destroy` never meets another cluster than `create` did."""
    words = [*_kubectl(None), "config", "current-context"]
    return call(words).strip() if succeeds(words) else None


def _refuse_unreachable(context: str | None) -> None:
    """Raise where no cluster answers: a record of nothing could not be removed again."""
    try:
        call([*_kubectl(context), "version", "--request-timeout=10s"])
    except MeasureError as problem:
        said = problem.problem.message.splitlines()[-1].strip()
        where = "by the kubeconfig" if context is None else f"by the context {context}"
        raise UsageError(
            f"no Kubernetes cluster is reached {where}: {said}",
            code="no-cluster",
            at="--context",
            try_="see `kubectl config get-contexts`; set KUBECONFIG or --context",
        ) from None


def _refuse_moved(options: InfraOptions, record: HelmRecord) -> None:
    namespace = ("--namespace", options.namespace, record.namespace)
    for flag, said, was in (namespace, ("--context", options.context, record.context)):
        if said is not None and said != was:
            raise UsageError(
                f"{options.name} is installed with {flag} {was}, not {said}",
                code="infra",
                at=flag,
                try_="destroy it first, or use another --name",
            )
