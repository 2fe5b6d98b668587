"""The files of deploy/: pinned, closed, of one version, and readable for the programs that they are written for."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tests.support.kube.schema import RELEASES, problems
from tests.support.lacking import lacking

from assay import __version__
from assay.engines.kubernetes.objects.names import MEASURES
from assay.infra.commands import deploy_folder
from assay.infra.record import ROLES

DEPLOY = deploy_folder()
ROOT = DEPLOY.parent
CHART = DEPLOY / "helm" / "assay"
DOCKERFILES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
WORKLOADS = ("Deployment", "StatefulSet")


def read(path: Path) -> object:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


# Images


def test_there_is_an_image_for_the_server_and_for_agents_with_and_without_cuda():
    assert [path.name.partition(".")[0] for path in DOCKERFILES] == ["agent-cuda", "agent", "server"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_has_a_fixed_base_and_is_not_root(path):
    text = path.read_text(encoding="utf-8")
    (default,) = re.findall(r"^ARG \w+_IMAGE=(\S+)$", text, re.MULTILINE)
    assert re.search(r":[\w.-]*\d", default), "a version, and not latest"
    (argument,) = re.findall(r"^ARG (\w+_IMAGE)=", text, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {f"${{{argument}}}"}
    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE)[-1] == "10001"


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_what_an_image_is_built_from_is_there_and_not_ignored(path):
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in re.findall(r"^COPY (?!--from)(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in ignored, source


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_extras_of_an_image_are_extras_of_the_package(path):
    import tomllib

    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (given,) = re.findall(r"^ARG EXTRAS=(\S+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(given.split(",")) <= set(known)


# Services of the system


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_one_for_systemd_itself(path, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze found")
    unit = tmp_path / path.name
    # Only the place of the program differs from machine to machine.
    text = re.sub(r"/opt/assay/bin/\w+", "/bin/true", path.read_text(encoding="utf-8"))
    unit.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if path.name in line]
    assert not said, done.stderr


def test_units_hold_no_secret_and_no_place_of_one_machine():
    for path in UNITS:
        text = path.read_text(encoding="utf-8")
        assert "/home/" not in text
        assert not re.search(r"^Environment=.*(TOKEN|PASSWORD|URL)", text, re.MULTILINE)


# The chart


def test_the_chart_is_of_the_version_of_the_package():
    chart = read(CHART / "Chart.yaml")
    assert (chart["appVersion"], chart["version"]) == (__version__, __version__)


def test_images_of_others_have_the_same_versions_in_the_chart_and_the_compose_file():
    values = read(CHART / "values.yaml")
    compose = (DEPLOY / "docker-compose.yml").read_text(encoding="utf-8")
    for part in ("postgresql", "redis", "prometheus"):
        assert f":-{values[part]['image']}}}" in compose


@pytest.fixture(scope="session")
def helm():
    found = shutil.which("helm", path=os.pathsep.join((str(ROOT / ".venv-deploy/bin"), os.environ["PATH"])))
    if found is None:
        lacking("DEPLOY", "no helm found")
    return found


@pytest.fixture(scope="session")
def rendered(helm):
    """A function that renders the chart with some settings; gives its objects by kind and name."""

    def render(*settings: str, code: int = 0) -> dict[tuple[str, str], dict]:
        words = [word for one in settings for word in ("--set", one)]
        done = subprocess.run(
            [helm, "template", "assay", str(CHART), "--namespace", "team", *words], capture_output=True, text=True
        )
        assert done.returncode == code, done.stderr
        if code:
            return {("error", ""): {"said": done.stderr}}
        objects = [one for one in YAML(typ="safe").load_all(done.stdout) if one]
        return {(one["kind"], one["metadata"]["name"]): one for one in objects}

    return render


REGISTRY = "registry=registry.example.com/team"


def pods(objects):
    return {name: one["spec"]["template"]["spec"] for (kind, name), one in objects.items() if kind in WORKLOADS}


@pytest.mark.live
def test_helm_finds_nothing_wrong_with_the_chart(helm):
    done = subprocess.run([helm, "lint", "--strict", "--set", REGISTRY, str(CHART)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.live
def test_the_chart_has_every_part(rendered):
    objects = rendered(REGISTRY)
    assert set(pods(objects)) == {
        "assay-server",
        "assay-postgresql",
        "assay-redis",
        "assay-prometheus",
        "assay-agent-cpu",
    }
    for name in ("server", "postgresql", "redis", "prometheus"):
        assert ("Service", f"assay-{name}") in objects
    server = pods(objects)["assay-server"]
    assert server["containers"][0]["image"] == f"registry.example.com/team/assay-server:{__version__}"


EVERYTHING = (
    REGISTRY, "prometheus.persistence.enabled=true", "ingress.enabled=true", "ingress.host=assay.example.com",
    "ingress.tlsSecret=certificate", "imagePullSecrets[0].name=mine", "objects.url=s3://bucket/assay",
    "server.persistence.accessMode=ReadWriteMany", "server.replicas=2", "agents[0].name=gpu",
    "agents[0].image.name=assay-agent-cuda", r"agents[0].resources.limits.nvidia\.com/gpu=1", "agents[0].shm=1Gi",
)  # fmt: skip


@pytest.mark.live
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("settings", [(REGISTRY,), EVERYTHING], ids=["as it is", "everything"])
def test_every_object_is_one_that_the_api_of_kubernetes_knows(rendered, settings, release):
    """By what each release publishes: no field that it would drop without a word, none missing, no wrong type."""
    for (kind, name), one in rendered(*settings).items():
        assert not problems(one, release), (kind, name)


@pytest.mark.live
def test_every_selector_finds_the_pods_of_its_part(rendered):
    objects = rendered(REGISTRY)
    labels = {
        name: one["spec"]["template"]["metadata"]["labels"]
        for (kind, name), one in objects.items()
        if kind in WORKLOADS
    }
    for (kind, name), one in objects.items():
        if kind in WORKLOADS:
            assert one["spec"]["selector"]["matchLabels"].items() <= labels[name].items()
        if kind == "Service":
            found = [pod for pod, has in labels.items() if one["spec"]["selector"].items() <= has.items()]
            assert found == [name]


@pytest.mark.live
def test_no_pod_is_root_or_may_become_it(rendered):
    for name, pod in pods(rendered(REGISTRY)).items():
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["automountServiceAccountToken"] is False, name
        for one in [*pod["containers"], *pod.get("initContainers", [])]:
            assert one["securityContext"]["allowPrivilegeEscalation"] is False, name
            assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}, name
            assert one["securityContext"]["readOnlyRootFilesystem"] is True, name


@pytest.mark.live
def test_every_volume_that_is_mounted_is_there_and_claimed(rendered):
    objects = rendered(REGISTRY, "prometheus.persistence.enabled=true")
    for name, pod in pods(objects).items():
        volumes = {one["name"]: one for one in pod["volumes"]}
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert {one["name"] for one in container["volumeMounts"]} <= set(volumes), name
        for one in volumes.values():
            if "persistentVolumeClaim" in one:
                claim = objects["PersistentVolumeClaim", one["persistentVolumeClaim"]["claimName"]]
                assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


@pytest.mark.live
def test_secrets_are_made_and_reach_pods_by_reference_alone(rendered):
    objects = rendered(REGISTRY)
    keys = objects["Secret", "assay-keys"]
    assert set(keys["data"]) == {*ROLES, "database", "redis"}
    assert keys["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    plain = {key: base64.b64decode(value).decode() for key, value in keys["data"].items()}
    assert len(set(plain.values())) == 5
    assert all(plain[role].startswith("assay_") and len(plain[role]) > 40 for role in ROLES)
    for name, pod in pods(objects).items():
        assert not any(secret in str(pod) for secret in plain.values()), name
    (step,) = pods(objects)["assay-server"]["initContainers"]
    told = {one["name"]: one.get("valueFrom") for one in step["env"]}
    for role in ROLES:
        assert told[f"ASSAY_INFRA_TOKEN_{role.upper()}"] == {"secretKeyRef": {"name": "assay-keys", "key": role}}


@pytest.mark.live
def test_a_secret_of_ones_own_is_used_and_none_is_made(rendered):
    objects = rendered(REGISTRY, "keys.existingSecret=mine")
    assert not [name for kind, name in objects if kind == "Secret"]
    assert "assay-keys" not in str(objects)


@pytest.mark.live
def test_agents_keep_apart_from_each_other_and_from_measuring_pods(rendered):
    pod = rendered(REGISTRY)["Deployment", "assay-agent-cpu"]["spec"]["template"]
    (term,) = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {MEASURES: "yes"}
    assert pod["metadata"]["labels"][MEASURES] == "yes"


@pytest.mark.live
@pytest.mark.parametrize(("settings", "count"), [(["agents[0].replicas=0"], 0), (["agents[0].replicas=3"], 3),
                                                 ([], 1)])  # fmt: skip
def test_a_group_has_as_many_agents_as_requested_also_none(rendered, settings, count):
    objects = rendered(REGISTRY, "agents[0].name=cpu", "agents[0].image.name=assay-agent", *settings)
    assert objects["Deployment", "assay-agent-cpu"]["spec"]["replicas"] == count


@pytest.mark.live
def test_a_group_with_gpus_is_one_setting_away(rendered):
    objects = rendered(
        REGISTRY,
        "agents[0].name=gpu",
        "agents[0].image.name=assay-agent-cuda",
        r"agents[0].resources.limits.nvidia\.com/gpu=1",
        "agents[0].allow={command}",
        "agents[0].labels.rack=quiet",
    )
    (container,) = pods(objects)["assay-agent-gpu"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert "--allow=command" in container["args"]
    assert "--label=rack=quiet" in container["args"]


@pytest.mark.live
@pytest.mark.parametrize(("settings", "said"), [
    ((), "registry is needed"),
    ((REGISTRY, "postgresql.enabled=false"), "database.urlSecret.name"),
    ((REGISTRY, "server.replicas=2"), "server.replicas is above 1"),
    ((REGISTRY, "ingress.enabled=true"), "ingress.host is needed"),
    ((REGISTRY, "servr.replicas=2"), "servr"),
    ((REGISTRY, "server.replicas=many"), "replicas"),
])  # fmt: skip
def test_values_that_cannot_work_are_refused_in_words(rendered, settings, said):
    assert said in rendered(*settings, code=1)["error", ""]["said"]


@pytest.mark.live
def test_a_database_of_ones_own_takes_the_place_of_ours(rendered):
    objects = rendered(REGISTRY, "postgresql.enabled=false", "database.urlSecret.name=rds", "redis.enabled=false")
    assert set(pods(objects)) == {"assay-server", "assay-prometheus", "assay-agent-cpu"}
    env = {one["name"]: one for one in pods(objects)["assay-server"]["containers"][0]["env"]}
    assert env["ASSAY_SERVER_DATABASE_URL"]["valueFrom"]["secretKeyRef"] == {"name": "rds", "key": "url"}
    assert "ASSAY_SERVER_REDIS_URL" not in env


@pytest.mark.live
def test_the_rights_of_the_runner_are_those_that_are_shipped(rendered):
    shipped = [one for one in YAML(typ="safe").load_all((DEPLOY / "kubernetes" / "role.yaml").read_text()) if one]
    (role,) = (one for one in shipped if one["kind"] == "Role")
    assert rendered(REGISTRY)["Role", "assay-runner"]["rules"] == role["rules"]
    assert not any(kind.startswith("Cluster") for kind, _ in rendered(REGISTRY))
