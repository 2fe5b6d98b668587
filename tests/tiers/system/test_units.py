"""The units of deploy/systemd on a real systemd, which is the first process of a container.

`make test-system` makes the image: that of the server, in which assay is where the units look for it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[3]
IMAGE = "localhost/assay-test-server:1"
NAME = "assay-test-units"
URL = "http://127.0.0.1:8080"
TOKEN = "/var/lib/assay/infra/local/default/secrets/admin.token"
PATIENCE_S = 120.0
BENCHMARK = """\
benchmark: hello
target: {command: [sh, -c, 'echo x=3'], metrics: [{name: x, pattern: 'x=(.*)'}]}
measure: {runs: 2}
"""


class Machine:
    """A container that was started as a machine is."""

    def __init__(self) -> None:
        podman(
            "run",
            "--detach",
            "--name",
            NAME,
            "--systemd=always",
            "--privileged",
            "--user=0",
            "--workdir=/",
            "--stop-signal=SIGRTMIN+3",
            f"--volume={ROOT}/deploy/systemd:/units:ro",
            "--entrypoint=/sbin/init",
            IMAGE,
        )
        self.until_up()

    def until_up(self) -> None:
        self.until(
            "systemd has started everything",
            lambda: self.say("systemctl is-system-running", check=False).strip() in ("running", "degraded"),
        )

    def say(self, line: str, *, check: bool = True) -> str:
        """What a line in its shell prints."""
        words = ["podman", "exec", NAME, "sh", "-c", line]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert not check or done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}\n{self._journal()}"
        return done.stdout

    def install(self, unit: str) -> None:
        self.say(f"install -m 644 /units/{unit}.service /etc/systemd/system && systemctl daemon-reload")

    def measure(self, *words: str) -> None:
        """Run a benchmark on the server of this machine."""
        self.say(f"cat > /bench.yaml <<'END'\n{BENCHMARK}END")
        said = self.say(f"assay run /bench.yaml --server {URL} --fail-on never {' '.join(words)}")
        assert "[3.000, 3.000]" in said, said

    def is_active(self, *units: str) -> bool:
        return set(self.say(f"systemctl is-active {' '.join(units)}", check=False).split()) == {"active"}

    def answers(self) -> bool:
        ask = f"import urllib.request as r; r.urlopen('{URL}/api/v1/ready', timeout=5)"
        return self.say(f'python -c "{ask}" && echo yes', check=False).strip() == "yes"

    def restart(self) -> None:
        """Shut it down in order, and start it again."""
        podman("restart", "--time", "100", NAME)
        self.until_up()

    def until(self, what: str, holds: Callable[[], object]) -> None:
        until_s = monotonic() + PATIENCE_S
        while not holds():
            assert monotonic() < until_s, f"{what}: not within {PATIENCE_S:g} s\n{self._journal()}"
            sleep(0.5)

    def _journal(self) -> str:
        words = ["podman", "exec", NAME, "journalctl", "--no-pager", "--lines=60"]
        return subprocess.run(words, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture
def machine() -> Iterator[Machine]:
    if not os.environ.get("ASSAY_POSTGRESQL_IMAGE"):
        pytest.fail("the images are needed: run `make test-system`")
    try:
        yield Machine()
    finally:
        podman("rm", "--force", "--ignore", NAME)


def test_a_server_and_an_agent_come_back_after_a_crash_and_a_restart(machine):
    machine.say("install -d -m 755 /etc/assay && install -m 600 /dev/null /etc/assay/server.env")
    machine.install("assay-server")
    machine.say("systemctl enable --now assay-server")
    machine.until("the server is ready", machine.answers)
    machine.say("useradd --system --home-dir /var/lib/assay-agent --shell /usr/sbin/nologin assay-agent")
    machine.say(f"printf 'ASSAY_SERVER={URL}\\nASSAY_AGENT_ALLOW=command\\n' > /etc/assay/agent.env")
    machine.say("chmod 600 /etc/assay/agent.env")
    machine.install("assay-agent")
    machine.say("systemctl enable --now assay-agent")
    machine.measure()

    machine.say("systemctl kill --signal=KILL assay-server assay-agent")
    machine.until("both are back", lambda: machine.is_active("assay-server", "assay-agent") and machine.answers())
    machine.measure()

    machine.restart()
    machine.until("both are back", lambda: machine.is_active("assay-server", "assay-agent") and machine.answers())
    machine.measure()
    campaigns = f"assay campaigns list --server {URL}"
    assert machine.say(campaigns).count("hello") == 3
    machine.say("systemctl stop assay-agent assay-server")
    assert machine.say("systemctl is-failed assay-agent assay-server", check=False).split() == ["inactive"] * 2


def test_a_whole_system_is_there_again_after_a_restart(machine):
    machine.say("assay infra create --allow command")
    machine.measure("--token-file", TOKEN)
    machine.install("assay-infra")
    machine.say("systemctl enable assay-infra")
    machine.restart()
    machine.until("the system is up", lambda: machine.is_active("assay-infra"))
    machine.measure("--token-file", TOKEN)
    machine.say("systemctl stop assay-infra")
    assert "stopped" in machine.say("assay infra status", check=False)
    assert not machine.answers()


def podman(*words: str) -> str:
    done = subprocess.run(["podman", *words], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, f"podman {words}: {done.stderr}"
    return done.stdout
