"""The command line against a real server and a real agent, each a process: submit, follow, look, act."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.ports import free_port
from tests.support.running_server import wait_for

import assay

pytestmark = pytest.mark.live

COMMAND = "benchmark: {name}\ntarget: {{command: \"{python} -c 'print(42)'\"}}\nmeasure: {{runs: 3}}\n"


class Processes:
    """Servers and agents that end with the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, until: str) -> str:
        """Start a command of ours and wait for a line of it."""
        log = self.folder / f"{len(self.started)}.log"
        with log.open("wb") as out:
            environment = {**os.environ, "ASSAY_STORE": str(self.folder / "store"), "PYTHONUNBUFFERED": "1"}
            process = subprocess.Popen([sys.executable, "-m", "assay", *words], stdout=out, stderr=out, env=environment)
        self.started.append(process)
        return wait_for(lambda: re.search(until, log.read_text()), what=f"{words} says {until}")[0]

    def end(self) -> None:
        for process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
            process.wait(60)


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    made = Processes(tmp_path_factory.mktemp("fleet"))
    yield made
    made.end()


@pytest.fixture(scope="module")
def server(processes):
    """The URL of a server that has one agent."""
    said = processes.start("serve", "--port", "0", until=r"listening on (\S+)")
    url = said.split()[-1]
    own = ["--state", str(processes.folder / "agent"), "--device-name", "first", "--label", "room=4"]
    processes.start(
        "agent", "start", "--server", url, *own, "--allow", "command", "--min-free", "1MB", until="enrolled"
    )
    return url


@pytest.fixture
def cli(cli, server, monkeypatch):
    """Run a command in this process, for the server."""
    monkeypatch.setenv("ASSAY_SERVER", server)
    return cli


@pytest.fixture
def benchmark(write):
    return write("bench.yaml", COMMAND.format(name="answer", python=sys.executable))


def test_a_run_on_the_fleet_ends_like_a_local_one(cli, benchmark):
    there, report, progress = cli("run", str(benchmark))
    here, local, _ = cli("run", str(benchmark), "--local")
    assert (there, here) == (0, 0)
    # Ids and numbers differ; the benchmark, the columns and the rows do not.
    (title, head, row), (local_title, local_head, local_row) = [
        re.search(r"^(\w+).*?^(job .*?)$\n^(\S+)", text, re.MULTILINE | re.DOTALL).groups() for text in (report, local)
    ]
    # A doubt, and with it its column, depends on how quiet the machine was.
    columns, local_columns = ([name for name in line.split() if name != "reason"] for line in (head, local_head))
    assert (title, columns, row) == (local_title, local_columns, local_row)
    assert re.search(r"^server  http://127", report, re.MULTILINE)
    assert re.search(r"^run       3/3 .*ok in", progress, re.MULTILINE)
    assert "done      " in progress


def test_the_commit_of_the_files_is_that_of_the_folder_they_came_from(cli, benchmark):
    git = ["git", "-C", str(benchmark.parent), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    code, out, _ = cli("run", str(benchmark), "--format", "json", "--out", str(benchmark.parent / "out"))
    assert code == 0
    assert json.loads(out)["jobs"][0]["environment"]["git"] == {"commit": commit, "changed": False}


def test_files_travel_with_a_benchmark(cli, write, tiny_model):
    file = write(
        "model.yaml",
        f"benchmark: tiny\ntarget: {{model: {tiny_model.name}}}\n"
        "measure: {runs: 1, warmup: none, until: {at_least: 10ms, at_most: 50ms}}\n",
    )
    code, out, _ = cli("run", str(file), "--format", "json", "--out", str(file.parent / "out"))
    assert code == 0
    result = json.loads(out)["jobs"][0]
    assert result["definition"]["target"]["model"] == tiny_model.name
    assert result["runs"][0]["facts"]["model"]["file"] == tiny_model.name
    written = list((file.parent / "out").iterdir())
    assert {path.suffix for path in written} == {".csv", ".json", ".html"}
    code, out, _ = cli("results", "export", "latest", "--out", str(file.parent / "whole"))
    assert code == 0
    assert (Path(out.strip()) / "samples" / "job-0-run-0.parquet").read_bytes()[:4] == b"PAR1"


def test_a_failing_job_gives_the_code_of_a_local_run(cli, write):
    file = write("bad.yaml", 'benchmark: bad\ntarget: {command: "false"}\nmeasure: {runs: 1}\n')
    there, report, _ = cli("run", str(file))
    here, local, _ = cli("run", str(file), "--local")
    assert (there, here) == (3, 3)
    assert "failed" in report
    assert re.findall(r"error\[[\w-]+\]", report) == re.findall(r"error\[[\w-]+\]", local)


def test_python_may_use_the_fleet(server, benchmark):
    result = assay.run(benchmark, server=server)
    assert result.jobs[0].state == "done"
    assert result.address == server


def test_a_campaign_that_nobody_can_run_says_so_and_can_be_cancelled(cli, write):
    file = write("huge.yaml", COMMAND.format(name="huge", python="python") + "needs: {memory: 900GiB}\n")
    code, out, err = cli("run", str(file), "--detach")
    campaign = out.strip()
    assert code == 0
    assert "no agent can take 1 job" in err
    assert "first: memory: 900.0 GiB needed" in err
    _, placement, _ = cli("campaigns", "placement", campaign)
    assert "can take it: no agent" in placement
    assert cli("campaigns", "cancel", campaign)[0] == 0
    code, out, _ = cli("campaigns", "attach", campaign)
    assert code == 3
    assert "cancelled" in out
    assert cli("campaigns", "rm", campaign)[1] == f"removed {campaign}\n"
    assert cli("campaigns", "show", campaign)[0] == 2


def test_it_may_fail_at_once(cli, write):
    file = write("huge.yaml", COMMAND.format(name="huge", python="python") + "needs: {memory: 900GiB}\n")
    code, out, _ = cli("run", str(file), "--unplaceable", "fail")
    assert code == 3
    assert "memory: 900.0 GiB needed" in " ".join(out.split())


def test_jobs_are_listed_shown_and_retried(cli, benchmark):
    cli("run", str(benchmark))
    listed = json.loads(cli("jobs", "list", "--state", "done", "--format", "json")[1])
    name = listed[0]["id"]
    assert {one["state"] for one in listed} == {"done"}
    code, shown, _ = cli("jobs", "show", name)
    assert code == 0
    for word in ("submitted", "leased", "result accepted"):
        assert word in shown
    code, _, err = cli("jobs", "logs", name)
    assert (code, err.splitlines()[0]) == (
        0,
        "note    `jobs logs` is now `logs`; the next version does not know the old spelling",
    )
    code, said, _ = cli("jobs", "retry", name)
    assert code == 1  # a job that is done stays done
    assert name in said


def test_agents_are_labelled_drained_and_resumed(cli):
    assert "first" in cli("agents", "list")[1]
    assert "rack=9" in cli("agents", "label", "first", "rack=9")[1]
    assert cli("agents", "drain", "first")[0] == 0
    assert "draining" in cli("agents", "list")[1]
    assert cli("agents", "resume", "first")[0] == 0
    agent = json.loads(cli("agents", "show", "first")[1])
    assert (agent["profile"]["labels"]["room"], agent["labels"]["rack"]) == ("4", "9")


def test_a_device_that_listens_is_added_and_takes_jobs(cli, processes, write):
    port = free_port()
    own = ["--state", str(processes.folder / "second"), "--device-name", "second", "--allow", "command"]
    place = f"127.0.0.1:{port}"
    processes.start("agent", "serve", "--listen", place, *own, "--min-free", "1MB", until="listening|waiting")
    token = processes.folder / "second" / "listen-token"
    code, said, err = cli("agents", "add", f"http://127.0.0.1:{port}", "--agent-token-file", str(token))
    assert code == 0, err
    assert "created" in said
    file = write("pinned.yaml", COMMAND.format(name="pinned", python=sys.executable))
    code, out, _ = cli("run", str(file), "--agent", "second", "--format", "json")
    assert code == 0
    job = json.loads(out)["jobs"][0]["job"]
    assert json.loads(cli("jobs", "show", job, "--format", "json")[1])["summary"]["agent_name"] == "second"


def test_a_server_that_is_not_there_is_reported(cli, benchmark):
    code, _, err = cli("campaigns", "list", "--server", f"http://127.0.0.1:{free_port()}")
    assert code == 3
    assert "does not answer" in err


def test_every_problem_of_a_document_comes_back_from_the_server(server):
    from assay.errors import UsageError
    from assay.place.fleet.client import FleetClient
    from assay.place.fleet.protocol import Submission

    wrong = {"benchmark": "wrong", "target": {"model": "squeezenet", "devise": "cpu"}, "measure": {"runs": 1000}}
    with pytest.raises(UsageError) as refused:
        FleetClient(server).submit(Submission(document=wrong))
    assert len(refused.value.problems) == 2
    assert "did you mean" in str(refused.value)


def test_a_model_that_is_not_there_is_reported_before_anything_is_submitted(cli, write):
    file = write("typo.yaml", "benchmark: typo\ntarget: {model: squeezenett}\n")
    before = cli("campaigns", "list", "--format", "json")[1]
    code, _, err = cli("run", str(file))
    assert code == 2
    assert "did you mean the built-in model squeezenet?" in err
    assert cli("campaigns", "list", "--format", "json")[1] == before


def test_no_server_is_reported(cli, monkeypatch):
    monkeypatch.delenv("ASSAY_SERVER")
    code, _, err = cli("jobs", "list")
    assert code == 2
    assert "--server" in err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(cli, shell):
    code, out, _ = cli("completion", shell)
    assert code == 0
    assert "_ASSAY_COMPLETE" in out


def test_a_shell_gets_its_completions():
    asked = {**os.environ, "_ASSAY_COMPLETE": "complete_bash", "COMP_WORDS": "assay camp", "COMP_CWORD": "1"}
    program = Path(sys.executable).with_name("assay")
    done = subprocess.run([program], env=asked, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["campaigns"]


def test_a_report_with_a_server_is_of_its_campaign(cli, benchmark, tmp_path):
    code, campaign, _ = cli("run", str(benchmark), "--format", "json")
    there = json.loads(campaign)["campaign"]
    cli("run", str(benchmark), "--local")  # newer, and not meant
    for name in ("latest", there, there[:-1]):
        code, out, err = cli("report", name, "--format", "json", "--out", "-")
        assert (code, err) == (0, "")
        assert json.loads(out)["campaign"] == there
    assert cli("report", "--out", str(tmp_path / "report.html"))[0] == 0
    assert there in (tmp_path / "report.html").read_text()


@pytest.fixture(scope="module")
def measured(server, tmp_path_factory):
    """Two campaigns of a server, measured at one commit of a repository: its folder, the older and the newer."""
    folder = tmp_path_factory.mktemp("repository")
    file = folder / "bench.yaml"
    file.write_text(COMMAND.format(name="kept", python=sys.executable) + "labels: {branch: main}\n")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    return folder, *(assay.run(file, server=server).record.campaign for _ in range(2))


def test_results_of_a_server_are_listed_shown_and_exported(cli, measured, tmp_path):
    _, older, newer = measured
    listed = json.loads(cli("results", "list", "--format", "json", "--limit", "500")[1])
    names = [one["id"] for one in listed]
    assert names.index(newer) < names.index(older)
    assert newer in cli("results", "list")[1]
    code, shown, _ = cli("results", "show", newer[:-1])
    assert (code, shown) == (0, cli("campaigns", "show", newer)[1])
    assert "print(42)" in cli("results", "show", newer, "--job", "0")[1]
    code, out, _ = cli("results", "export", older, "--out", str(tmp_path))
    assert (code, out.strip()) == (0, str(tmp_path / older))
    assert json.loads((tmp_path / older / "result.json").read_text())["campaign"] == older
    assert (tmp_path / older / "files" / "job-0-run-2-command.log").read_text().strip() == "42"


def test_results_of_a_server_are_compared_by_id_label_commit_and_branch(cli, measured):
    folder, older, newer = measured
    code, out, err = cli("compare", older, newer, "--format", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["results"]["a"] == [older]
    for reference in ("label:branch=main", "commit:HEAD", "branch:main"):
        code, out, err = cli("compare", reference, newer, "--format", "json", "--repository", str(folder))
        assert (code, err) == (0, "")
        assert json.loads(out)["results"]["a"] == [older]


def test_a_gate_judges_results_of_a_server(cli, measured):
    _, older, newer = measured
    code, out, _ = cli("gate", newer, "--baseline", older, "--worse-than", "10000%")
    assert code == 0
    assert older in out


def test_what_a_server_does_not_have_is_no_result(cli, server, measured):
    for words in (["results", "show", "nowhere"], ["compare", "nowhere", measured[1]]):
        code, out, err = cli(*words)
        assert (code, out) == (2, "")
        assert err.startswith("error[unknown-campaign]")
        assert server in err
    code, _, err = cli("gate", "latest", "--baseline", "label:nobody", "--allow-missing")
    assert "error[unknown-label]" in err
    code, _, err = cli("compare", "label:nobody", measured[1])
    assert code == 2
    assert "there are branch=main" in err


def test_a_store_that_is_named_goes_before_a_server_of_the_environment(cli, tmp_path):
    code, out, _ = cli("results", "list", "--store", str(tmp_path / "mine"))
    assert code == 0
    assert f"no results yet in {tmp_path / 'mine'}" in out
    assert "no series yet" in cli("series", "list", "--store", str(tmp_path / "mine"))[1]


def test_a_report_of_what_a_server_does_not_have_is_refused(cli, benchmark):
    cli("run", str(benchmark), "--local")
    code, out, err = cli("report", "nowhere", "--out", "-")
    assert (code, out) == (2, "")
    assert err.startswith("error[unknown-campaign]")


def test_the_logs_of_a_campaign_are_those_of_its_jobs(cli, write):
    words = [f"{sys.executable} -c \"print('line of {n}'); raise SystemExit(1)\"" for n in (1, 2)]
    file = write(
        "two.yaml",
        f"benchmark: two\ntarget: {{command: nothing}}\nmeasure: {{runs: 1}}\n"
        f"matrix: {{target.command: {json.dumps(words)}}}\n",
    )
    _, out, _ = cli("run", str(file), "--format", "json")
    campaign = json.loads(out)["campaign"]
    for name in (campaign, "latest"):
        code, out, err = cli("logs", name)
        assert (code, err) == (0, "")
        assert out.index(f"==> {campaign}-job-0 <==") < out.index("line of 1") < out.index("line of 2")
        assert f"==> {campaign}-job-1 <==" in out
    assert "line of 2" in cli("logs", f"{campaign}-job-1", "--follow")[1]
