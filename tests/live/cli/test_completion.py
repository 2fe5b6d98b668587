"""Completion as a shell asks for it: the ids that a store keeps, and the agents that a server knows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.running_server import RunningServer

import assay
from assay.cli.completing import offered
from assay.engines.base import FollowOptions
from assay.place.fleet.client import FleetClient
from assay.place.fleet.protocol import Enrolment
from assay.place.needs import Profile

pytestmark = pytest.mark.live

COMMAND = {"benchmark": "answer", "target": {"command": "echo 42"}, "measure": {"runs": 1}}
ASSAY = Path(sys.executable).parent / "assay"


@pytest.fixture
def campaign(tmp_path, monkeypatch) -> str:
    """A campaign in the store that the environment names."""
    monkeypatch.delenv("ASSAY_SERVER", raising=False)
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    return assay.run(COMMAND, control=False).record.campaign


def words(*before: str, incomplete: str = "") -> list[str]:
    return [word for word, _ in offered(before, incomplete)]


def test_what_a_store_keeps_is_offered(campaign, tmp_path, monkeypatch):
    for verb in (
        ("results", "show"),
        ("results", "rm", "x"),
        ("compare", "latest"),
        ("report",),
        ("gate", "--baseline"),
    ):
        assert campaign in words(*verb), verb
    assert words("results", "show", incomplete=campaign[:4]) == [campaign]
    assert words("logs", incomplete=campaign[:4]) == [f"{campaign}-job-0"]
    assert words("series", "list", "--benchmark") == ["answer"]
    monkeypatch.delenv("ASSAY_STORE")
    assert campaign in words("results", "show", "--store", str(tmp_path / "store"))
    assert words("results", "show", "--store", str(tmp_path / "gone"), incomplete="c") == []
    assert not (tmp_path / "gone").exists()


def test_what_a_server_keeps_is_offered(server: RunningServer, monkeypatch):
    FleetClient(server.url).enroll(Enrolment("i" * 20, "box", Profile("box", "linux", 1, 1, {}, {})))
    submitted = assay.run(COMMAND, server=server.url, follow=FollowOptions(detach=True)).record.campaign
    monkeypatch.setenv("ASSAY_SERVER", server.url)
    assert words("agents", "drain") == ["box"]
    assert words("run", "bench.yaml", "--agent") == ["box"]
    assert submitted in words("campaigns", "cancel")
    assert f"{submitted}-job-0" in words("jobs", "show")
    assert submitted not in words("campaigns", "show", "--store", "/nowhere")  # a store that is named goes first
    monkeypatch.delenv("ASSAY_SERVER")
    assert words("agents", "drain", "--server", server.url) == ["box"]


def test_a_server_that_is_away_offers_nothing(monkeypatch):
    monkeypatch.setenv("ASSAY_SERVER", "http://127.0.0.1:9")
    assert words("campaigns", "show") == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed here")
def test_bash_completes_an_id(campaign):
    script = (
        f'eval "$({ASSAY} completion bash)"; COMP_WORDS=(assay results show {campaign[:4]}); COMP_CWORD=3; '
        f'_assay_completion {ASSAY}; echo "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [campaign]
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["zsh", "fish", "powershell"])
def test_other_shells_get_their_own_form(shell, campaign):
    line = f"assay results show {campaign[:4]}"
    environment = {
        **os.environ,
        "_ASSAY_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_WORD_TO_COMPLETE": campaign[:4],
    }
    done = subprocess.run([ASSAY], env=environment, capture_output=True, text=True, check=True)
    assert campaign in done.stdout
    assert "answer, 20" in done.stdout  # what the id stands for
    assert done.stderr == ""
