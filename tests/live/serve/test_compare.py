"""Campaigns, jobs, agents and labels held against each other: the same answers as `assay compare` gives."""

from contextlib import nullcontext

import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, result_of, submit

from assay.api.store_source import StoreSource
from assay.report.comparison import Reader, compared

pytestmark = pytest.mark.live


@pytest.fixture(params=["sqlite", "postgresql"])
def either(serve, request):
    """A server on each kind of database."""
    url = request.getfixturevalue("postgresql").migrated() if request.param == "postgresql" else None
    return serve(database_url=url)


def measured(client, agent, document=None, *, scale=1.0, failed=False, change=None):
    """Submit a benchmark and do all its jobs; the id of the campaign."""
    campaign = submit(client, document or benchmark())["id"]
    while (lease := agent.lease(wait_s=0)) is not None:
        told = result_of(lease.job, scale=scale, failed=failed)
        (change or (lambda _: None))(told)
        agent.deliver(lease, told)
    return campaign


def compare(client, *sides, **more):
    answer = client.get("/compare", params={"side": sides, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def answers(told, metric="latency_ms"):
    return {row["label"]: [cell["answer"] for cell in row["cells"]] for row in told["rows"] if row["metric"] == metric}


def test_a_slower_campaign_is_worse_and_an_equal_one_cannot_be_decided(server):
    client = server.client
    agent = Agent(client)
    campaigns = [measured(client, agent, scale=scale) for scale in (1.0, 1.2, 0.8, 1.0)]
    told = compare(client, *(f"campaign:{one}" for one in campaigns))
    expected = ["base", "worse", "better", "cannot tell"]
    assert answers(told) == {"batch=1": expected, "batch=2": expected}
    assert [(one["kind"], one["name"], one["results"]) for one in told["sides"]] == [("campaign", "speed", 2)] * 4
    row = told["rows"][0]
    assert (row["benchmark"], row["point"], row["unit"], row["better"]) == (
        "speed",
        {"workload.batch": 1},
        "ms",
        "lower",
    )
    worse = row["cells"][1]
    assert worse["change"]["low"] < 0.2 < worse["change"]["high"] + 0.01
    assert worse["metric"]["median"] == pytest.approx(12.0, rel=0.05)
    assert worse["job"] == f"{campaigns[1]}-job-0"
    assert row["cells"][3]["because"]
    assert {"latency_ms", "load_ms"} <= set(told["metrics"])
    assert told["not_comparable"] == []


def test_it_says_what_the_command_says(server):
    client = server.client
    agent = Agent(client)
    a, b = (measured(client, agent, scale=scale) for scale in (1.0, 1.013))
    store = server.state.kept.store
    reader = Reader(lambda: nullcontext(StoreSource(store)))
    said = compared(reader.side([a]), reader.side([b]), all_metrics=True)
    lines = {(job.label, line.metric): line for job in said.jobs for line in job.result.lines}
    told = compare(client, f"campaign:{a}", f"campaign:{b}", metric=["latency_ms", "load_ms"])
    assert len(told["rows"]) == 4
    for row in told["rows"]:
        line, cell = lines[row["label"], row["metric"]], row["cells"][1]
        assert (cell["answer"], cell["because"]) == (line.answer, list(line.because))
        assert cell["change"]["low"] == pytest.approx(line.change.low)
        assert cell["metric"]["median"] == pytest.approx(line.b, rel=1e-3)


def test_what_answers_another_question_is_not_compared_and_says_why(server):
    client = server.client
    agent = Agent(client)
    first = measured(client, agent, benchmark(batches=(1,)))
    other = measured(client, agent, benchmark(batches=(8,)))
    told = compare(client, f"job:{first}-job-0", f"job:{other}-job-0")
    assert told["not_comparable"] == ["different batch: 1 against 8"]
    (cell,) = [row["cells"][1] for row in told["rows"] if row["metric"] == "latency_ms"]
    assert (cell["answer"], cell["because"]) == ("cannot tell", ["different batch: 1 against 8"])
    assert cell["metric"] is not None
    anyway = compare(client, f"job:{first}-job-0", f"job:{other}-job-0", anyway=True)
    assert anyway["not_comparable"] == []
    assert anyway["rows"][0]["cells"][1]["because"] != ["different batch: 1 against 8"]


def test_jobs_that_one_side_lacks_are_shown_and_not_judged(server):
    client = server.client
    agent = Agent(client)
    both, one = (measured(client, agent, benchmark(batches=batches)) for batches in ((1, 2), (1, 4)))
    told = compare(client, f"campaign:{both}", f"campaign:{one}", metric="latency_ms")
    found = {row["label"]: row["cells"] for row in told["rows"]}
    assert set(found) == {"batch=1", "batch=2", "batch=4"}
    assert (found["batch=2"][1]["job"], found["batch=2"][1]["answer"]) == (None, None)
    assert found["batch=2"][1]["because"] == ["this side has no such job"]
    assert (found["batch=4"][0]["metric"], found["batch=4"][1]["answer"]) == (None, None)
    assert found["batch=4"][1]["because"] == ["the first side has no such job"]
    assert found["batch=4"][1]["metric"]["median"] == pytest.approx(10.0, rel=0.1)


def test_a_failed_job_has_no_numbers_to_compare(server):
    client = server.client
    agent = Agent(client)
    good = measured(client, agent, benchmark(batches=(1,)))
    bad = measured(client, agent, benchmark(batches=(1,)), failed=True)
    told = compare(client, f"campaign:{good}", f"campaign:{bad}")
    cell = told["rows"][0]["cells"][1]
    assert (cell["metric"], cell["answer"]) == (None, None)
    assert cell["because"] == ["it was not measured: its job is failed"]


def machine_of(name, cpu):
    return lambda told: told["environment"].update(machine={"name": name, "cpu": cpu, "cores": 4})


def test_agents_are_compared_by_their_newest_results_though_their_machines_differ(either):
    client = either.client
    agents = [Agent(client, "old"), Agent(client, "new")]
    for agent, scale, cpu in zip(agents, (1.0, 0.5), ("slow chip", "fast chip"), strict=True):
        document = {**benchmark(), "matrix": {"needs.agent": [agent.name], "workload.batch": [1, 2]}}
        measured(client, agent, document, scale=3.0, change=machine_of(agent.name, cpu))
        measured(client, agent, document, scale=scale, change=machine_of(agent.name, cpu))
    told = compare(client, "agent:old", "agent:new")
    assert answers(told) == {"batch=1": ["base", "better"], "batch=2": ["base", "better"]}
    assert told["rows"][0]["cells"][0]["metric"]["median"] == pytest.approx(10.0, rel=0.05)
    assert [one["results"] for one in told["sides"]] == [2, 2]
    refused = compare(client, "agent:old", "agent:new", anyway=False)
    assert any("slow chip" in one and "fast chip" in one for one in refused["not_comparable"])


def test_a_label_stands_for_the_newest_campaign_of_each_benchmark_that_has_it(either):
    client = either.client
    agent = Agent(client)
    for branch, scale in (("main", 1.0), ("main", 1.1), ("fast", 0.8)):
        measured(client, agent, benchmark(labels={"branch": branch}), scale=scale)
    newest = measured(client, agent, benchmark("other", labels={"branch": "main"}))
    told = compare(client, "label:branch=main", "label:branch=fast", metric="latency_ms")
    assert newest in told["sides"][0]["campaigns"]
    assert len(told["sides"][0]["campaigns"]) == 2
    rows = {(row["benchmark"], row["label"]): row["cells"] for row in told["rows"]}
    assert rows["speed", "batch=1"][0]["metric"]["median"] == pytest.approx(11.0, rel=0.05)
    assert rows["speed", "batch=1"][1]["answer"] == "better"
    assert rows["other", "batch=1"][1]["job"] is None
    only = compare(client, "label:branch=main", "label:branch=fast", benchmark="speed")
    assert {row["benchmark"] for row in only["rows"]} == {"speed"}


def test_a_result_is_not_judged_against_itself(server):
    client = server.client
    campaign = measured(client, Agent(client), benchmark(batches=(1,)))
    told = compare(client, f"campaign:{campaign}", f"job:{campaign}-job-0")
    cell = told["rows"][0]["cells"][1]
    assert cell["answer"] is None
    assert "very result" in cell["because"][0]


@pytest.mark.parametrize(("sides", "status", "code"), [
    (("campaign:none", "campaign:nor"), 404, "unknown-campaign"),
    (("job:none", "job:nor"), 404, "unknown-job"),
    (("agent:none", "agent:nor"), 404, "unknown-agent"),
    (("label:a=b", "label:a=c"), 404, "unknown-label"),
    (("label:a", "label:b"), 400, "label"),
    (('label:a"=b', "label:a=c"), 400, "label"),
    (("latest", "/etc/passwd"), 400, "side"),
    (("campaign:", "job:x"), 400, "side"),
    (("job:x", "job:x"), 400, "same-result"),
    (("job:x",), 422, "request"),
    (tuple(f"job:{number}" for number in range(9)), 422, "request"),
])  # fmt: skip
def test_sides_that_name_nothing_are_refused(server, sides, status, code):
    is_problem(server.client.get("/compare", params={"side": sides}), status, code)


def test_names_of_users_come_back_as_they_are(server):
    client = server.client
    name = "<img src=x onerror=alert(1)>"
    campaigns = [measured(client, Agent(client), benchmark(name)) for _ in range(2)]
    told = compare(client, *(f"campaign:{one}" for one in campaigns))
    assert told["rows"][0]["benchmark"] == name
