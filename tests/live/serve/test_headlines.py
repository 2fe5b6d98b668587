"""The headline of each benchmark: the right metric, the longest series, the newest points."""

import httpx
import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, profile, result_of, submit
from tests.live.serve.test_series import imported, points

pytestmark = pytest.mark.live


@pytest.fixture(params=["sqlite", "postgresql"])
def client(serve, request) -> httpx.Client:
    """A server on each kind of database."""
    url = request.getfixturevalue("postgresql").migrated() if request.param == "postgresql" else None
    return serve(database_url=url).client


def headlines(client, *names):
    answer = client.get("/benchmarks/headlines", params={"name": names})
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def measure(client, agent, document, *scales):
    for scale in scales:
        submit(client, document)
        while (lease := agent.lease(wait_s=0)) is not None:
            agent.deliver(lease, result_of(lease.job, failed=scale is None, scale=scale or 1.0))


def test_the_headline_is_the_newest_result_with_its_doubt(client):
    agent = Agent(client)
    measure(client, agent, benchmark(batches=(1,)), 1.0, 1.1, 1.2)
    (told,) = headlines(client, "speed", "none")
    assert (told["benchmark"], told["metric"], told["unit"], told["better"]) == ("speed", "latency_ms", "ms", "lower")
    assert (told["label"], [round(one["value"]) for one in told["points"]]) == ("batch=1", [10, 11, 12])
    assert [one["at"] for one in told["points"]] == sorted(one["at"] for one in told["points"])
    job = client.get("/jobs").json()["items"][0]["id"]
    stats = client.get(f"/jobs/{job}/result").json()["metrics"]["latency_ms"]
    assert (told["median"], told["interval"]) == (stats["median"], stats["interval"])
    assert told["verdict"] == client.get(f"/jobs/{job}").json()["summary"]["verdict"]
    assert told["series"] == client.get("/series").json()["items"][0]["id"]


def test_a_failed_result_leaves_a_gap_and_the_one_before_speaks(client):
    agent = Agent(client)
    measure(client, agent, benchmark(batches=(1,)), 1.0, None)
    (told,) = headlines(client, "speed")
    assert [one["value"] is None for one in told["points"]] == [False, True]
    assert told["median"] == pytest.approx(10, rel=0.1)
    assert told["interval"]["low"] <= told["median"] <= told["interval"]["high"]


def test_the_longest_series_of_the_metric_is_chosen(client):
    agent = Agent(client)
    measure(client, agent, benchmark(batches=(1, 2)), 1.0)
    measure(client, agent, benchmark(batches=(2,)), 1.0, 1.0)
    (told,) = headlines(client, "speed")
    assert (told["label"], len(told["points"])) == ("batch=2", 3)


def test_watched_statistics_are_no_headline(client):
    agent = Agent(client)
    document = benchmark(batches=(1,), alerts=[{"when": "latency_ms.p90 > 50"}, {"when": "load_ms > 5000"}])
    measure(client, agent, document, 1.0, 1.0)
    assert {one["metric"] for one in client.get("/series").json()["items"]} > {"latency_ms"}
    (told,) = headlines(client, "speed")
    assert told["metric"] == "latency_ms"


def test_imported_points_have_a_headline_without_an_interval(client):
    imported(client, points("imported", count=60))
    (told,) = headlines(client, "imported")
    assert (told["metric"], len(told["points"]), told["interval"], told["verdict"]) == ("value", 40, None, None)
    assert told["median"] == told["points"][-1]["value"]


def test_headlines_come_in_the_order_asked_and_once_each(client):
    imported(client, [*points("a", count=3), *points("b", count=3), *points("c", count=3)])
    assert [one["benchmark"] for one in headlines(client, "c", "a", "c", "b")] == ["c", "a", "b"]


def test_too_many_or_none_are_refused(client):
    many = [f"b{number}" for number in range(101)]
    is_problem(client.get("/benchmarks/headlines", params={"name": many}), 422, "request")
    is_problem(client.get("/benchmarks/headlines"), 422, "request")
    assert headlines(client, *many[:100]) == []


def test_no_stored_benchmark_takes_their_address(client):
    is_problem(client.post("/benchmarks", json={"document": benchmark("headlines")}), 422, "name")


def test_of_a_program_the_metric_that_its_file_names_first_speaks(client):
    agent = Agent(client, profile=profile(runtimes={"program": "1"}, devices={"program": {"cpu": "CPU"}}))
    patterns = [{"name": "steps_per_s", "pattern": "s=(.*)"}, {"name": "accuracy", "pattern": "a=(.*)"}]
    submit(client, {"benchmark": "train", "target": {"command": "train", "metrics": patterns}, "measure": {"runs": 3}})
    lease = agent.lease()
    document = result_of(lease.job)
    latency = document["metrics"].pop("latency_ms")
    document["metrics"] = {"accuracy": latency, "steps_per_s": latency, **document["metrics"]}
    assert agent.deliver(lease, document).json() == {"delivery": "accepted"}
    assert {one["metric"] for one in client.get("/series").json()["items"]} == {"accuracy", "steps_per_s"}
    (told,) = headlines(client, "train")
    assert told["metric"] == "steps_per_s"
