"""The whole system on this machine, for real: by two commands to a finished campaign, and back to nothing."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import httpx
import psutil
import pytest
from tests.support.lacking import lacking

from assay.infra.processes.parts import TAG_VARIABLE
from assay.infra.processes.setup import find_programs
from assay.run.processes import is_alive

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

STORES = ("postgresql", "redis", "prometheus")
PATIENCE_S = 120.0
BENCH = "benchmark: tiny\ntarget: {model: shufflenet}\nmeasure: {runs: 2, warmup: none, until: {samples: 20}}\n"


@pytest.fixture(scope="session", autouse=True)
def _programs_are_here():
    """What the parts are made of; `make test` installs it where it may."""
    missing = [part for part in STORES if part not in find_programs([part], Path("/nowhere"))]
    for part in missing:
        lacking(part.upper(), f"no program of {part} found")


class System:
    """One place for systems, and the commands that work on them."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "infra"
        self.folder = self.place / "local" / "default"
        self.env = {**os.environ, "ASSAY_INFRA": str(self.place), "ASSAY_STORE": str(folder / "other-store")}
        for name in ("ASSAY_SERVER", "ASSAY_TOKEN", "ASSAY_TOKEN_FILE"):
            self.env.pop(name, None)

    def run(self, words: tuple[str, ...], code: int | None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "assay", *words],
            capture_output=True,
            text=True,
            env=self.env,
            stdin=subprocess.DEVNULL,
            timeout=300,
        )
        assert code is None or done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def assay(self, *words: str, code: int | None = 0) -> str:
        done = self.run(words, code)
        return done.stdout + done.stderr

    def output(self, *words: str, code: int | None = 0) -> str:
        return self.run(words, code).stdout

    def status(self) -> dict:
        return json.loads(self.output("infra", "status", "--format", "json", code=None))

    def parts(self) -> dict[str, dict]:
        return {one["name"]: one for one in self.status()["parts"]}

    def notes(self) -> dict:
        return json.loads((self.folder / "status.json").read_text())

    def noted(self) -> dict[str, dict]:
        """The parts as the supervisor told of them last."""
        return {one["name"]: one for one in self.notes()["parts"]}

    def tag(self) -> str:
        return json.loads((self.folder / "processes.json").read_text())["tag"]

    def port(self, part: str) -> int:
        return json.loads((self.folder / "processes.json").read_text())["ports"][part]

    def client(self, role: str = "admin") -> httpx.Client:
        token = (self.folder / "secrets" / f"{role}.token").read_text().strip()
        url, headers = f"http://127.0.0.1:{self.port('server')}/api/v1", {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S, trust_env=False)


def until(condition, what: str, patience_s: float = PATIENCE_S):
    end = monotonic() + patience_s
    while not (found := condition()):
        assert monotonic() < end, f"in vain: {what}"
        sleep(0.1)
    return found


def tagged(tag: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(TAG_VARIABLE) == tag and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def system() -> Iterator[System]:
    # Below /tmp, and open: the account of PostgreSQL must reach its folder when root brings it up.
    folder = Path(tempfile.mkdtemp(prefix="assay-infra-"))
    folder.chmod(0o755)
    made = System(folder)
    yield made
    if made.folder.is_dir():
        made.assay("infra", "destroy", "--yes", code=None)
    shutil.rmtree(folder, ignore_errors=True)


def test_two_commands_from_nothing_to_a_finished_campaign_and_one_back_to_nothing(system, tmp_path):
    users = {one.pw_name for one in pwd.getpwall()}
    bench = tmp_path / "bench.yaml"
    bench.write_text(BENCH)

    said = system.assay("infra", "create", "--provider", "local")
    measure = re.search(r"^measure +assay (run bench\.yaml --server \S+ --token-file \S+)$", said, re.MULTILINE)
    assert measure, said
    words = measure[1].replace("bench.yaml", str(bench)).split()
    measured = system.output(*words, "--format", "json", "--quiet", "--fail-on", "never")
    campaign = json.loads(measured)["campaign"]

    with system.client("reader") as client:
        assert client.get(f"/campaigns/{campaign}").status_code == 200
        (job,) = client.get("/jobs", params={"campaign": campaign}).json()["items"]
        assert (job["campaign"], job["state"]) == (campaign, "done")
    parts = system.parts()
    assert {name: one["state"] for name, one in parts.items()} == dict.fromkeys((*STORES, "server", "agent"), "healthy")
    assert _scraped(parts["prometheus"]["address"])

    _no_secret_is_seen(system)
    tag, ports = system.tag(), json.loads((system.folder / "processes.json").read_text())["ports"]
    pids = [(one["pid"], one["started"]) for one in system.notes()["parts"] if one["pid"]]
    assert len(pids) == 5
    assert tagged(tag)
    system.assay("infra", "destroy", "--provider", "local", "--yes")
    assert not tagged(tag)
    assert not [pid for pid, started in pids if is_alive(pid, started)]
    assert not [port for port in ports.values() if listens(port)]
    assert not system.place.exists()
    assert {one.pw_name for one in pwd.getpwall()} == users
    assert "nothing is up" in system.assay("infra", "status", code=1)


def _no_secret_is_seen(system: System) -> None:
    """In no command line, no log, and nothing that is shown."""
    secrets = [path.read_text().strip() for path in (system.folder / "secrets").iterdir()]
    seen = [" ".join(process.cmdline()) for process in tagged(system.tag())]
    seen += [log.read_text(errors="replace") for log in (system.folder / "logs").iterdir()]
    seen += [system.assay("infra", "status"), system.assay("infra", "status", "--format", "json")]
    assert len(secrets) == 5
    assert not [secret for secret in secrets for text in seen if secret in text]
    assert oct(system.folder.stat().st_mode)[-1] in "01", "others may pass through at most"


def _scraped(prometheus: str) -> bool:
    """Whether Prometheus has reached the server, by its token."""

    def up() -> bool:
        found = httpx.get(
            f"{prometheus}/api/v1/query", params={"query": 'up{job="assay-server"}'}, trust_env=False, timeout=60
        )
        return any(one["value"][1] == "1" for one in found.json()["data"]["result"])

    return until(up, "Prometheus scrapes the server")


LESS = ("--without", "prometheus", "--without", "redis")


def test_what_is_killed_comes_back_with_what_it_knew_and_destroy_still_leaves_nothing(system):
    """One part after the other by SIGKILL, then the supervisor with PostgreSQL at once; then a port is taken."""
    system.assay("infra", "create", *LESS)
    with system.client() as client:
        client.post("/tokens", json={"name": "kept", "role": "reader"})
    before = {part: one["pid"] for part, one in system.noted().items() if one["pid"]}
    for part in ("postgresql", "server", "agent"):
        os.kill(before[part], signal.SIGKILL)
    until(lambda: all(system.noted()[part]["restarts"] == 1 for part in before), "all are started again")
    until(lambda: {one["state"] for one in system.noted().values()} <= {"healthy", "done"}, "all are healthy again")
    now = {part: one["pid"] for part, one in system.noted().items()}
    assert "up already" in system.assay("infra", "create"), "a second create changes nothing"
    assert {part: one["pid"] for part, one in system.noted().items()} == now

    memory, tag, port = shared_memory(system), system.tag(), system.port("server")
    for pid in (system.notes()["pid"], now["postgresql"]):
        os.kill(pid, signal.SIGKILL)
    if sys.platform == "linux":  # elsewhere parts outlive a supervisor that is killed, until create or destroy
        until(lambda: not tagged(tag), "every process ends")
        assert memory
    stopped = system.status()
    assert (stopped["word"], {one["state"] for one in stopped["parts"]}) == ("unhealthy", {"stopped"})
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert f"port {port} of server is taken by now" in system.assay("infra", "create")
        assert system.port("server") != port
        with system.client() as client:
            assert "kept" in str(client.get("/tokens").json())

    memory = shared_memory(system)
    for pid in (system.notes()["pid"], system.noted()["postgresql"]["pid"]):
        os.kill(pid, signal.SIGKILL)
    said = system.assay("infra", "destroy", "--yes")
    assert not tagged(tag)
    assert not system.place.exists()
    assert not memory & known_memory(), f"what PostgreSQL shared in memory stays: {said}"


def shared_memory(system: System) -> set[str]:
    """The memory that PostgreSQL shares, by its number; empty where the system does not tell."""
    number = (system.folder / "postgresql" / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]
    return known_memory() & {number}


def known_memory() -> set[str]:
    table = Path("/proc/sysvipc/shm")
    return {line.split()[1] for line in table.read_text().splitlines()[1:]} if table.exists() else set()


def test_the_smallest_system_needs_no_program_of_others_and_is_not_destroyed_without_a_word(system):
    words = [word for part in STORES for word in ("--without", part)]
    system.env["PATH"] = str(Path(sys.executable).parent)
    system.assay("infra", "create", *words)
    assert "not-confirmed" in system.assay("infra", "destroy", code=2)
    assert {name: one["state"] for name, one in system.parts().items()} == {"server": "healthy", "agent": "healthy"}
    system.assay("infra", "destroy", "--keep-data")
    assert not tagged(system.tag())
    assert (system.folder / "store").is_dir()


def test_what_cannot_be_is_reported_and_nothing_is_left(system):
    assert "nothing is up" in system.assay("infra", "destroy", "--yes")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} is taken" in system.assay("infra", "create", "--port", str(port), code=2)
    assert not system.place.exists()


@pytest.mark.skipif(not shutil.which("apt-get") or not shutil.which("dpkg-deb"), reason="no packages to unpack")
def test_a_program_that_is_not_here_is_unpacked_from_the_packages_of_the_system(tmp_path):
    """Into a folder, and installed nowhere; it runs from there."""
    from assay.errors import MeasureError
    from assay.infra.processes.parts import library_path
    from assay.infra.processes.setup import fetch

    told: list[str] = []
    unpacked = tmp_path / "programs"
    try:
        fetch(["redis"], unpacked, told.append)
    except MeasureError as problem:
        pytest.skip(f"the packages of this system cannot be reached: {problem.problem.message[:200]}")
    found = find_programs(["redis"], unpacked, {"PATH": ""}, root=tmp_path / "nothing")
    assert Path(found["redis"]).is_relative_to(unpacked)
    done = subprocess.run(
        [found["redis"], "--version"], capture_output=True, text=True, env=library_path(found["redis"], unpacked)
    )
    assert "Redis server" in done.stdout, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["programs"]
    assert any("nothing is installed" in line for line in told)
