"""What the results of an agent tell of its machine: read from what it delivered, absent where nothing tells it."""

import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, profile, result_of, submit
from tests.unit.report import watched

from assay.documents import to_plain

pytestmark = pytest.mark.live

DEVICE = {"benchmark": "what it can do", "target": {"device": "cpu"}, "measure": {"runs": 3}}


@pytest.fixture(params=["sqlite", "postgresql"])
def client(serve, request):
    """A server on each kind of database."""
    url = request.getfixturevalue("postgresql").migrated() if request.param == "postgresql" else None
    return serve(database_url=url).client


def read(client, agent):
    answer = client.get(f"/agents/{agent.name}/hardware")
    assert answer.status_code == 200, answer.text
    return answer.json()


def deliver(client, agent, document=None, change=None):
    submit(client, document or benchmark(batches=(1,)))
    lease = agent.lease()
    told = result_of(lease.job)
    (change or (lambda _: None))(told)
    assert agent.deliver(lease, told).json() == {"delivery": "accepted"}
    return lease.job.id


def with_control(band):
    def change(told):
        usual = {"median_ms": 100.0, "band_pct": band, "drift_pct": 0.1}
        control = {
            "version": 1,
            "integer_ms": 100.0,
            "memory_ms": 80.0,
            "history": {"entries": 12, "integer": usual, "memory": {**usual, "band_pct": band / 2}},
        }
        told["environment"]["before"] = {"fitness": {"control": control}}
        told["checks"] = [
            {"name": "machine quiet", "passed": True, "detail": "nobody else was there"},
            {"name": "enough runs", "passed": True, "detail": "3"},
            {"name": "cool enough", "passed": False, "detail": "it is hot"},
        ]

    return change


def test_an_agent_without_results_has_nothing_to_tell(client):
    told = read(client, Agent(client))
    assert (told["fitness"], told["noise"], told["bench"]) == (None, None, [])
    assert told["absent"] == dict.fromkeys(("fitness", "noise", "bench"), "box has delivered no result yet")


def test_fitness_and_noise_come_from_the_newest_result(client):
    agent = Agent(client)
    deliver(client, agent, change=with_control(9.0))
    newest = deliver(client, agent, change=with_control(1.5))
    told = read(client, agent)
    assert told["fitness"]["job"] == newest
    assert [(one["name"], one["passed"]) for one in told["fitness"]["checks"]] == [
        ("machine quiet", True),
        ("cool enough", False),
    ]
    assert (told["noise"]["score"], told["noise"]["unit"]) == (1.5, "%")
    assert "within ±1.5 % of its usual time here, over 12 earlier times" in told["noise"]["says"]
    assert told["fitness"]["at"] == told["noise"]["at"]


def test_without_a_control_workload_the_spread_of_runs_speaks(client):
    agent = Agent(client)
    for _ in range(3):
        deliver(client, agent)
    told = read(client, agent)["noise"]
    # Medians of 50 samples with a deviation of one per cent.
    assert 0.01 < told["score"] < 1.0
    assert told["results"] == 3
    assert "middle of 3 results" in told["says"]


def test_results_of_others_do_not_count(client):
    mine, other = Agent(client), Agent(client, "other", profile=profile("other"))
    submit(client, benchmark(batches=(1,)))
    other.deliver(other.lease())
    assert "noise" in read(client, mine)["absent"]


def of_the_device(told):
    measured = to_plain(watched.device_job())
    told.update(
        metrics=measured["metrics"],
        runs=measured["runs"],
        successful_runs=measured["successful_runs"],
        total_runs=measured["total_runs"],
    )
    told["environment"]["machine"] = {"name": "box", "cpu": "a fine chip"}
    for run in told["runs"]:
        run["samples"], run["files"] = None, {}


def test_the_newest_test_of_a_device_reports_what_it_can_do(client):
    agent = Agent(client, profile=profile(runtimes={"device": "1"}, devices={"device": {"cpu": "CPU"}}))
    deliver(client, agent, DEVICE, of_the_device)
    job = deliver(client, agent, DEVICE, of_the_device)
    deliver(client, Agent(client))
    told = read(client, agent)
    (bench,) = told["bench"]
    assert (bench["job"], bench["device"]) == (job, "cpu (a fine chip)")
    items = {one["test"]: one for one in bench["items"]}
    stats = watched.device_job().metrics
    assert items["bf16"]["precision"] == "bf16"
    assert items["copy"]["precision"] is None
    for test, metric in (("bf16", "bf16_tflops"), ("copy", "copy_gb_per_s")):
        assert items[test]["value"] == pytest.approx(stats[metric].median)
        assert items[test]["interval"]["low"] == pytest.approx(stats[metric].interval.low)
        assert (items[test]["unit"], items[test]["better"]) == (stats[metric].unit, "higher")
    assert "bench" not in told["absent"]


def test_the_word_alone_makes_no_test_of_a_device(client):
    agent = Agent(client)
    deliver(client, agent, change=lambda told: told["runs"][0].update(facts={"tests": {"a": {"b": 1}}}))
    told = read(client, agent)
    assert told["bench"] == []
    assert "test of a device" in told["absent"]["bench"]


def test_an_agent_that_is_not_there(server):
    is_problem(server.client.get("/agents/none/hardware"), 404, "unknown-agent")
