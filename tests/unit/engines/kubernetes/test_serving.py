"""Services as Deployments and Services: started as the file says, ready once, and left alone under load."""

import json
from dataclasses import replace

import pytest

from assay.engines.kubernetes.client.api import Version
from assay.engines.kubernetes.objects.plan import group
from assay.engines.kubernetes.objects.pods import Setting
from assay.engines.kubernetes.objects.services import service_objects
from assay.errors import AssayError
from assay.plan.plan import make_plan
from assay.spec.load import load

TARGET = {"service": "llm", "api": "openai-chat", "model": "m"}


def made(services, kubernetes=None):
    """Kind and name of the service → its object."""
    place = {"engine": "kubernetes", "kubernetes": {"image": "assay:1", **(kubernetes or {})}}
    shared = {"concurrency": 8, "duration": "4s"}
    loaded = load({"benchmark": "b", "services": services, "target": TARGET, "load": shared, "place": place})
    jobs = [replace(job, campaign="c0ffee12") for job in make_plan(loaded, lambda _: {}).jobs]
    (one,) = group(jobs, loaded.benchmark)
    setting = Setting("c0ffee12", loaded.benchmark.place.kubernetes, Version(1, 31), "bench")
    objects = service_objects(setting, one, jobs[0].definition.services)
    return {(each["kind"], each["metadata"]["labels"]["assay/service"]): each for each in objects}


def container(services, name="llm", kubernetes=None):
    (found,) = made(services, kubernetes)["Deployment", name]["spec"]["template"]["spec"]["containers"]
    return found


def environment(services, **more):
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container(services, **more)["env"]}


def test_a_service_is_one_pod_behind_one_name():
    objects = made({"llm": {"image": "llm:1", "command": ["serve", "--port", "{port}"], "port": 9000}})
    service, deployment = objects["Service", "llm"], objects["Deployment", "llm"]
    assert service["metadata"]["name"] == deployment["metadata"]["name"] == "assay-c0ffee12-point-0000-llm"
    assert service["spec"]["ports"] == [{"name": "service", "port": 9000, "targetPort": 9000}]
    template = deployment["spec"]["template"]
    assert (
        service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    )
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}, "never two of them at once"
    (one,) = template["spec"]["containers"]
    assert (one["image"], one["command"]) == ("llm:1", ["serve", "--port", "9000"])
    assert "restartPolicy" not in template["spec"]
    assert "affinity" not in template["spec"]


def test_an_image_may_bring_its_own_command():
    assert "command" not in container({"llm": {"image": "llm:1"}})


def test_a_service_without_an_image_runs_in_ours():
    assert container({"llm": {"command": "assay sim llm"}})["image"] == "assay:1"
    assert container({"llm": {"command": "x", "image": "llm:1", "container": "none"}})["image"] == "assay:1"
    each = {"each": {"llm": {"image": "own:2"}}}
    assert container({"llm": {"command": "x", "image": "llm:1"}}, kubernetes=each)["image"] == "own:2"


def test_services_know_where_they_and_the_others_listen():
    services = {
        "llm": {"command": "serve --host {host} --port {port} --db {host:db}:{port:db} --literal $(HOME)"},
        "db": {"command": "db", "port": 5432, "env": {"LISTEN": "{host}:{port}"}},
    }
    other = "assay-c0ffee12-point-0000-db.bench.svc:5432"
    words = container(services)["command"]
    assert words == ["serve", "--host", "0.0.0.0", "--port", "8000", "--db", other, "--literal", "$$(HOME)"]
    assert environment(services, name="db")["LISTEN"] == "0.0.0.0:5432"
    assert environment(services)["PORT"] == environment(services)["ASSAY_PORT"] == "8000"


@pytest.mark.parametrize(
    ("ready", "probe"),
    [
        ({"http": "/health"}, {"httpGet": {"path": "/health", "port": 8000}}),
        ({"http": "health"}, {"httpGet": {"path": "/health", "port": 8000}}),
        ({"tcp": True}, {"tcpSocket": {"port": 8000}}),
        ({}, {"tcpSocket": {"port": 8000}}),
        ({"command": "ask {port}"}, {"exec": {"command": ["ask", "8000"]}}),
        ({"http": "/health", "tcp": True}, {"httpGet": {"path": "/health", "port": 8000}}),
    ],
)
def test_a_service_is_asked_until_it_is_ready_and_then_left_alone(ready, probe):
    one = container({"llm": {"command": "x", "ready": {"within": "90s", **ready}}})
    startup = one["startupProbe"]
    assert {key: startup[key] for key in probe} == probe
    assert startup["failureThreshold"] * startup["periodSeconds"] == 90
    assert "readinessProbe" not in one
    assert "livenessProbe" not in one, "nobody ends a service that is slow under load"


def test_two_questions_are_both_asked():
    one = container({"llm": {"command": "x", "ready": {"http": "/health", "command": "ask"}}})
    assert "httpGet" in one["startupProbe"]
    assert one["readinessProbe"]["exec"]["command"] == ["ask"]
    assert one["readinessProbe"]["failureThreshold"] > 10_000, "once ready it stays so"


def test_secrets_of_a_service_are_references():
    env = {"A": "${env:A}", "HEADER": "Bearer ${env:A} $x", "PLAIN": "p"}
    told = environment({"llm": {"command": "x", "env": env}}, kubernetes={"secrets": {"A": "own/a", "B": "own/b"}})
    assert told["ASSAY_SECRET_A"] == {"secretKeyRef": {"name": "own", "key": "a"}}
    assert (told["A"], told["HEADER"], told["PLAIN"]) == ("$(ASSAY_SECRET_A)", "Bearer $(ASSAY_SECRET_A) $$x", "p")
    assert "B" not in told, "no pod gets a secret that it has no use for"
    names = [
        one["name"]
        for one in container({"llm": {"command": "x", "env": env}}, kubernetes={"secrets": {"A": "own/a"}})["env"]
    ]
    assert names.index("ASSAY_SECRET_A") < names.index("A"), "Kubernetes puts in only what stands above"
    assert len(names) == len(set(names))


def test_what_the_file_says_of_a_service_is_the_last_word():
    told = environment({"llm": {"command": "x", "env": {"HOST": "localhost"}}}, kubernetes={"env": {"MODE": "fast"}})
    assert (told["HOST"], told["MODE"], told["ASSAY_HOST"]) == ("localhost", "fast", "0.0.0.0")


def test_a_service_may_want_a_node_of_its_own():
    kubernetes = {"queue": "lane", "each": {"llm": {"one_per_node": True, "gpus": 2}}}
    deployment = made({"llm": {"command": "x"}}, kubernetes)["Deployment", "llm"]
    template = deployment["spec"]["template"]
    assert template["metadata"]["labels"]["assay/measures"] == "yes"
    assert "podAntiAffinity" in template["spec"]["affinity"]
    assert template["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert deployment["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "lane"
    assert "kueue.x-k8s.io/queue-name" not in template["metadata"]["labels"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("serve 'a", "cannot be split"),
        ("serve --token ${env:TOKEN}", "a command cannot hold"),
        ("serve {prt}", "did you mean {port}?"),
        ("serve {port:nobody}", "names no service"),
    ],
)
def test_a_command_that_cannot_be_started_so_is_refused(command, said):
    with pytest.raises(AssayError) as caught:
        made({"llm": {"command": command}})
    assert said in str(caught.value)


FETCH = [
    {"src": "https://models.example/m.bin", "path": "/models/m.bin", "md5": "a" * 32,
     "headers": {"Authorization": "Bearer ${env:HF}"}},
    {"src": "https://models.example/a", "path": "/data"},
    {"src": "https://models.example/b", "path": "/data"},
    {"src": "https://models.example/c", "path": "/data/c"},
]  # fmt: skip


def test_files_of_a_service_are_fetched_before_it_starts_and_lie_where_it_searches_them():
    secrets = {"HF": "hub/token", "OTHER": "hub/other"}
    kubernetes = {"secrets": secrets, "pull": "never", "each": {"llm": {"pull": "always", "cpus": 2, "gpus": 1}}}
    deployment = made({"llm": {"image": "llm:1", "fetch": FETCH}}, kubernetes)["Deployment", "llm"]
    pod = deployment["spec"]["template"]["spec"]
    (first,), (service,) = pod["initContainers"], pod["containers"]
    assert (first["image"], first["imagePullPolicy"], service["imagePullPolicy"]) == ("assay:1", "Never", "Always")
    assert first["command"][:3] == ["python3", "-m", "assay.run.fetch"]
    assert json.loads(first["command"][3].replace("$$", "$")) == FETCH
    assert first["command"][4] == "/assay/fetched"
    assert first["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}, "devices are the service's own"
    refers = {one["name"]: one["valueFrom"]["secretKeyRef"] for one in first["env"] if "valueFrom" in one}
    assert refers == {"HF": {"name": "hub", "key": "token"}}
    assert not [one for one in service["env"] if "valueFrom" in one], "the service itself has no use for it"
    assert pod["volumes"] == [{"name": "fetched", "emptyDir": {}}]
    assert first["volumeMounts"] == [{"name": "fetched", "mountPath": "/assay/fetched"}]
    assert [(one["mountPath"], one["subPath"], one["readOnly"]) for one in service["volumeMounts"]] == [
        ("/data", "data", True),
        ("/models/m.bin", "models/m.bin", True),
    ]


def test_a_bucket_is_entered_by_the_variables_that_everybody_knows():
    fetch = [{"src": "s3://bucket/prefix/", "path": "/models"}]
    kubernetes = {"secrets": {"AWS_ACCESS_KEY_ID": "aws/id", "AWS_SECRET_ACCESS_KEY": "aws/key", "OTHER": "a/b"}}
    deployment = made({"llm": {"image": "llm:1", "fetch": fetch}}, kubernetes)["Deployment", "llm"]
    (first,) = deployment["spec"]["template"]["spec"]["initContainers"]
    names = [one["name"] for one in first["env"] if "valueFrom" in one]
    assert names == ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]


@pytest.mark.parametrize(
    ("fetch", "kubernetes", "words"),
    [
        ({"src": "models/m.bin", "path": "/m"}, {}, "a file of this machine"),
        ({"src": "https://x/${env:KEY}", "path": "/m"}, {}, "nothing says where the pod has it from"),
    ],
)
def test_files_that_no_node_could_have_are_refused(fetch, kubernetes, words):
    with pytest.raises(AssayError, match=words.replace("$", r"\$")):
        made({"llm": {"image": "llm:1", "fetch": [fetch]}}, kubernetes)
