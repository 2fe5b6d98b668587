"""Containers: the command lines of the runtimes, and real ones with podman where it is installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest
from tests.support.lacking import lacking
from tests.support.running_server import wait_for
from tests.unit.run.services.conftest import LISTEN, await_gone

from assay.errors import MeasureError
from assay.run.processes import TAG_VARIABLE, kill_tree
from assay.run.services import started
from assay.run.services.containers import (
    RUNTIMES,
    VARIABLE,
    Container,
    Runtime,
    find_runtime,
    make_box,
    runtime_for,
    sweep_containers,
)
from assay.run.services.containers.runtimes import read_inspected
from assay.run.services.plan import Ports, ServiceSpec
from assay.spec.benchmark import Service

ALL = Container(
    Runtime("podman", "/usr/bin/podman"),
    "ollama/ollama:0.6.2",
    "assay-1",
    "tag1",
    command=("ollama", "serve", "--port", "8000"),
    env={"PORT": "8000"},
    hidden={"KEY": "sesame-1234"},
    mounts={"/data/models": "/models"},
    workdir="/srv",
    gpus=2,
    port=8000,
)


def run_words(box: Container) -> list[str]:
    return runtime_for(box.runtime).words(box)


def client_environment(box: Container, inherited: dict[str, str]) -> dict[str, str]:
    return runtime_for(box.runtime).environment(box, inherited)


def image_for(kind: str, image: str, base: Path, at: str) -> str:
    return RUNTIMES[kind].image(image, base, at)


def on(kind: str, box: Container = ALL, **changes) -> Container:
    from dataclasses import replace

    return replace(box, runtime=Runtime(kind, f"/usr/bin/{kind}"), **changes)


def there(*names: str):
    return lambda name: f"/usr/bin/{name}" if name in names else None


def test_the_first_runtime_that_is_there_is_taken():
    assert find_runtime("auto", "", there("docker", "podman")) == Runtime("podman", "/usr/bin/podman")
    assert find_runtime("auto", "", there("docker", "singularity")) == Runtime("apptainer", "/usr/bin/singularity")
    assert find_runtime("docker", "", there("docker", "podman")) == Runtime("docker", "/usr/bin/docker")


@pytest.mark.parametrize(
    ("asked", "looked"),
    [
        ("auto", "apptainer, singularity, podman, ch-run, docker"),
        ("charliecloud", "ch-run"),
        ("apptainer", "apptainer, singularity"),
        ("docker", "docker"),
    ],
)
def test_a_missing_runtime_says_what_was_searched_for(asked, looked):
    with pytest.raises(MeasureError) as caught:
        find_runtime(asked, "services.llm.image", there())
    assert f"(looked for {looked})" in caught.value.problem.message
    assert caught.value.problem.code == "container-runtime"


def test_podman():
    assert run_words(ALL) == [
        "/usr/bin/podman",
        "run",
        "--rm",
        "--name",
        "assay-1",
        "--label",
        "assay=tag1",
        "--network=host",
        "--device",
        "nvidia.com/gpu=all",
        "--env",
        "PORT=8000",
        "--env",
        "KEY",
        "--volume",
        "/data/models:/models",
        "--workdir",
        "/srv",
        "--entrypoint",
        "ollama",
        "ollama/ollama:0.6.2",
        "serve",
        "--port",
        "8000",
    ]


def test_docker():
    assert run_words(on("docker")) == [
        "/usr/bin/docker",
        "run",
        "--rm",
        "--name",
        "assay-1",
        "--label",
        "assay=tag1",
        "--network=host",
        "--gpus",
        "2",
        "--env",
        "PORT=8000",
        "--env",
        "KEY",
        "--volume",
        "/data/models:/models",
        "--workdir",
        "/srv",
        "--entrypoint",
        "ollama",
        "ollama/ollama:0.6.2",
        "serve",
        "--port",
        "8000",
    ]
    assert run_words(on("docker", gpus=None, command=None, mounts={}, hidden={}, workdir=None))[-1:] == [ALL.image]


def test_where_containers_live_in_a_virtual_machine_the_port_is_published():
    words = run_words(on("docker", host_network=False))
    assert "--network=host" not in words
    assert words[words.index("--publish") + 1] == "127.0.0.1:8000:8000"


def test_apptainer():
    box = on("apptainer", image="docker://ollama/ollama:0.6.2")
    assert run_words(box) == [
        "/usr/bin/apptainer",
        "exec",
        "--cleanenv",
        "--writable-tmpfs",
        "--nv",
        "--bind",
        "/data/models:/models",
        "--pwd",
        "/srv",
        "docker://ollama/ollama:0.6.2",
        "ollama",
        "serve",
        "--port",
        "8000",
    ]
    assert run_words(on("apptainer", command=None))[1] == "run"
    env = client_environment(box, {"HOME": "/root"})
    assert env["APPTAINERENV_KEY"] == env["SINGULARITYENV_KEY"] == "sesame-1234"
    assert (env["APPTAINERENV_PORT"], env["HOME"]) == ("8000", "/root")


def test_charliecloud(tmp_path):
    (tmp_path / "img" / "ch").mkdir(parents=True)
    box = on("charliecloud", image=str(tmp_path / "img"))
    assert run_words(box) == [
        "/usr/bin/charliecloud",
        "--private-tmp",
        "--env-no-expand",
        "--set-env=PORT=8000",
        "--bind=/data/models:/models",
        "--cd=/srv",
        box.image,
        "--",
        "ollama",
        "serve",
        "--port",
        "8000",
    ]
    assert client_environment(box, {"HOME": "/root", "USER": "me", "LD_PRELOAD": "x"}) == {
        "USER": "me",
        "HOME": "/tmp",
        "KEY": "sesame-1234",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }
    (tmp_path / "img/ch/environment").write_text("A=1\n")
    assert run_words(box)[2:5] == ["--set-env", "--env-no-expand", "--set-env=PORT=8000"], "the file's win"
    with pytest.raises(MeasureError, match="no entry point"):
        run_words(on("charliecloud", command=None))


def test_a_site_says_what_runs_the_images_of_services_that_do_not(monkeypatch):
    monkeypatch.setenv(VARIABLE, "docker")
    assert find_runtime("auto", "", there("docker", "podman")).kind == "docker"
    assert find_runtime("podman", "", there("docker", "podman")).kind == "podman"


@pytest.mark.parametrize("kind", ["apptainer", "podman", "charliecloud", "docker"])
def test_no_secret_is_on_a_command_line(kind):
    box = on(kind)
    assert not any("sesame" in word for word in run_words(box))
    assert "sesame-1234" in client_environment(box, {}).values()


def test_only_values_with_secrets_go_hidden(tmp_path):
    service_spec = ServiceSpec(
        "llm", image="x", command=("serve", "{port}"), env={"KEY": "${env:K}", "PATH": "/app/bin"}
    )
    box = make_box(
        service_spec, Ports(81, {}, ""), {"KEY": "v", "PATH": "/app/bin", "PORT": "81"}, tmp_path, name="n", tag="t"
    )
    assert box.hidden == {"KEY": "v"}
    # A PATH for the container must not become that of the program that starts it.
    assert "PATH" not in client_environment(box, {})
    assert box.command == ("serve", "81")


@pytest.mark.parametrize(
    ("kind", "image", "becomes"),
    [
        ("apptainer", "docker://ollama/ollama", "docker://ollama/ollama"),
        ("apptainer", "ollama/ollama", "docker://ollama/ollama"),
        ("apptainer", "oras://registry.example/x", "oras://registry.example/x"),
        ("podman", "docker://ollama/ollama", "ollama/ollama"),
        ("docker", "ollama/ollama@sha256:abc", "ollama/ollama@sha256:abc"),
        ("charliecloud", "docker://ollama/ollama", "ollama/ollama"),
    ],
)
def test_an_image_is_named_as_each_runtime_wants(kind, image, becomes):
    assert image_for(kind, image, Path("/bench"), "") == becomes


def test_an_image_file_is_for_apptainer_and_must_be_there(tmp_path):
    (tmp_path / "vllm.sif").touch()
    assert image_for("apptainer", "vllm.sif", tmp_path, "") == str(tmp_path / "vllm.sif")
    with pytest.raises(MeasureError, match="is not there"):
        image_for("apptainer", "other.sif", tmp_path, "")
    with pytest.raises(MeasureError, match="cannot run the image file"):
        image_for("podman", "vllm.sif", tmp_path, "")


def test_charliecloud_takes_folders_squashfs_files_and_archives(tmp_path):
    (tmp_path / "rootfs").mkdir()
    for name in ("vllm.sqfs", "vllm.tar.gz"):
        (tmp_path / name).touch()
        assert image_for("charliecloud", name, tmp_path, "") == str(tmp_path / name)
    assert image_for("charliecloud", "rootfs", tmp_path, "") == str(tmp_path / "rootfs")
    with pytest.raises(MeasureError, match="is not there"):
        image_for("charliecloud", "./other", tmp_path, "")


def test_with_none_the_image_is_only_a_remark(tmp_path, scratch, service):
    from assay.run.services import service_spec

    section = Service(image="vllm/vllm:1", command="serve {port}", container="none", cwd="here")
    plain = service_spec("llm", section)
    assert (plain.image, plain.unused_image, plain.container) == (None, "vllm/vllm:1", "auto")
    web = service(LISTEN + "server.serve_forever()")
    with started({"web": web.model_copy(update={"image": "x:1", "container": "none"})}, tmp_path, scratch) as running:
        assert running["web"].how == "process"
        assert running["web"].facts["image_not_used"] == "x:1"
    with pytest.raises(ValueError, match="command is needed"):
        Service(image="x", container="none")
    with pytest.raises(ValueError, match="mounts would do nothing"):
        Service(image="x", container="none", command="serve", mounts={"a": "/a"})


def test_a_mount_must_be_there(tmp_path):
    service_spec = ServiceSpec("llm", image="x", mounts={"models": "/models"})
    with pytest.raises(MeasureError, match="models', which is not there"):
        make_box(service_spec, Ports(1, {}, ""), {}, tmp_path, name="n", tag="t", which=there("podman"))
    (tmp_path / "models").mkdir()
    assert make_box(service_spec, Ports(1, {}, ""), {}, tmp_path, name="n", tag="t", which=there("podman")).mounts == {
        str(tmp_path / "models"): "/models"
    }


def test_an_image_is_named_by_what_the_runtime_says_it_is():
    podmans = '[{"Id": "abc", "Digest": "sha256:def", "RepoDigests": ["x@sha256:ghi"]}]'
    assert read_inspected(podmans) == {"image_id": "sha256:abc", "image_digest": "sha256:def"}
    dockers = '[{"Id": "sha256:abc", "RepoDigests": ["ollama/ollama@sha256:ghi"]}]'
    assert read_inspected(dockers) == {"image_id": "sha256:abc", "image_digest": "sha256:ghi"}
    assert read_inspected('[{"Id": "sha256:abc", "RepoDigests": null}]') == {"image_id": "sha256:abc"}
    assert read_inspected("[]") == read_inspected("") == {}


def test_nothing_is_asked_where_no_container_was_started(tmp_path):
    assert sweep_containers("tag", tmp_path) == 0


IMAGE = "localhost/assay-test-httpd:1"
CONFIG = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def podman(*words: str) -> str:
    return subprocess.run(["podman", *words], capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """An image made from nothing but busybox, and podman set up so that it runs without systemd."""
    busybox = shutil.which("busybox")
    if shutil.which("podman") is None or busybox is None:
        lacking("CONTAINERS", "podman and a static busybox are needed")
    folder = tmp_path_factory.mktemp("image")
    config = folder / "containers.conf"
    runc = shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin")
    # The default runtime wants a control group layout that small virtual machines do not have.
    config.write_text(CONFIG + (f'runtime = "runc"\n[engine.runtimes]\nrunc = ["{runc}"]\n' if runc else ""))
    shutil.copy(busybox, folder / "busybox")
    (folder / "Containerfile").write_text(
        'FROM scratch\nCOPY busybox /bin/busybox\nRUN ["/bin/busybox", "--install", "-s", "/bin"]\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", str(config))
        try:
            podman("build", "--quiet", "--tag", IMAGE, str(folder))
            podman("run", "--rm", "--network=host", IMAGE, "/bin/true")
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
            lacking("CONTAINERS", f"podman does not work here: {getattr(failure, 'stderr', failure)}")
        yield IMAGE
        subprocess.run(["podman", "rmi", "--force", IMAGE], capture_output=True, timeout=120)


def httpd(**keys) -> Service:
    # The first process of a container is not ended by what it does not catch, so that a trap is needed.
    script = "trap 'exit 0' TERM; echo begun >&2; echo \"key $KEY\"; httpd -f -p 127.0.0.1:$PORT -h /www & wait"
    return Service.model_validate(
        {
            "image": f"docker://{IMAGE}",
            "container": "podman",
            "command": ("/bin/sh", "-c", script),
            "mounts": {"www": "/www"},
            "ready": {"http": "/page.txt", "within": 60.0},
            **keys,
        }
    )


@pytest.fixture
def base(tmp_path) -> Path:
    (tmp_path / "www").mkdir()
    (tmp_path / "www/page.txt").write_text("from the container")
    return tmp_path


@pytest.mark.live
def test_a_container_serves_and_is_gone_afterwards(image, base, scratch, monkeypatch):
    monkeypatch.setenv("MODEL_KEY", "sesame-1234")
    web = httpd(env={"KEY": "${env:MODEL_KEY}"})
    with started({"web": web}, base, scratch) as running:
        one = running["web"]
        with urllib.request.urlopen(f"{one.base_url}/page.txt", timeout=60) as answer:
            assert answer.read() == b"from the container"
        assert one.how == "podman"
        assert psutil.Process(one.pid).name() == "sh", "the process inside, as the probes want it"
        assert one.facts["image_id"] == f"sha256:{podman('image', 'inspect', '-f', '{{.Id}}', IMAGE).strip()}"
        assert one.facts["image_digest"].startswith("sha256:")
        assert one.facts["runtime_version"].startswith("podman version")
        names = podman("ps", "--filter", "label=assay", "--format", "{{.Names}}").split()
        assert len(names) == 1
    assert podman("ps", "--all", "--quiet", "--filter", "label=assay") == ""
    await_gone(one.pid)
    assert one.stdout.read_text() == "key sesame-1234\n"
    assert "begun" in one.stderr.read_text()


@pytest.mark.live
def test_a_container_that_fails_says_why(image, base, scratch):
    broken = httpd(command="/bin/sh -c 'echo no such model >&2; exit 3'")
    with pytest.raises(MeasureError, match=r"exit code 3(.|\n)*no such model"), started({"web": broken}, base, scratch):
        pass


@pytest.mark.live
def test_an_image_that_is_not_there_is_reported_in_the_words_of_the_runtime(image, base, scratch):
    missing = httpd(image="localhost/assay-test-nowhere:1")
    with pytest.raises(MeasureError, match="assay-test-nowhere") as caught, started({"web": missing}, base, scratch):
        pass
    assert caught.value.problem.code == "service-ended"


HOLD = """
import sys, time
from pathlib import Path
from assay.run.services import started
from tests.unit.run.services.test_containers import httpd
base = Path(sys.argv[1])
with started({"web": httpd()}, base, base / "scratch") as running:
    (base / "pid").write_text(str(running["web"].pid))
    time.sleep(600)
"""


@pytest.mark.live
@pytest.mark.parametrize("tree", [False, True])
def test_no_container_survives_a_kill(image, base, scratch, tree):
    """Of the holder alone: its keeper ends the container. Of the whole tree, as at a deadline: the sweep does."""
    path = os.pathsep.join([str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])])
    environ = {**os.environ, TAG_VARIABLE: f"tag-{os.getpid()}", "PYTHONPATH": path}
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(base)], env=environ, start_new_session=True)
    try:
        wait_for(lambda: (base / "pid").exists() and (base / "pid").read_text(), what="the container")
        pid = int((base / "pid").read_text())
        assert psutil.pid_exists(pid)
    finally:
        if tree:
            kill_tree(holder.pid, environ[TAG_VARIABLE])
        holder.send_signal(signal.SIGKILL)
        holder.wait(120)
    if tree:
        assert sweep_containers(environ[TAG_VARIABLE], scratch) <= 1
    await_gone(pid)
    mine = ("ps", "--all", "--quiet", "--filter", f"label=assay={environ[TAG_VARIABLE]}")
    wait_for(lambda: not podman(*mine), what="the end of the container")


@pytest.mark.live
def test_an_archive_takes_the_place_of_a_registry(image, base, scratch, tmp_path, monkeypatch):
    """What `assay prepare` keeps is loaded on a node whose store does not have the image."""
    monkeypatch.setenv("ASSAY_IMAGES", str(tmp_path / "images"))
    copy = "localhost/assay-test-kept:1"
    podman("tag", IMAGE, copy)
    way = RUNTIMES["podman"]
    first = way.keep(shutil.which("podman"), copy, tmp_path / "images", 60.0)
    assert first.fresh
    assert first.path.name == f"{first.sha256}.tar"
    assert first.facts["image_id"] == f"sha256:{podman('image', 'inspect', '-f', '{{.Id}}', IMAGE).strip()}"
    podman("rmi", copy)
    try:
        with started({"web": httpd(image=copy)}, base, scratch) as running:
            assert running["web"].facts["image_id"] == first.facts["image_id"]
    finally:
        subprocess.run(["podman", "rmi", copy], capture_output=True, timeout=60)
    assert not way.keep(shutil.which("podman"), copy, tmp_path / "images", 60.0).fresh
