"""The official client behind our protocol, against an API server of the tests: objects, logs, commands, faults."""

import threading
from contextlib import suppress

import pytest
from tests.support.kube.api import KubeApi
from tests.support.kube.objects import RefusedError

from assay.engines.kubernetes.client import client as reaching
from assay.engines.kubernetes.client.api import Expired, Right, name_of, uid_of
from assay.engines.kubernetes.client.client import connect
from assay.engines.kubernetes.client.watch import Mirror
from assay.engines.kubernetes.objects.names import Part
from assay.errors import MeasureError, UsageError
from assay.spec.kubernetes import Kubernetes

pytest.importorskip("kubernetes", reason="the official client is not installed: pip install 'assay-bench[kubernetes]'")
pytestmark = pytest.mark.live


@pytest.fixture
def server(tmp_path, monkeypatch):
    api = KubeApi()
    api.start()
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path / "kubeconfig")))
    yield api
    api.stop()


@pytest.fixture
def client(server):
    found = connect()
    found.sleep = lambda _: None
    return found


def thing(name="x", kind="ConfigMap", campaign="c1", **more):
    versions = {"Job": "batch/v1", "Deployment": "apps/v1"}
    labels = Part(campaign, "files").labels()
    return {"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": {"name": name, "labels": labels}, **more}


def test_a_cluster_is_found_as_kubectl_finds_it(server, client):
    assert (client.namespace, client.address) == ("bench", server.url)
    assert connect(Kubernetes(namespace="other")).namespace == "other"
    assert connect(Kubernetes(context="test")).namespace == "bench"
    assert client.version().has(31)
    with pytest.raises(UsageError, match="there is no context 'prod'") as caught:
        connect(Kubernetes(context="prod"))
    assert "(there is test)" in str(caught.value)


def test_no_kubeconfig_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="nothing says how to enter a cluster") as caught:
        connect()
    assert caught.value.problem.code == "kubernetes-config"


def test_a_pod_finds_its_own_cluster(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    inside = tmp_path / "namespace"
    inside.write_text("measuring\n")
    monkeypatch.setattr(reaching, "_INSIDE", inside)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(UsageError, match="Service host/port is not set"):
        connect()


@pytest.mark.parametrize("kind", ["ConfigMap", "Job", "Deployment", "Service"])
def test_objects_are_made_found_changed_and_removed(client, kind):
    made = client.create(thing(kind=kind, spec={"a": 1}))
    assert uid_of(made)
    assert client.get(kind, "x")["metadata"]["uid"] == uid_of(made)
    (listed,) = client.list(kind, "assay/campaign=c1").items
    assert (listed["kind"], listed["apiVersion"]) == (kind, thing(kind=kind)["apiVersion"])
    assert client.list(kind, "assay/campaign=c2").items == ()
    changed = client.patch(kind, "x", {"metadata": {"labels": {"team": "ml"}}})
    assert changed["metadata"]["labels"]["team"] == "ml"
    assert client.delete(kind, "x") is True
    assert client.delete(kind, "x") is False
    assert client.get(kind, "x") is None
    assert client.patch(kind, "x", {}) is None


def test_who_asks_again_makes_nothing_twice(client):
    first, second = client.create(thing()), client.create(thing())
    assert uid_of(first) == uid_of(second)
    with pytest.raises(MeasureError, match="belongs to campaign c1") as caught:
        client.create(thing(campaign="c2"))
    assert caught.value.problem.code == "kubernetes-exists"


def test_a_secret_is_made_without_being_read(server, client):
    server.denied |= {("get", "secrets"), ("list", "secrets")}
    client.create(thing(kind="Secret"))
    assert name_of(client.create(thing(kind="Secret"))) == "x"
    assert client.delete("Secret", "x")


def test_a_long_list_comes_whole(client, monkeypatch):
    monkeypatch.setattr("assay.engines.kubernetes.client.client._PAGE", 7)
    for number in range(20):
        client.create(thing(f"x{number}"))
    listed = client.list("ConfigMap")
    assert len({name_of(one) for one in listed.items}) == 20
    assert listed.version


def test_a_watch_reports_what_happens_after_a_moment(client):
    client.create(thing("before"))
    since = client.list("ConfigMap").version
    client.create(thing("a"))
    client.create(thing("b", campaign="c2"))
    client.delete("ConfigMap", "a")
    heard = list(client.watch("ConfigMap", "assay/campaign=c1", since=since, within_s=1.0))
    assert [(one.what, name_of(one.item)) for one in heard] == [("ADDED", "a"), ("DELETED", "a")]


def test_a_watch_from_too_long_ago_is_distinguished(server, client):
    since = client.list("ConfigMap").version
    client.create(thing("a"))
    server.objects.compact()
    client.create(thing("b"))
    with pytest.raises(Expired):
        list(client.watch("ConfigMap", since=since, within_s=1.0))


def look_again_and_again(mirror):
    for _ in range(20):
        mirror.poll(5.0)


def test_a_mirror_outlives_a_server_that_is_stopped_and_forgets(server, client):
    heard = []
    mirror = Mirror(client, "ConfigMap", notify=heard.append)
    client.create(thing("a"))
    mirror.poll(1.0)
    cutting = threading.Timer(0.3, server.stop)
    cutting.start()
    with pytest.raises(MeasureError) as caught:
        look_again_and_again(mirror)
    assert caught.value.problem.code == "kubernetes-silent"
    cutting.join()
    server.objects.create("configmaps", "bench", thing("b"))
    server.objects.compact()
    server.start()
    for _ in range(3):
        with suppress(MeasureError):
            mirror.poll(1.0)
    assert [name_of(one) for one in mirror.items] == ["a", "b"]
    assert [name_of(one.item) for one in heard] == ["a", "b"]


def test_a_server_that_does_not_answer_is_silent(server, client):
    server.stop()
    for ask in (
        client.version,
        lambda: client.list("Pod"),
        lambda: client.create(thing()),
        lambda: list(client.logs("p", "c")),
    ):
        with pytest.raises(MeasureError, match="does not answer") as caught:
            ask()
        assert caught.value.problem.code == "kubernetes-silent"


def test_a_server_with_too_much_to_do_is_asked_again(server, client):
    waits = []
    client.sleep = waits.append
    server.refusals += [("configmaps", RefusedError(429, "TooManyRequests", "later"))] * 3
    client.create(thing())
    assert waits == [0.5, 1.0, 2.0]
    server.refusals += [("configmaps", RefusedError(503, "ServiceUnavailable", "shutting down"))] * 10
    with pytest.raises(MeasureError, match="shutting down") as caught:
        client.create(thing("y"))
    assert caught.value.problem.code == "kubernetes-silent"


def test_a_server_that_knows_nobody_right_after_its_start_is_asked_again(server, client):
    client.version()
    server.refusals += [("configmaps", RefusedError(403, "Forbidden", "RBAC is not there yet"))] * 2
    client.create(thing())
    server.denied.add(("create", "jobs"))
    with pytest.raises(MeasureError, match="cannot create") as caught:
        client.create(thing(kind="Job"))
    assert caught.value.problem.code == "kubernetes-forbidden"
    assert "role.yaml" in caught.value.problem.try_


def test_after_a_silence_a_refusal_counts_as_silence_for_a_while(server, client):
    """A real server that was restarted refuses everybody until it has read who may do what."""
    client.version()
    server.refusals += [("configmaps", RefusedError(503, "ServiceUnavailable", "shutting down"))] * 10
    with suppress(MeasureError):
        client.create(thing())
    server.refusals.clear()
    server.denied |= {("list", "pods"), ("watch", "pods"), ("get", "pods/log")}
    requests = [
        lambda: client.list("Pod"),
        lambda: list(client.watch("Pod", since="1", within_s=1)),
        lambda: list(client.logs("p", "job")),
    ]
    for ask in requests:
        with pytest.raises(MeasureError, match="only just come back") as caught:
            ask()
        assert caught.value.problem.code == "kubernetes-silent"
    client._silent_s -= 61
    for ask in requests:
        with pytest.raises(MeasureError) as caught:
            ask()
        assert caught.value.problem.code == "kubernetes-forbidden"


def test_a_wrong_token_is_reported(server):
    server.token = "another"
    with pytest.raises(MeasureError) as caught:
        connect().list("Pod")
    assert caught.value.problem.code == "kubernetes-token"


def test_a_request_that_is_wrong_is_refused_in_the_servers_words(client):
    with pytest.raises(MeasureError, match=r"metadata\.name") as caught:
        client.create(thing("NOT_A_NAME"))
    assert caught.value.problem.code == "kubernetes-refused"


def test_rights_are_requested_one_by_one(server, client):
    server.denied.add(("create", "pods/exec"))
    rights = [Right("create", "jobs.batch"), Right("create", "pods/exec"), Right("get", "pods/log")]
    assert list(client.may(rights).values()) == [True, False, True]


def test_a_log_comes_as_it_is_written(server, client):
    server.objects.create("pods", "bench", thing("p", "Pod"))
    query_sent = {}

    def logs(_pod, query):
        query_sent.update(query)
        yield b"one\ntwo"
        yield b"\nthree\n"

    server.logs = logs
    assert b"".join(client.logs("p", "job", since_s=2.5, timestamps=True)) == b"one\ntwo\nthree\n"
    assert query_sent == {"container": "job", "sinceSeconds": "2", "timestamps": "true"}


def test_a_log_that_has_not_begun_is_empty_and_one_of_nobody_is_notified(server, client):
    server.objects.create("pods", "bench", thing("p", "Pod"))

    def logs(_pod, _query):
        raise RefusedError(400, "BadRequest", 'container "job" in pod "p" is waiting to start: ContainerCreating')
        yield b""

    server.logs = logs
    assert list(client.logs("p", "job")) == []
    with pytest.raises(MeasureError) as caught:
        list(client.logs("nobody", "job"))
    assert caught.value.problem.code == "kubernetes-not-found"


def test_a_command_runs_in_a_pod_and_gives_back_every_byte(server, client):
    server.objects.create("pods", "bench", thing("p", "Pod"))
    content = bytes(range(256)) * 1000
    ran = []

    def run_in(_pod, container, words):
        ran.append((container, words))
        return 0, content, b"a warning"

    server.run_in = run_in
    assert b"".join(client.execute("p", "job", ["cat", "a b", "ü"], within_s=10.0)) == content
    assert ran == [("job", ["cat", "a b", "ü"])]
    server.run_in = lambda *_: (2, b"part", b"no such file")
    with pytest.raises(MeasureError, match="no such file") as caught:
        list(client.execute("p", "job", ["cat"], within_s=10.0))
    assert caught.value.problem.code == "kubernetes-exec"


def test_a_command_that_may_not_be_run_is_reported(server, client):
    server.objects.create("pods", "bench", thing("p", "Pod"))
    server.denied.add(("create", "pods/exec"))
    with pytest.raises(MeasureError) as caught:
        list(client.execute("p", "job", ["cat"], within_s=10.0))
    assert caught.value.problem.code == "kubernetes-forbidden"
