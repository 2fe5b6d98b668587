"""What the first page needs: who asks, how things stand, what a benchmark file may say."""

import pytest
from sqlalchemy import update
from tests.live.serve.setups import Agent, benchmark, is_problem, result_of, submit
from tests.live.serve.test_alerts import opened
from tests.live.serve.test_series import imported
from tests.support.running_server import wait_for

from assay import __version__
from assay.spec.schema import benchmark_schema
from assay.store.database import writing
from assay.store.tables import AgentRow, CampaignRow, JobRow

pytestmark = pytest.mark.live


@pytest.fixture(params=["sqlite", "postgresql"])
def either(serve, request):
    """A server on each kind of database."""
    url = request.getfixturevalue("postgresql").migrated() if request.param == "postgresql" else None
    return serve(database_url=url)


def set_row(server, row, key, **values):
    with writing(server.state.kept.store.engine) as session:
        session.execute(update(row).where(row.id == key).values(**values))


def test_a_server_reports_who_asks(serve):
    server = serve(open=False)
    is_problem(server.client.get("/session"), 401, "unauthorized")
    for role in ("reader", "user", "admin"):
        told = server.with_token(server.token(role)).get("/session").json()
        assert told == {"name": f"the {role}", "role": role, "open": False, "version": __version__}
    is_problem(server.with_token(server.token("agent")).get("/session"), 403, "forbidden")


def test_an_open_server_says_so(server):
    told = server.client.get("/session").json()
    assert (told["name"], told["role"], told["open"]) == ("local", "admin", True)


def test_the_schema_is_that_of_the_command(server):
    answer = server.client.get("/schema")
    assert answer.json() == benchmark_schema()
    again = server.client.get("/schema", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_an_empty_server_is_empty(server):
    told = server.client.get("/overview").json()
    assert told == {
        "empty": True,
        "campaigns": 0,
        "running": [],
        "last": [],
        "failed": [],
        "findings_open": 0,
        "moved": [],
        "alerts_open": 0,
        "alerts": [],
        "jobs": {"pending": 0, "running": 0},
        "fleet": {"agents": 0, "healthy": 0, "busy": 0, "draining": 0, "silent": 0},
    }


def test_the_overview_shows_what_runs_what_ended_and_what_failed(either):
    client = either.client
    agent = Agent(client)
    first = submit(client, benchmark(batches=(1, 2)))["id"]
    lease = agent.lease()
    agent.deliver(lease)
    lease = agent.lease()
    agent.deliver(lease, result_of(lease.job, failed=True))
    wait_for(lambda: client.get(f"/campaigns/{first}").json()["state"] != "running", what="the end")
    second = submit(client, benchmark("other", batches=(1, 2, 3)))["id"]
    held = agent.lease()
    agent.beat(held)
    told = client.get("/overview").json()
    assert (told["empty"], told["campaigns"]) == (False, 2)
    assert [one["id"] for one in told["running"]] == [second]
    assert [one["id"] for one in told["last"]] == [first]
    assert told["last"][0]["counts"] == {"done": 1, "failed": 1}
    (failed,) = told["failed"]
    assert (failed["id"], failed["state"], failed["campaign"]) == (lease.job.id, "failed", first)
    assert failed["point"] == dict(lease.job.point)
    assert told["jobs"] == {"pending": 2, "running": 1}
    assert told["fleet"] == {"agents": 1, "healthy": 1, "busy": 1, "draining": 0, "silent": 0}


def test_what_failed_long_ago_is_no_news_and_the_newest_comes_first(server):
    client = server.client
    agent = Agent(client)
    submit(client, benchmark(batches=tuple(range(1, 14))))
    jobs = []
    while (lease := agent.lease(wait_s=0)) is not None:
        agent.deliver(lease, result_of(lease.job, failed=True))
        jobs.append(lease.job.id)
    now = server.state.clock.utc().timestamp()
    for number, job in enumerate(jobs):
        set_row(server, JobRow, job, ended_at=now - 60 * number - (8 * 86400 if number == 0 else 0))
    set_row(server, JobRow, jobs[2], state="poisoned")
    told = [one["id"] for one in client.get("/overview").json()["failed"]]
    assert told == jobs[1:11]


def test_a_campaign_whose_process_is_gone_does_not_run(server):
    client = server.client
    gone = submit(client)["id"]
    stays = submit(client)["id"]
    set_row(server, CampaignRow, gone, engine="local")
    assert [one["id"] for one in client.get("/overview").json()["running"]] == [stays]


def test_findings_and_alerts_are_counted_and_the_newest_shown(server):
    client = server.client
    (finding,) = imported(client)["findings"]
    (alert,) = opened(server)
    told = client.get("/overview").json()
    assert (told["findings_open"], [one["id"] for one in told["moved"]]) == (1, [finding])
    shown = {one["id"]: one for one in client.get("/alerts", params={"state": "open"}).json()["items"]}
    assert alert.id in shown
    assert (told["alerts_open"], [one["id"] for one in told["alerts"]]) == (len(shown), list(shown))
    for one in told["alerts"]:
        full = shown[one["id"]] | {"says": shown[one["id"]]["sentences"][0]}
        assert one == {key: full[key] for key in one}
    client.post(f"/findings/{finding}/expect")
    client.post(f"/alerts/{alert.id}/acknowledge", json={})
    told = client.get("/overview").json()
    assert (told["findings_open"], told["moved"]) == (0, [])
    assert alert.id not in [one["id"] for one in told["alerts"]]
    assert told["alerts_open"] == len(told["alerts"])


def test_the_fleet_is_counted_by_how_it_is(either):
    client = either.client
    names = ("fine", "busy", "drains", "faulty", "silent")
    agents = {name: Agent(client, name) for name in names}
    agents["busy"].beat(state="busy")
    client.patch(f"/agents/{agents['drains'].id}", json={"draining": True})
    agents["faulty"].beat(state="faulty")
    set_row(either, AgentRow, agents["silent"].id, last_seen=1.0, state="busy")
    told = client.get("/overview").json()
    assert told["fleet"] == {"agents": 5, "healthy": 3, "busy": 1, "draining": 1, "silent": 1}
    assert told["empty"] is False


def test_a_job_shows_its_point_before_it_has_a_result(either):
    client = either.client
    document = benchmark(batches=(1, 8))
    document["matrix"]["target.model"] = ["squeezenet", "resnet50"]
    campaign = submit(client, document)["id"]
    points = [one["point"] for one in client.get("/jobs", params={"campaign": campaign}).json()["items"]]
    assert sorted(map(str, points)) == sorted(
        str({"workload.batch": batch, "target.model": model})
        for batch in (1, 8)
        for model in ("squeezenet", "resnet50")
    )
    assert [one["point"] for one in client.get(f"/campaigns/{campaign}").json()["job_list"]] == points
    single = submit(client, {key: value for key, value in benchmark().items() if key != "matrix"})["id"]
    assert [one["point"] for one in client.get("/jobs", params={"campaign": single}).json()["items"]] == [{}]
