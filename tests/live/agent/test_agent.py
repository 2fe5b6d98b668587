"""An agent against a small server that keeps the contract and misbehaves when told."""

import errno
import hashlib
import json
import logging
import threading

import pytest

from assay.agent.spool import Spool
from assay.analyse.records import MultiRunJobResult
from assay.documents import from_json
from assay.errors import UsageError
from assay.place.fleet.protocol import Release

pytestmark = pytest.mark.live

ALL = {"allow": frozenset({"command"})}


def test_a_job_is_measured_and_delivered_once(server, run_agent, make_job, tmp_path):
    server.add(make_job())
    run_agent(server, **ALL)
    server.wait(lambda: server.accepted() == [("campaign-1-job-0", 1)], what="the result")
    _wait_for(lambda: not list((tmp_path / "state" / "attempts").iterdir()))
    assert [word for *_, word, _ in server.results] == ["accepted"]
    assert hashlib.sha256(b"samples").hexdigest() in server.artefacts


def test_many_jobs_one_after_the_other(server, run_agent, make_job, fast):
    jobs = [make_job(index) for index in range(30)]
    server.add(*jobs)
    run_agent(server, fast(), **ALL)
    server.wait(lambda: len(server.accepted()) == 30, what="all results")
    assert sorted(server.accepted()) == sorted((job.id, 1) for job in jobs)


def test_enrolment_says_what_the_agent_is(server, run_agent):
    run_agent(server, name="bench-7", labels={"rack": "3"}, devices=("cuda:0", "cuda:1"), address="http://here:1")
    server.wait(lambda: server.enrolments, what="an enrolment")
    told = server.enrolments[0]
    assert (told["name"], told["profile"]["name"], told["slots"]) == ("bench-7", "bench-7", 2)
    assert told["profile"]["labels"] == {"rack": "3"}
    assert told["profile"]["commands"] is False
    assert (told["address"], told["device"]) == ("http://here:1", {"cpu": "x"})


def test_heartbeats_go_on_while_measuring_and_name_the_lease(server, run_agent, make_job, fast):
    gate = threading.Event()
    server.add(make_job())
    run_agent(server, fast(gate), **ALL)
    held = [{"job": "campaign-1-job-0", "fence": 1}]
    server.wait(lambda: sum(b["state"] == "busy" and b["held"] == held for b in server.beats) >= 3, what="busy beats")
    gate.set()
    server.wait(server.accepted, what="the result")


def test_a_cancelled_job_is_killed_at_once_and_nothing_is_said_about_it(server, run_agent, make_job, fast, tmp_path):
    executor = fast(threading.Event())
    server.add(make_job())
    run_agent(server, executor, **ALL)
    server.wait(lambda: executor.started, what="a start")
    server.cancel("campaign-1-job-0")
    server.wait(lambda: executor.killed, what="a kill")
    server.wait(lambda: server.beats[-1]["state"] == "active", what="an idle agent")
    assert (server.results, server.releases) == ([], [])
    assert not list((tmp_path / "state" / "attempts").iterdir())


def test_a_crash_gives_the_lease_back_with_the_last_words(server, run_agent, make_job, fast):
    executor = fast(crash=True)
    real = executor.start

    def start(entry, environment):
        entry.log.write_text("boom\nlast words\n")
        return real(entry, environment)

    executor.start = start
    server.add(make_job())
    run_agent(server, executor, **ALL)
    server.wait(lambda: server.releases, what="a release")
    (_, fence, said) = server.releases[0]
    assert (fence, said["crashed"]) == (1, True)
    assert "exit code 1" in said["reason"]
    assert "last words" in said["reason"]


def test_a_command_is_refused_by_an_agent_that_was_not_set_to_allow_it(server, run_agent, make_job, fast):
    executor = fast()
    server.add(make_job())
    run_agent(server, executor)
    server.wait(server.accepted, what="a refusal")
    result = from_json(MultiRunJobResult, json.dumps(server.results[0][3]), source="test")
    assert (result.state, result.verdict, result.error.code) == ("failed", "invalid", "not-allowed")
    assert not executor.started


@pytest.mark.parametrize(
    "target",
    [
        {"model": "org/evil", "runtime": "transformers", "remote_code": True},
        {"model": "https://example.org/program.pt", "runtime": "torch"},
        {"model": "https://example.org/program.pt2", "runtime": "torch"},
    ],
)
def test_a_model_that_can_run_code_is_refused_by_an_agent_that_allows_no_commands(
    server, run_agent, make_job, fast, target
):
    executor = fast()
    server.add(with_target(make_job(), target))
    run_agent(server, executor)
    server.wait(server.accepted, what="a refusal")
    error = server.results[0][3]["error"]
    assert error["code"] == "not-allowed"
    assert "--allow command" in error["message"] + error["try_"]
    assert not executor.started


def test_the_measuring_process_knows_what_the_agent_allows(server, run_agent, make_job, fast):
    executor = fast()
    server.add(with_target(make_job(0), {"model": "mlp"}))
    run_agent(server, executor)
    server.wait(server.accepted, what="the result")
    assert [one["ASSAY_JOB_ALLOW"] for one in executor.environments] == [""]


@pytest.mark.parametrize(
    ("settings", "policy"),
    [({}, "public,loopback"), ({"allow_private_urls": True}, "public,loopback,private")],
)
def test_the_measuring_process_knows_where_it_may_connect_and_which_variables_are_its(
    server, run_agent, make_job, fast, settings, policy
):
    executor = fast()
    server.add(with_target(make_job(0), {"model": "mlp"}))
    run_agent(server, executor, allow_env=frozenset({"B", "A"}), **settings)
    server.wait(server.accepted, what="the result")
    told = executor.environments[0]
    assert (told["ASSAY_URL_POLICY"], told["ASSAY_JOB_ENV"]) == (policy, "A,B")


def test_an_agent_of_a_remote_server_allows_its_own_network_only_when_set():
    from pathlib import Path

    from assay.agent.identity import AgentSettings

    assert AgentSettings("http://far.example", Path()).url_policy == "public"
    assert AgentSettings("http://far.example", Path(), allow_private_urls=True).url_policy == "public,loopback,private"


def with_target(job, target):
    from dataclasses import replace

    from assay.spec.benchmark import Definition

    return replace(job, definition=Definition.model_validate({"target": target}))


def test_an_error_that_the_executor_reports_becomes_a_failed_result(server, run_agent, make_job, fast):
    said = {"event": "error", "code": "document", "text": "not a Job document", "at": "x", "try": "y"}
    server.add(make_job())
    run_agent(server, fast(crash=True, events=(said,)), **ALL)
    server.wait(server.accepted, what="a refusal")
    assert server.results[0][3]["error"]["code"] == "document"


def test_progress_is_passed_on_seldom_and_the_newest_counts(server, run_agent, make_job, fast):
    gate = threading.Event()
    events = [{"event": "run", "run": 2, "of": 5}, {"event": "phase", "name": "measure"}]
    events += [{"event": "progress", "share": share / 1000, "note": "n"} for share in range(1000)]
    events += [{"event": "log", "lines": [f"line {number}"]} for number in range(3)]
    server.add(make_job(runs=5))
    run_agent(server, fast(gate, events=tuple(events)), **ALL)
    server.wait(lambda: server.progress and server.progress[-1][2]["share"] == 0.999, what="progress")
    last = server.progress[-1][2]
    assert (last["run"], last["runs"], last["phase"]) == (2, 5, "measure")
    assert [line for *_, told in server.progress for line in told["log"]] == ["line 0", "line 1", "line 2"]
    assert len(server.progress) <= 4
    gate.set()
    server.wait(server.accepted, what="the result")


@pytest.mark.parametrize("trouble", ["cut", "cut-after", 503, 500])
@pytest.mark.parametrize(
    "path", ["/result", "PUT /api/v1/artefacts", "HEAD /api/v1/artefacts", "/heartbeat", "/agents$"]
)
def test_no_trouble_of_the_server_loses_or_doubles_a_result(server, run_agent, make_job, path, trouble):
    server.misbehave(path, trouble, 1 if trouble == "cut-after" else 2)  # what was done need not be done again
    server.add(make_job())
    run_agent(server, **ALL)
    server.wait(lambda: server.states["campaign-1-job-0"] == "done" and not server.mischief, what="the result")
    server.wait(lambda: server.beats and server.beats[-1]["state"] == "active", what="an idle agent")
    assert server.accepted() == [("campaign-1-job-0", 1)]
    assert {word for *_, word, _ in server.results} <= {"accepted", "repeated"}


def test_a_server_that_is_away_gets_the_result_when_it_is_back(small_server_at, run_agent, make_job, fast):
    server = small_server_at()
    gate = threading.Event()
    executor = fast(gate)
    server.add(make_job())
    run_agent(server, executor, **ALL)
    server.wait(lambda: executor.started, what="a start")
    server.stop()
    gate.set()
    held = executor.started[0]
    _wait_for(held.result.is_file)
    server.start(server.port)
    server.wait(server.accepted, what="the result")


def test_a_result_after_the_lease_expired_is_late_and_forgotten(small_server_at, run_agent, make_job, fast, tmp_path):
    server = small_server_at(heartbeat_s=30)
    gate = threading.Event()
    executor = fast(gate)
    server.add(make_job())
    run_agent(server, executor, **ALL)
    server.wait(lambda: executor.started, what="a start")
    server.expire("campaign-1-job-0")
    gate.set()
    server.wait(lambda: server.results, what="the late result")
    assert server.results[0][2] == "late"
    _wait_for(lambda: not list((tmp_path / "state" / "attempts").iterdir()))


def test_an_agent_that_the_server_forgot_enrols_again(server, run_agent, make_job):
    run_agent(server, **ALL)
    server.wait(lambda: server.beats, what="a beat")
    server.agents.clear()
    server.wait(lambda: len(server.enrolments) == 2, what="a second enrolment")
    server.add(make_job())
    server.wait(server.accepted, what="the result")


def test_a_result_that_will_never_be_taken_is_kept_for_people(server, run_agent, make_job, tmp_path):
    server.misbehave("/result", 422, 9)
    server.add(make_job())
    run_agent(server, **ALL)
    server.wait(lambda: server.releases, what="a release")
    assert "refused the result" in server.releases[0][2]["reason"]
    assert server.releases[0][2]["crashed"] is True
    (kept,) = (tmp_path / "state" / "refused").iterdir()
    assert (kept / "out" / "result.json").is_file()


# Stopping


def test_an_idle_agent_leaves_at_once(server, run_agent):
    running = run_agent(server)
    server.wait(lambda: server.beats, what="a beat")
    assert running.stop() == 0


def test_a_running_attempt_is_given_back_when_the_grace_is_over(server, run_agent, make_job, fast):
    executor = fast(threading.Event())
    server.add(make_job())
    running = run_agent(server, executor, **ALL)
    server.wait(lambda: executor.started, what="a start")
    assert running.stop() == 0
    assert [(fence, said["crashed"]) for _, fence, said in server.releases] == [(1, False)]


def test_asked_twice_it_is_given_back_although_it_could_finish(server, run_agent, make_job, fast):
    executor = fast(threading.Event())
    server.add(make_job())
    running = run_agent(server, executor, finish=True, **ALL)
    server.wait(lambda: executor.started, what="a start")
    running.agent.request_stop(interrupted=True)
    running.thread.join(0.5)
    assert running.thread.is_alive()
    running.agent.request_stop(interrupted=True)
    running.thread.join(20)
    assert running.codes == [130]
    assert [said["crashed"] for *_, said in server.releases] == [False]


def test_asked_twice_in_one_breath_counts_as_twice(server, run_agent, make_job, fast):
    """Both may come before the agent has woken up for the first."""
    executor = fast(threading.Event())
    server.add(make_job())
    running = run_agent(server, executor, finish=True, **ALL)
    server.wait(lambda: executor.started, what="a start")
    running.agent._stop_requests = 1  # as if the first had been heard, and the agent not yet woken
    running.agent.request_stop(interrupted=True)
    running.thread.join(20)
    assert running.codes == [130]
    assert [said["crashed"] for *_, said in server.releases] == [False]


def test_with_finish_a_running_attempt_ends_and_is_delivered(server, run_agent, make_job, fast):
    gate = threading.Event()
    executor = fast(gate)
    server.add(make_job())
    running = run_agent(server, executor, finish=True, **ALL)
    server.wait(lambda: executor.started, what="a start")
    running.agent.request_stop()
    gate.set()
    running.thread.join(20)
    assert (running.codes, server.accepted()) == ([0], [("campaign-1-job-0", 1)])


# What an earlier agent left


def test_a_result_is_delivered_although_the_identity_file_was_damaged(server, run_agent, make_job, fast, tmp_path):
    server.add(make_job())
    server.misbehave("/result", 503, 1000)
    running = run_agent(server, fast(), **ALL)
    attempts = tmp_path / "state" / "attempts"
    server.wait(lambda: list(attempts.glob("*/out/result.json")), what="a result on disk")
    running.stop(2)
    (tmp_path / "state" / "identity.json").write_bytes(b"\0" * 64)
    server.mischief.clear()
    run_agent(server, fast(), **ALL)
    server.wait(server.accepted, what="the result")
    assert server.accepted() == [("campaign-1-job-0", 1)]
    assert not (tmp_path / "state" / "refused").exists()


def left_behind(folder, server, job, *, result=False, release=None):
    spool = Spool(folder)
    entry = spool.entry(server.url, "agent-x", job.id, 1)
    spool.begin(entry, job)
    if result:
        from assay.agent.attempt import failed_result
        from assay.clock import SYSTEM_CLOCK
        from assay.errors import Problem

        entry.out.mkdir()
        entry.result.write_bytes(failed_result(job, Problem("x", "y"), SYSTEM_CLOCK))
    if release:
        spool.give_back(entry, release)
    return entry


def take_over(server, folder, job):
    """The state of a server that gave a job to the agent of a folder."""
    from assay.agent.identity import identity
    from assay.hardware.machine import machine_id

    server.fences[job.id], server.states[job.id], server.attempts[job.id, 1] = 1, "running", "leased"
    return f"agent-{identity(folder, machine_id()).id[:12]}"


def renamed(entry, agent):
    path = entry.folder / "lease.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "agent": agent}))


@pytest.mark.parametrize("kind", ["result", "release", "nothing"])
def test_what_an_earlier_agent_left_is_settled(server, run_agent, make_job, tmp_path, kind):
    job, folder = make_job(), tmp_path / "state"
    agent = take_over(server, folder, job)
    release = Release(agent, "why", crashed=False) if kind == "release" else None
    renamed(left_behind(folder, server, job, result=kind == "result", release=release), agent)
    run_agent(server, **ALL)
    server.wait(lambda: server.results or server.releases, what="word of it")
    if kind == "result":
        assert server.accepted() == [(job.id, 1)]
    else:
        assert [said["crashed"] for *_, said in server.releases] == [kind == "nothing"]
    _wait_for(lambda: not list((folder / "attempts").iterdir()))


def test_attempts_for_another_server_are_kept_and_those_of_another_agent_put_aside(
    server, small_server_at, run_agent, make_job, tmp_path, caplog
):
    other, folder = small_server_at(), tmp_path / "state"
    kept = left_behind(folder, other, make_job(1), result=True)
    strange = left_behind(folder, server, make_job(2), result=True)
    with caplog.at_level(logging.WARNING, "assay.agent"):
        run_agent(server, **ALL)
        server.wait(lambda: server.beats, what="a beat")
    assert kept.result.is_file()
    assert (folder / "refused" / strange.folder.name).is_dir()
    assert not server.results
    assert not server.releases
    assert "other servers" in caplog.text


# Files


def test_the_files_of_a_job_are_fetched_once_and_lie_beside_it(server, run_agent, make_job, fast):
    content = b"weights" * 1000
    digest = hashlib.sha256(content).hexdigest()
    server.artefacts[digest] = content
    files = {"./data.bin": [{"name": "data.bin", "sha256": digest, "size_bytes": len(content)}]}
    executor, seen = fast(), []
    real = executor.start

    def start(entry, environment):
        seen.append((entry.work / "data.bin").read_bytes())
        return real(entry, environment)

    executor.start = start
    server.misbehave(f"GET /api/v1/artefacts/{digest}", "half", 1)
    server.add(*(make_job(index, ("cat", "./data.bin"), files=files) for index in range(3)))
    run_agent(server, executor, **ALL)
    server.wait(lambda: len(server.accepted()) == 3, what="three results")
    assert seen == [content] * 3
    assert server.requests.count(("GET", f"/artefacts/{digest}")) == 2  # one was cut


def test_a_file_that_the_server_has_lost_fails_the_job(server, run_agent, make_job):
    files = {"./data.bin": [{"name": "data.bin", "sha256": "0" * 64, "size_bytes": 3}]}
    server.add(make_job(command=("cat", "./data.bin"), files=files))
    run_agent(server, **ALL)
    server.wait(server.accepted, what="a refusal")
    assert server.results[0][3]["error"]["code"] == "unknown"


def test_a_name_that_leaves_the_folder_is_refused(server, run_agent, make_job, tmp_path):
    files = {"../../evil": [{"name": "../../evil", "sha256": "0" * 64, "size_bytes": 3}]}
    server.add(make_job(command=("cat", "../../evil"), files=files))
    run_agent(server, **ALL)
    server.wait(server.accepted, what="a refusal")
    assert server.results[0][3]["error"]["code"] == "file-name"


# Devices


def test_each_device_has_a_slot_and_jobs_see_their_own(server, run_agent, make_job, fast):
    gate = threading.Event()
    executor = fast(gate)
    server.add(make_job(0), make_job(1))
    run_agent(server, executor, devices=("cuda:0", "cuda:1"), **ALL)
    server.wait(lambda: len(executor.started) == 2, what="two jobs at once")
    seen = sorted(environment["CUDA_VISIBLE_DEVICES"] for environment in executor.environments)
    assert seen == ["0", "1"]
    assert {environment["ASSAY_URL_POLICY"] for environment in executor.environments} == {"public,loopback"}
    gate.set()
    server.wait(lambda: len(server.accepted()) == 2, what="two results")


# Tokens and folders


def test_a_wrong_token_is_an_error_that_does_not_show_it(small_server_at, tmp_path):
    from assay.agent.agent import Agent
    from assay.agent.identity import AgentSettings

    server = small_server_at(token="right")
    agent = Agent(AgentSettings(server.url, tmp_path, token="wrong-secret"), probe=_no_probe)
    with pytest.raises(UsageError) as caught:
        agent.run()
    assert caught.value.problem.code == "unauthorized"
    assert "wrong-secret" not in str(caught.value) + repr(agent.settings)


def _no_probe():
    from assay.agent.host import HostFacts
    from assay.place.needs import Profile

    return HostFacts("linux", {}, (), Profile("box", "linux", 1, 1, {}, {}))


def test_a_second_agent_on_the_same_folder_is_refused(server, run_agent, tmp_path):
    from assay.agent.agent import Agent
    from assay.agent.identity import AgentSettings

    run_agent(server)
    server.wait(lambda: server.beats, what="a beat")
    with pytest.raises(UsageError, match="another agent uses"):
        Agent(AgentSettings(server.url, tmp_path / "state"), probe=_no_probe).run()


# Full disks


def test_a_full_disk_makes_the_agent_faulty_and_it_recovers_by_itself(server, run_agent, make_job, monkeypatch):
    from assay.agent import slots, spool

    free = {"bytes": 10}
    monkeypatch.setattr(spool, "free_bytes", lambda folder: free["bytes"])
    monkeypatch.setattr(slots, "_ROOM_CHECK_S", 0.05)
    server.add(make_job())
    run_agent(server, min_free=1000, **ALL)
    server.wait(
        lambda: any(b["state"] == "faulty" and "are kept free" in b["note"] for b in server.beats), what="faulty"
    )
    assert not server.attempts
    free["bytes"] = 10_000
    server.wait(server.accepted, what="the result")
    server.wait(lambda: server.beats[-1]["state"] == "active", what="a sound agent")


def test_a_disk_that_fills_while_measuring_gives_the_lease_back(server, run_agent, make_job, fast, monkeypatch):
    from assay.agent import slots, spool

    free = {"bytes": 10_000}
    monkeypatch.setattr(spool, "free_bytes", lambda folder: free["bytes"])
    monkeypatch.setattr(slots, "_ROOM_CHECK_S", 0.05)
    executor = fast(crash=True, events=({"event": "error", "code": "disk", "text": "no room"},))
    real = executor.start

    def start(entry, environment):
        free["bytes"] = 10
        return real(entry, environment)

    executor.start = start
    server.add(make_job())
    run_agent(server, executor, min_free=1000, **ALL)
    server.wait(lambda: server.releases, what="a release")
    assert server.releases[0][2]["crashed"] is False
    server.wait(lambda: server.beats[-1]["state"] == "faulty", what="faulty")


def test_a_lease_that_does_not_fit_on_the_disk_is_given_back_from_memory(server, run_agent, make_job, monkeypatch):
    from assay.agent import spool

    def full(path, content, **_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool, "write_whole", full)
    monkeypatch.setattr(spool.Spool, "shortage", lambda self: "")
    server.add(make_job())
    run_agent(server, **ALL)
    server.wait(lambda: server.releases, what="a release")
    assert "No space left" in server.releases[0][2]["reason"]


def _wait_for(condition, timeout_s=60.0):
    end = threading.Event()
    for _ in range(int(timeout_s / 0.02)):
        if condition():
            return
        end.wait(0.02)
    raise AssertionError("waited in vain")
