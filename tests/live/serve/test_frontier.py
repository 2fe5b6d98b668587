"""Jobs between two metrics, per watt and per price: through the API, with what each figure rests on."""

import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem
from tests.live.serve.test_compare import measured

pytestmark = pytest.mark.live


def with_numbers(watts=None, grade="counter", throughput=None, price=None):
    """Changes what a result document says about speed, energy and price."""

    def change(told):
        stats = told["metrics"]["latency_ms"]
        if throughput is not None:
            told["metrics"]["throughput_per_s"] = figure(stats, throughput, "1/s", "higher")
        if watts is not None:
            told["metrics"]["power_w"] = figure(stats, watts, "W", None)
        for run in told["runs"]:
            run["facts"] = {
                **({"energy": {"grade": grade, "sources": ["a counter"]}} if watts is not None else {}),
                **({"price": price} if price else {}),
            }

    return change


def figure(stats, centre, unit, better):
    values = {run: centre * share for run, share in (("0", 0.99), ("1", 1.0), ("2", 1.01))}
    interval = {"low": 0.98 * centre, "high": 1.02 * centre, "level": 0.95, "method": "Student's t between 3 runs"}
    return {**stats, "unit": unit, "better": better, "median": centre, "interval": interval, "run_values": values}


def frontier(client, *sides, x="latency_ms", y="throughput_per_s", **more):
    answer = client.get("/frontier", params={"side": sides, "x": x, "y": y, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def made(client, agent, scale=1.0, **more):
    return measured(client, agent, benchmark(batches=(1,)), scale=scale, change=with_numbers(**more))


def test_what_no_other_beats_is_on_the_front(server):
    client = server.client
    agent = Agent(client)
    fast, much, slow = (
        made(client, agent, scale, throughput=rate) for scale, rate in ((1.0, 50), (2.0, 90), (2.2, 40))
    )
    told = frontier(client, *(f"campaign:{one}" for one in (fast, much, slow)))
    found = {one["campaign"]: (one["on_front"], one["surely"]) for one in told["points"]}
    assert found == {fast: (True, True), much: (True, True), slow: (False, False)}
    assert told["x"] == {"metric": "latency_ms", "unit": "ms", "better": "lower"}
    assert told["y"] == {"metric": "throughput_per_s", "unit": "1/s", "better": "higher"}
    point = next(one for one in told["points"] if one["campaign"] == fast)
    assert (point["job"], point["machine"], point["benchmark"]) == (f"{fast}-job-0", "box", "speed")
    assert point["x"] == pytest.approx(10.0, rel=0.05)
    assert point["y_interval"]["low"] == pytest.approx(49.0)
    assert "throughput_per_s" in told["metrics"]


def test_what_was_not_measured_is_absent_and_says_why(server):
    client = server.client
    agent = Agent(client)
    good, without = made(client, agent, throughput=50), made(client, agent)
    failed = measured(client, agent, benchmark(batches=(1,)), failed=True)
    told = frontier(client, *(f"campaign:{one}" for one in (good, without, failed)))
    assert [one["campaign"] for one in told["points"]] == [good]
    assert told["absent"][f"{without}-job-0"] == "throughput_per_s was not measured"
    assert "failed" in told["absent"][f"{failed}-job-0"]


def test_per_watt_is_made_run_by_run_and_grades_never_mix(server):
    client = server.client
    agent = Agent(client)
    counted = [made(client, agent, throughput=rate, watts=watts) for rate, watts in ((50, 25), (90, 90))]
    guessed = made(client, agent, throughput=70, watts=1, grade="estimated")
    told = frontier(client, *(f"campaign:{one}" for one in (*counted, guessed)), per="watt")
    assert told["y"]["unit"] == "1/J"
    assert {one["campaign"]: one["y"] for one in told["points"]} == {
        counted[0]: pytest.approx(2.0),
        counted[1]: pytest.approx(1.0),
    }
    assert {one["grade"] for one in told["points"]} == {"counter"}
    assert "estimated" in told["absent"][f"{guessed}-job-0"]


def test_per_price_takes_the_result_s_own_price_before_what_the_server_was_set(server):
    client = server.client
    agent = Agent(client)
    own = made(client, agent, throughput=50, price={"per_hour": 2.0, "currency": "USD", "date": "2026-03-01"})
    told_of = made(client, agent, throughput=50)
    sides = (f"campaign:{own}", f"campaign:{told_of}")
    before = frontier(client, *sides, per="dollar")
    assert before["absent"] == {f"{told_of}-job-0": "no price is known of its machine (box or box)"}
    client.put("/prices/bo*", json={"per_hour": 4.0, "currency": "usd", "date": "2026-02-01"})
    told = frontier(client, *sides, per="dollar")
    points = {one["campaign"]: one for one in told["points"]}
    assert told["y"]["unit"] == "1/USD"
    assert points[own]["y"] == pytest.approx(50 * 3600 / 2.0)
    assert points[told_of]["y"] == pytest.approx(50 * 3600 / 4.0)
    assert points[own]["grade"] == "estimated: 2 USD an hour, as its benchmark file says on 2026-03-01"
    assert points[told_of]["grade"] == "estimated: 4 USD an hour, as given for bo* on 2026-02-01"
    assert points[told_of]["y_interval"]["low"] == pytest.approx(49 * 900)


def test_money_is_not_converted(server):
    client = server.client
    agent = Agent(client)
    sides = [
        f"campaign:{made(client, agent, throughput=50, price={'per_hour': 2.0, 'currency': money})}"
        for money in ("EUR", "EUR", "USD")
    ]
    told = frontier(client, *sides, per="dollar")
    assert (len(told["points"]), told["y"]["unit"]) == (2, "1/EUR")
    assert next(iter(told["absent"].values())) == "its figure is USD, most are EUR"


@pytest.mark.parametrize(("x", "y", "per"), [("latency_ms", "no_such", ""), ("output_tokens", "throughput_per_s", ""),
                                             ("throughput_per_s", "latency_ms", "watt")])  # fmt: skip
def test_an_axis_needs_a_direction_that_makes_sense(server, x, y, per):
    client = server.client
    campaign = made(client, Agent(client), throughput=50)
    params = {"side": f"campaign:{campaign}", "x": x, "y": y, "per": per}
    is_problem(client.get("/frontier", params=params), 400, "axis")


def test_the_same_result_on_two_sides_is_one_point(server):
    client = server.client
    campaign = made(client, Agent(client), throughput=50)
    told = frontier(client, f"campaign:{campaign}", f"job:{campaign}-job-0")
    assert [one["side"] for one in told["points"]] == [f"campaign:{campaign}"]
