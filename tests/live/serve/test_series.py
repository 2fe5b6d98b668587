"""Series over HTTP: results that agents deliver, history that is imported, findings and what is expected."""

import numpy as np
import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, result_of, submit

pytestmark = pytest.mark.live


def points(name="s", count=60, at=40, size=0.08, **more):
    values = 10 * (1 + 0.01 * np.random.default_rng(1).standard_normal(count))
    values[at:] *= 1 + size
    return [
        {
            "series": name,
            "at": 1.7e9 + n * 86_400,
            "value": float(value),
            "better": "lower",
            "context": {"driver": "560" if n >= at else "550"},
            **more,
        }
        for n, value in enumerate(values)
    ]


def imported(client, given=None):
    answer = client.post("/series/import", json={"points": points() if given is None else given})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_delivered_results_are_points_of_their_series(server):
    agent = Agent(server.client)
    for scale in (1.0, 1.1):
        submit(server.client, benchmark(batches=(1,), labels={"team": "x"}))
        lease = agent.lease()
        assert agent.deliver(lease, result_of(lease.job, scale=scale)).json() == {"delivery": "accepted"}
        # A result that comes twice is no second point.
        assert agent.deliver(lease, result_of(lease.job, scale=scale)).json()["delivery"] != "accepted"
    (series,) = server.client.get("/series", params={"benchmark": "speed"}).json()["items"]
    assert (series["metric"], series["points"], series["labels"]) == ("latency_ms", 2, {"team": "x"})
    found = server.client.get(f"/series/{series['id']}/points").json()
    assert [round(one["value"]) for one in found["items"]] == [10, 11]
    assert found["items"][0]["job"] == lease.job.id or found["items"][1]["job"] == lease.job.id


def test_a_failed_job_is_a_point_without_a_value(server):
    agent = Agent(server.client)
    for failed in (False, True):
        submit(server.client, benchmark(batches=(1,)))
        lease = agent.lease()
        agent.deliver(lease, result_of(lease.job, failed=failed))
    (series,) = server.client.get("/series").json()["items"]
    values = [one["value"] for one in server.client.get(f"/series/{series['id']}/points").json()["items"]]
    assert sorted(value is None for value in values) == [False, True]


def test_history_is_imported_once_and_its_finding_is_explained(server):
    first = imported(server.client)
    assert (first["added"], first["known"], len(first["findings"])) == (60, 0, 1)
    assert imported(server.client) == {**first, "added": 0, "known": 60, "findings": []}
    (name,) = first["findings"]
    found = server.client.get(f"/findings/{name[:10]}").json()
    assert (found["id"], found["state"], found["finding"]["answer"]) == (name, "open", "worse")
    assert found["triage"]["cause"] == "environment"
    assert found["triage"]["differs"] == [{"name": "driver", "before": "550", "after": "560", "elsewhere": 0}]
    listed = server.client.get("/findings", params={"state": "open"}).json()["items"]
    assert [one["id"] for one in listed] == [name]
    whole = server.client.get(f"/series/{first['series'][0]}").json()
    assert whole["series"]["report"]["kind"] == "stepped"
    assert [one["id"] for one in whole["findings"]] == [name]


def test_points_come_in_pages(server):
    (series,) = imported(server.client)["series"]
    page = server.client.get(f"/series/{series}/points", params={"limit": 40}).json()
    rest = server.client.get(f"/series/{series}/points", params={"limit": 40, "cursor": page["next"]}).json()
    times = [one["at"] for one in (*page["items"], *rest["items"])]
    assert times == sorted(times)
    assert len(set(times)) == 60
    assert rest["next"] is None


def test_a_change_can_be_expected_by_users_and_not_by_readers(serve):
    server = serve(token="secret-of-the-tests")
    user, reader = (server.with_token(server.token(role)) for role in ("user", "reader"))
    (name,) = imported(user)["findings"]
    is_problem(reader.post(f"/findings/{name}/expect"), 403, "forbidden")
    is_problem(reader.post("/series/import", json={"points": []}), 403, "forbidden")
    assert reader.get(f"/findings/{name}").status_code == 200
    assert user.post(f"/findings/{name}/expect").json()["state"] == "expected"
    assert reader.get("/findings", params={"state": "open"}).json()["items"] == []
    is_problem(server.with_token(None).get("/series"), 401, "unauthorized")


def test_mistakes_are_reported(server):
    is_problem(server.client.get("/series/0123456789abcdef"), 404, "unknown-series")
    is_problem(server.client.get("/findings/0123456789abcdef"), 404, "unknown-finding")
    bad = [*points(count=3, at=2), {"series": "", "at": 1.0, "value": 1.0}]
    told = is_problem(server.client.post("/series/import", json={"points": bad}), 422, "series-line")
    assert told["at"] == "points.3"
    assert server.client.get("/series").json()["items"] == []  # all or nothing
    is_problem(server.client.post("/series/import", json={"points": [{"series": "a"}]}), 422, "request")
    is_problem(server.client.get("/series", params={"cursor": "x"}), 400, "cursor")
