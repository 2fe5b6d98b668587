"""The system in a cluster: what helm and kubectl are told, and that everything made is removed."""

from __future__ import annotations

import json

import pytest

from assay.errors import MeasureError, UsageError
from assay.infra import kubernetes
from assay.infra.kubernetes import HelmRecord, part_of
from assay.infra.record import InfraOptions, folder_of, kept


def told_part(name, ready, wanted=1, message=""):
    conditions = [{"type": "Available", "status": "False", "message": message}] if message else []
    return {
        "metadata": {"name": f"assay-{name}", "labels": {"app.kubernetes.io/component": name}},
        "spec": {"replicas": wanted},
        "status": {"readyReplicas": ready, "conditions": conditions},
    }


def cluster(programs, *, namespace_there=True, may_make=True, parts=(), helm=()):
    items = json.dumps({"items": list(parts) or [told_part("server", 1)]})
    programs.add(
        "kubectl",
        [
            (["current-context"], 0, "kind-test\n"),
            (["deployments,statefulsets"], 0, items),
            (["create"], 0 if may_make else 1, ""),
            (["get", "namespace"], 0 if namespace_there else 1, ""),
        ],
    )
    programs.add("helm", list(helm))


def test_the_chart_is_installed_where_the_kubeconfig_points_and_waited_for(place, programs, told):
    cluster(programs)
    status = kubernetes.create(InfraOptions("default", settings=("registry=r.example/x",), within_s=90), told.append)
    assert (status.word, [one.name for one in status.parts]) == ("healthy", ["server"])
    (call,) = programs.called("helm", "upgrade", "--install", "assay")
    assert call[-4:] == ["--namespace", "assay", "--kube-context", "kind-test"]
    for words in (["--wait"], ["--timeout", "90s"], ["--set", "registry=r.example/x"]):
        assert words == call[call.index(words[0]) : call.index(words[0]) + len(words)]
    assert not programs.called("create", "namespace")


def test_a_namespace_that_was_made_for_it_is_removed_with_it(place, programs, told):
    cluster(programs, namespace_there=False)
    kubernetes.create(InfraOptions("default"), told.append)
    assert programs.called("create", "namespace", "assay")
    record = kept(folder_of("kubernetes", "default"), "helm.json", HelmRecord)
    assert record.made_namespace
    kubernetes.destroy("default", told.append, keep_data=False)
    assert programs.called("helm", "uninstall", "assay")
    assert programs.called("delete", "persistentvolumeclaims,secrets", "--selector", "app.kubernetes.io/instance=assay")
    assert programs.called("delete", "namespace", "assay")
    assert not place.parent.exists()


def test_a_namespace_of_others_stays(place, programs, told):
    cluster(programs)
    kubernetes.create(InfraOptions("default", namespace="team"), told.append)
    kubernetes.destroy("default", told.append, keep_data=False)
    assert not programs.called("delete", "namespace")


def test_who_may_not_make_namespaces_works_in_the_one_that_is_there(place, programs, told):
    cluster(programs, namespace_there=False, may_make=False)
    kubernetes.create(InfraOptions("default", namespace="team"), told.append)
    record = kept(folder_of("kubernetes", "default"), "helm.json", HelmRecord)
    assert not record.made_namespace


def test_destroy_meets_the_cluster_that_create_met(place, programs, told):
    cluster(programs)
    kubernetes.create(InfraOptions("default", context="first"), told.append)
    kubernetes.destroy("default", told.append, keep_data=False)
    (call,) = programs.called("helm", "uninstall")
    assert call[-2:] == ["--kube-context", "first"]
    (call,) = programs.called("delete", "persistentvolumeclaims,secrets")
    assert call[:3] == ["kubectl", "--context", "first"]


def test_data_can_be_kept(place, programs, told):
    cluster(programs)
    kubernetes.create(InfraOptions("default"), told.append)
    kubernetes.destroy("default", told.append, keep_data=True)
    assert programs.called("helm", "uninstall")
    assert not programs.called("delete")
    assert kept(folder_of("kubernetes", "default"), "helm.json", HelmRecord) is not None


def test_another_namespace_than_before_is_refused(place, programs, told):
    cluster(programs)
    kubernetes.create(InfraOptions("default", namespace="one"), told.append)
    with pytest.raises(UsageError, match="--namespace one"):
        kubernetes.create(InfraOptions("default", namespace="two"), told.append)


def test_helm_that_fails_is_quoted_and_what_was_begun_can_be_removed(place, programs, told):
    cluster(programs, helm=[(["upgrade"], 1, "registry is needed")])
    with pytest.raises(MeasureError) as problem:
        kubernetes.create(InfraOptions("default"), told.append)
    assert problem.value.problem.code == "helm"
    assert "registry is needed" in str(problem.value)
    kubernetes.destroy("default", told.append, keep_data=False)
    assert not place.parent.exists()


def test_a_machine_without_helm_gets_advice_and_nothing_is_made(place, programs, told):
    programs.add("kubectl")
    with pytest.raises(UsageError) as wrong:
        kubernetes.create(InfraOptions("default"), told.append)
    assert wrong.value.problem.code == "no-helm"
    assert not place.exists()


@pytest.mark.parametrize(("context", "where"), [(None, "by the kubeconfig"), ("far", "by the context far")])
def test_a_cluster_that_is_not_reached_is_reported_and_nothing_is_made(place, programs, told, context, where):
    programs.add("helm")
    programs.add(
        "kubectl", [(["version"], 1, "Client Version: v1\nconnection refused\n"), (["current-context"], 1, "")]
    )
    with pytest.raises(UsageError, match=f"no Kubernetes cluster is reached {where}: connection refused"):
        kubernetes.create(InfraOptions("default", context=context), told.append)
    assert not place.exists()
    assert not programs.called("create", "namespace")


@pytest.mark.parametrize(("ready", "wanted", "message", "state", "detail"), [
    (1, 1, "", "healthy", "1 of 1 ready"),
    (0, 1, "", "unhealthy", "0 of 1 ready"),
    (0, 0, "", "healthy", "0 of 0 ready"),
    (1, 2, "quota", "unhealthy", "1 of 2 ready: quota"),
])  # fmt: skip
def test_a_part_is_healthy_when_all_its_pods_are_ready(ready, wanted, message, state, detail):
    part = part_of(told_part("server", ready, wanted, message))
    assert (part.name, part.state, part.detail) == ("server", state, detail)


def test_a_part_of_which_nothing_is_reported_yet_is_not_healthy():
    part = part_of({"metadata": {"name": "x"}, "spec": {}})
    assert (part.name, part.state) == ("x", "unhealthy")
