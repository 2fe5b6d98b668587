"""The whole system in containers, by Podman and its Compose: from nothing to a result and back to nothing.

`make test-system` makes the images that it needs, and tells Podman where they are.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]
NAME = "tested"
PROJECT = f"assay-{NAME}"
PATIENCE_S = 120.0
BENCHMARK = """\
benchmark: hello
target: {command: [sh, -c, 'echo x=3'], metrics: [{name: x, pattern: 'x=(.*)'}]}
measure: {runs: 3}
"""


@dataclass
class Desk:
    """Somebody's, with Podman and assay on it."""

    folder: Path

    def assay(self, *words: str, code: int = 0) -> str:
        environ = {**os.environ, "ASSAY_INFRA": str(self.folder / "infra"), "ASSAY_STORE": str(self.folder / "store")}
        told = [sys.executable, "-m", "assay", *words]
        done = subprocess.run(told, env=environ, capture_output=True, text=True, timeout=800, cwd=self.folder)
        assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def create(self) -> str:
        return self.assay("infra", "create", "--with", "podman", "--name", NAME, "--allow", "command")

    def measure(self, url: str) -> None:
        (self.folder / "bench.yaml").write_text(BENCHMARK)
        said = self.assay(
            "run", "bench.yaml", "--server", url, "--token-file", str(self.secret("admin")), "--fail-on", "never"
        )
        assert re.search(r"x +3\.000 +\[3\.000, 3\.000\]", said), said

    def campaigns(self, url: str) -> list[str]:
        """How the campaigns of the server ended."""
        token = self.secret("admin").read_text().strip()
        answer = httpx.get(f"{url}/api/v1/campaigns", headers={"Authorization": f"Bearer {token}"}).raise_for_status()
        return [one["state"] for one in answer.json()["items"]]

    def secret(self, name: str) -> Path:
        return self.folder / "infra" / "local" / NAME / "secrets" / f"{name}.token"


@pytest.fixture
def desk(tmp_path) -> Iterator[Desk]:
    if not os.environ.get("ASSAY_POSTGRESQL_IMAGE") or shutil.which("podman-compose") is None:
        pytest.fail("the images and podman-compose are needed: run `make test-system`")
    assert not left("container"), f"there is a system {NAME} already"
    yield Desk(tmp_path)
    if left("container"):
        Desk(tmp_path).assay("infra", "destroy", "--name", NAME, "--yes")


def test_from_nothing_to_a_result_and_back_to_nothing(desk):
    said = desk.create()
    url, metrics = (address(said, part) for part in ("server", "prometheus"))
    assert "<title>assay" in httpx.get(f"{url}/").text, "the dashboard"
    desk.measure(url)
    until("Prometheus reads the server", lambda: health(metrics) == {"assay-server": "up", "prometheus": "up"})
    assert "healthy" in desk.assay("infra", "status", "--name", NAME)

    # What is ended with its data is there again, under the same address.
    desk.assay("infra", "destroy", "--name", NAME, "--keep-data")
    assert not left("container")
    assert left("volume")
    assert address(desk.create(), "server") == url
    assert desk.campaigns(url) == ["done"]
    desk.measure(url)
    assert desk.campaigns(url) == ["done", "done"]

    desk.assay("infra", "destroy", "--name", NAME, "--yes")
    assert not any(map(left, ("container", "volume", "network")))
    assert not (desk.folder / "infra").exists()
    assert "nothing is up" in desk.assay("infra", "status", "--name", NAME, code=1)


def test_a_database_that_dies_comes_back_and_nothing_is_lost(desk):
    url = address(desk.create(), "server")
    desk.measure(url)
    podman("kill", "--signal", "KILL", f"{PROJECT}_postgresql_1")
    podman("start", f"{PROJECT}_postgresql_1")
    until("the server is ready", lambda: answers(f"{url}/api/v1/ready"))
    assert desk.campaigns(url) == ["done"]
    desk.measure(url)


def test_no_secret_is_in_the_words_of_a_process_or_open_to_others(desk):
    desk.create()
    secrets = [path.read_text().strip() for path in (desk.folder / "infra" / "local" / NAME / "secrets").iterdir()]
    assert secrets
    words = b"".join(path.read_bytes() for path in processes())
    assert not [one for one in secrets if one.encode() in words]
    for path in (desk.folder / "infra" / "local" / NAME).rglob("*"):
        if path.is_file():
            assert path.stat().st_mode & 0o077 == 0 or not holds_one(path, secrets), path


def processes() -> Iterator[Path]:
    """The command lines of everything that runs."""
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            one.read_bytes()
        except OSError:
            continue
        yield one


def holds_one(path: Path, secrets: list[str]) -> bool:
    text = path.read_text(errors="replace")
    return any(one in text for one in secrets)


def address(said: str, part: str) -> str:
    """Where a part is, as the table tells it."""
    (line,) = [line for line in said.splitlines() if line.split()[:2] == [part, "healthy"]]
    return line.split()[2]


def health(url: str) -> dict[str, str]:
    targets = httpx.get(f"{url}/api/v1/targets").json()["data"]["activeTargets"]
    return {one["labels"]["job"]: one["health"] for one in targets}


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.HTTPError:
        return False


def until(what: str, holds: Callable[[], object]) -> None:
    until_s = monotonic() + PATIENCE_S
    while not holds():
        assert monotonic() < until_s, f"{what}: not within {PATIENCE_S:g} s"
        sleep(0.2)


def left(kind: str) -> list[str]:
    """What Podman has of the system."""
    every = ("--all",) if kind == "container" else ()
    mark = f"label=com.docker.compose.project={PROJECT}"
    told = json.loads(podman(kind, "ls", *every, "--filter", mark, "--format", "json") or "[]")
    return [str(one) for one in told or []]


def podman(*words: str) -> str:
    return subprocess.run(["podman", *words], capture_output=True, text=True, check=True, timeout=120).stdout
