"""Charliecloud for real: images made on the spot, as folders, as squashfs files and from an archive."""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
import uuid
from pathlib import Path

import psutil
import pytest
from tests.support.lacking import lacking
from tests.unit.run.services.conftest import await_gone

from assay.errors import MeasureError
from assay.run.services import started
from assay.run.services.containers import image_cache
from assay.run.services.containers.runtimes import CHARLIECLOUD, has_variables
from assay.spec.benchmark import Service

pytestmark = pytest.mark.live
FOLDERS = ("bin", "dev", "proc", "sys", "tmp", "etc", "ch", "root", "home", "mnt", "var/tmp", "usr/bin", "www")


@pytest.fixture(scope="session")
def rootfs(tmp_path_factory) -> Path:
    """The folder of an image with nothing but busybox in it."""
    busybox = shutil.which("busybox")
    if shutil.which("ch-run") is None or busybox is None or shutil.which("mksquashfs") is None:
        lacking("CONTAINERS", "charliecloud, squashfs-tools and a static busybox are needed")
    folder = tmp_path_factory.mktemp("charliecloud") / "httpd"
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
    shutil.copy(busybox, folder / "bin/busybox")
    for name in ("sh", "cat", "env", "httpd", "sleep", "touch", "echo"):
        (folder / "bin" / name).symlink_to("busybox")
    for name in ("passwd", "group", "hosts", "resolv.conf"):
        (folder / "etc" / name).touch()
    (folder / "ch/environment").write_text("OF_THE_IMAGE=yes\nPLAIN=the image's\n")
    done = subprocess.run(
        ["ch-run", str(folder), "--", "/bin/echo", "hello"],
        capture_output=True,
        text=True,
        env={"USER": "root", "PATH": "/usr/bin:/bin"},
        timeout=60,
    )
    if done.stdout != "hello\n":
        lacking("CONTAINERS", f"charliecloud does not work here: {done.stderr}")
    return folder


@pytest.fixture(autouse=True)
def images(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ASSAY_IMAGES", str(tmp_path / "images"))
    return tmp_path / "images"


@pytest.fixture
def base(tmp_path) -> Path:
    (tmp_path / "www").mkdir()
    (tmp_path / "www/page.txt").write_text("from the container")
    return tmp_path


# A name that no other program of this machine uses: /tmp belongs to everybody.
WRITTEN = Path("/tmp", f"assay-test-{uuid.uuid4().hex}")


def httpd(image: Path, **keys) -> Service:
    script = f"env >&2; touch {WRITTEN}; exec httpd -f -p $HOST:$PORT -h /www"
    return Service.model_validate(
        {
            "image": str(image),
            "container": "charliecloud",
            "command": ("/bin/sh", "-c", script),
            "mounts": {"www": "/www"},
            "env": {"KEY": "${env:MODEL_KEY}", "PLAIN": "a $b: 'c'"},
            "ready": {"http": "/page.txt", "within": 30.0},
            **keys,
        }
    )


def packed(rootfs: Path, to: Path) -> Path:
    subprocess.run(["tar", "-C", str(rootfs.parent), "-czf", str(to), rootfs.name], check=True, timeout=60)
    return to


def squashed(rootfs: Path, to: Path) -> Path:
    subprocess.run(
        ["mksquashfs", str(rootfs), str(to), "-quiet", "-no-progress"], check=True, capture_output=True, timeout=60
    )
    return to


def seen(process: psutil.Process) -> tuple[str, list[str]]:
    """Name and command line of a process; nothing of one that ended meanwhile, as one that answered a request does."""
    try:
        return process.name(), process.cmdline()
    except psutil.NoSuchProcess:
        return "", []


@pytest.mark.parametrize("form", ["folder", "squashfs", "archive"])
def test_an_image_serves_and_is_gone_afterwards(rootfs, base, scratch, images, monkeypatch, form):
    monkeypatch.setenv("MODEL_KEY", "sesame-1234")
    monkeypatch.setenv("OF_THE_HOST", "must not be seen")
    image = rootfs
    if form == "squashfs":
        image = squashed(rootfs, base / "httpd.sqfs")
    elif form == "archive":
        image = packed(rootfs, base / "httpd.tar.gz")
    with started({"web": httpd(image)}, base, scratch) as running:
        web = running["web"]
        with urllib.request.urlopen(f"{web.base_url}/page.txt", timeout=60) as answer:
            assert answer.read() == b"from the container"
        process = psutil.Process(web.pid)
        family = [process, *process.children(recursive=True)]
        names, lines = zip(*map(seen, family), strict=True)
        assert {"httpd", "busybox"} & {*names}, "the command is this process or below it"
        assert not any("sesame" in word for line in lines for word in line)
        assert web.how == "charliecloud"
        assert web.facts["runtime_version"]
    await_gone(*(one.pid for one in family))
    env = dict(line.split("=", 1) for line in web.stderr.read_text().splitlines())
    assert env["KEY"] == "sesame-1234"
    assert env["PLAIN"] == "a $b: 'c'", "the file wins over the image, and nothing is expanded"
    assert env["OF_THE_IMAGE"] == "yes"
    assert "OF_THE_HOST" not in env
    assert not WRITTEN.exists(), "it writes into a /tmp of its own"
    if form == "archive":
        (kept_file,) = (images / "charliecloud").glob("*.sqfs")
        assert web.facts["image_digest"] == image_cache.file_digest(kept_file, again=True) == f"sha256:{kept_file.stem}"
        assert web.facts["image_asked"] == str(image)


def test_an_archive_is_converted_once_and_a_changed_one_anew(rootfs, base, images):
    archive = packed(rootfs, base / "httpd.tar.gz")
    program = shutil.which("ch-run") or ""
    first = CHARLIECLOUD.keep(program, str(archive), images, 60.0)
    again = CHARLIECLOUD.keep(program, str(archive), images, 60.0)
    assert (first.fresh, again.fresh) == (True, False)
    assert again.path == first.path
    assert has_variables(str(first.path))
    (base / "rootfs").mkdir()
    shutil.copytree(rootfs, base / "rootfs/httpd", symlinks=True)
    (base / "rootfs/httpd/etc/hosts").write_text("127.0.0.1 localhost\n")
    packed(base / "rootfs/httpd", archive)
    other = CHARLIECLOUD.keep(program, str(archive), images, 60.0)
    assert other.fresh
    assert other.path != first.path


def test_what_is_no_image_is_refused_with_the_words_of_the_runtime(base, images):
    (base / "broken.tar.gz").write_bytes(b"no archive at all")
    with pytest.raises(MeasureError, match=r"could not be converted: .+") as caught:
        CHARLIECLOUD.keep(shutil.which("ch-run") or "ch-run", str(base / "broken.tar.gz"), images, 60.0)
    assert caught.value.problem.code == "image"
    assert not list((images / "charliecloud").glob("*.sqfs")), "nothing half-made stays"
