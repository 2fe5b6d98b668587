"""Prices of machines: kept, found by name or pattern, refused where they make no sense."""

import pytest
from tests.live.serve.setups import is_problem

from assay.store.prices import PriceRecord, price_for

pytestmark = pytest.mark.live


@pytest.fixture(params=["sqlite", "postgresql"])
def client(serve, request):
    """A server on each kind of database."""
    url = request.getfixturevalue("postgresql").migrated() if request.param == "postgresql" else None
    return serve(database_url=url).client


def test_a_price_is_kept_changed_and_removed(client):
    assert client.get("/prices").json() == {"items": [], "next": None}
    put = client.put("/prices/gpu-01", json={"per_hour": 2.5, "currency": "eur", "date": "2026-03-01"}).json()
    assert (put["machine"], put["per_hour"], put["currency"], put["date"], put["by"]) == (
        "gpu-01",
        2.5,
        "EUR",
        "2026-03-01",
        "local",
    )
    assert client.get("/prices/gpu-01").json() == put
    again = client.put("/prices/gpu-01", json={"per_hour": 3}).json()
    assert (again["per_hour"], again["currency"]) == (3.0, "USD")
    assert len(again["date"]) == 10  # today
    client.put("/prices/a-*", json={"per_hour": 1})
    assert [one["machine"] for one in client.get("/prices").json()["items"]] == ["a-*", "gpu-01"]
    assert client.delete("/prices/gpu-01").status_code == 204
    is_problem(client.get("/prices/gpu-01"), 404, "unknown-price")
    is_problem(client.delete("/prices/gpu-01"), 404, "unknown-price")


@pytest.mark.parametrize("wrong", [{"per_hour": 0}, {"per_hour": -1}, {"per_hour": 1, "currency": "$"},
                                   {"per_hour": 1, "currency": ""}, {"per_hour": 1, "date": "yesterday"}])  # fmt: skip
def test_what_makes_no_sense_is_refused(server, wrong):
    is_problem(server.client.put("/prices/box", json=wrong), 422, "value")
    assert server.client.get("/prices").json()["items"] == []


def price(machine, per_hour=1.0):
    return PriceRecord(machine, per_hour, "USD", "2026-03-01", "me", 0.0)


@pytest.mark.parametrize(("names", "machine"), [
    (("gpu-01",), "gpu-01"), (("gpu-02",), "gpu-0*"), (("gpu-17",), "gpu-*"), (("box",), "*"), ((), None),
    (("host", "gpu-01"), "gpu-01"),
])  # fmt: skip
def test_a_name_wins_over_a_pattern_and_a_long_pattern_over_a_short_one(names, machine):
    found = price_for([price("*"), price("gpu-*"), price("gpu-0*"), price("gpu-01")], names)
    assert (found.machine if found else None) == machine


def test_no_pattern_fits_no_price():
    assert price_for([price("gpu-*")], ["box"]) is None
    assert price_for([], ["box"]) is None
