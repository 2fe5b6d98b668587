"""Jobs in an image: the runtimes' command lines around ours, and real ones on a real Slurm."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.live.slurm.test_live import only
from tests.support.lacking import lacking
from tests.support.python_image import PYTHON, python_image
from tests.unit.run.services.test_containers import IMAGE, image

from assay.engines.slurm.folder import BatchPlan, SharedFolder
from assay.engines.slurm.script import Variable
from assay.engines.slurm.scripts import contained
from assay.errors import UsageError
from assay.spec.slurm import Batch, Slurm

__all__ = ["image"]  # a fixture
TASK = ("/usr/bin/python3", "-m", "assay.engines.slurm.node.task", "/shared", "jobs-0", Variable("SLURM_ARRAY_TASK_ID"))


def stands_in(folder: Path, name: str) -> Path:
    """A program that is only there."""
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return folder


def wrapped(name: str, kind: str, shared: Path, base: Path, **batch):
    one = BatchPlan("jobs-0", "jobs", "jobs-0", Batch(container=name, **batch), tasks=1)
    found = contained(one, Slurm(runtime=kind), SharedFolder(shared), base)
    return found, found.wrap(TASK)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A shared folder, the folder of the file and the kept models."""
    for name in ("shared", "base", "cache", "bin"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ASSAY_IMAGES", str(tmp_path / "images"))
    return tmp_path


@pytest.mark.parametrize("kind", ["podman", "docker"])
def test_the_image_stands_between_program_and_words(places, monkeypatch, kind):
    monkeypatch.setenv("PATH", f"{stands_in(places / 'bin', kind)}")
    _, words = wrapped("assay:1", kind, places / "shared", places / "base")
    place = words.index("--entrypoint")
    assert words[place:] == ("--entrypoint", "/usr/bin/python3", "assay:1", *TASK[1:])
    assert "--name" not in words
    assert f"{places / 'shared'}:{places / 'shared'}" in words
    assert words[words.index("--workdir") + 1] == str(places / "shared")


def test_apptainer_gets_its_variables_by_their_own_names(places, monkeypatch):
    monkeypatch.setenv("PATH", f"{stands_in(places / 'bin', 'apptainer')}")
    (places / "base" / "assay.sif").touch()
    found, words = wrapped("assay.sif", "apptainer", places / "shared", places / "base")
    assert words[-len(TASK) :] == TASK
    assert str(places / "base" / "assay.sif") in words
    assert 'export APPTAINERENV_SLURM_JOB_ID="${SLURM_JOB_ID:-}"' in found.prologue
    assert f"export ASSAY_CACHE={places / 'cache'}" in found.prologue


def test_charliecloud_is_refused_an_image_without_a_place_for_the_folders(places, monkeypatch):
    monkeypatch.setenv("PATH", f"{stands_in(places / 'bin', 'ch-run')}")
    (places / "image").mkdir()
    with pytest.raises(UsageError) as refused:
        wrapped(str(places / "image"), "charliecloud", Path("/usr/share"), Path("/usr/lib"))
    assert refused.value.problem.code == "container-mount"
    assert f"mkdir -p {places}/image/usr/share {places}/image/usr/lib" in refused.value.problem.try_
    for name in ("usr/share", "usr/lib"):
        (places / "image" / name).mkdir(parents=True)
    found, words = wrapped(str(places / "image"), "charliecloud", Path("/usr/share"), Path("/usr/lib"))
    assert "--bind=/usr/share:/usr/share" in words
    assert words[-len(TASK) - 1 :] == ("--", *TASK)
    assert found.prologue[-1].startswith("export USER=")


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory):
    """The folder of an image that has assay."""
    busybox = shutil.which("busybox")
    if shutil.which("ch-run") is None or busybox is None:
        lacking("CONTAINERS", "charliecloud and a static busybox are needed")
    return python_image(tmp_path_factory.mktemp("image") / "assay", busybox)


@pytest.mark.live
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "squashfs"])
def test_a_job_is_measured_inside_of_its_image(site, rootfs, packed, monkeypatch):
    (rootfs / "etc" / "inside").write_text("x=42\n")
    used = rootfs
    if packed:
        used = site.folder / "assay.sqfs"
        fast = ("-noappend", "-quiet", "-noI", "-noD", "-noF", "-noX")
        subprocess.run(["mksquashfs", rootfs, used, *fast], check=True, timeout=60, stdout=subprocess.DEVNULL)
    monkeypatch.delenv("USER", raising=False)
    slurm = {"container": str(used), "runtime": "charliecloud", "python": PYTHON}
    assert site.start(site.document("cat /etc/inside", slurm=slurm)).wait(60) == 0, site.said()
    campaign = site.newest()
    assert only(site.jobs(campaign)).metrics["x"].median == 42
    script = (site.shared(campaign) / "scripts" / "jobs-0.sh").read_text()
    assert f"{shutil.which('ch-run')} --private-tmp" in script


@pytest.mark.live
@pytest.mark.usefixtures("image")
def test_podman_starts_what_we_say_with_our_folders_and_variables(places, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    said = places / "shared" / "said"
    script = f'echo "$SLURM_JOB_ID $ASSAY_CACHE $(pwd) $*" > {said}'
    found, words = wrapped(IMAGE, "podman", places / "shared", places / "base")
    shown = " ".join(shlex.quote(word) for word in words if isinstance(word, str))
    # In place of a Python, the shell of the image; what it is told is the script, and our words after it.
    lines = [
        *found.prologue,
        shown.replace("/usr/bin/python3", "/bin/sh").replace(" -m ", f" -c {shlex.quote(script)} "),
    ]
    done = subprocess.run(["/bin/bash", "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert said.read_text() == f"77 {places / 'cache'} {places / 'shared'} /shared jobs-0\n"
