"""One load, shared by the clients of several machines: together they are the load, and nobody sends another's part."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.run.load.http.driver import HttpLoad, LoadCallbacks, Repeat
from assay.run.load.http.loops import ClosedLoop, OpenLoop
from assay.run.load.http.origin import origin_of
from assay.run.load.shape import ClosedShape, OpenShape, RateLevel

ORIGIN = origin_of("http://127.0.0.1:9")
hosts_and_clients = st.tuples(st.integers(1, 6), st.integers(1, 4))


def loads(hosts, clients, shape, folder, **more):
    return [
        HttpLoad(ORIGIN, shape, folder, client=client, clients=clients, host=host, hosts=hosts, **more)
        for host in range(hosts)
        for client in range(clients)
    ]


def due_times(load, until_s):
    loop = OpenLoop(load, Repeat((b"",)), LoadCallbacks(), load.shape)
    found, loop._due = [], []
    while not loop._over and (not found or found[-1] < until_s * 1e9):
        loop._refill()
        found += loop._due
    loop.poller.close()
    loop._columns.close()
    return [at for at in found if at < until_s * 1e9]


@settings(max_examples=30)
@given(hosts_and_clients, st.integers(0, 10_000))
def test_requests_and_budgets_are_shared_out_exactly(tmp_path_factory, shape, total):
    parts = loads(
        *shape,
        OpenShape((RateLevel(math.inf, 1, 1),)),
        tmp_path_factory.getbasetemp(),
        requests=total,
        most_requests=total,
    )
    assert sum(part.share_of_requests for part in parts) == total
    assert sum(part.share_of_budget for part in parts) == total
    assert [part.place for part in parts] == list(range(parts[0].places))
    assert max(part.share_of_requests for part in parts) - min(part.share_of_requests for part in parts) <= 1


@settings(max_examples=15)
@given(hosts_and_clients, st.integers(1, 500))
def test_the_users_of_a_closed_loop_are_shared_out_exactly(tmp_path_factory, shape, users):
    folder = tmp_path_factory.getbasetemp()
    found = 0
    for load in loads(*shape, ClosedShape((RateLevel(math.inf, users, users),)), folder):
        loop = ClosedLoop(load, Repeat((b"",)), LoadCallbacks(), load.shape)
        loop.level(0.0)
        found += len(loop._users)
        loop.poller.close()
        loop._columns.close()
    assert found == users


@pytest.mark.parametrize("hosts", [1, 2, 5])
def test_even_arrivals_and_traces_are_dealt_out_of_one_schedule(tmp_path, hosts):
    steps = OpenShape((RateLevel(10.0, 20, 60), RateLevel(math.inf, 60, 60)), "constant")
    trace = OpenShape(times=np.sort(np.random.default_rng(1).integers(0, int(20e9), 700)))
    for shape in (steps, trace):
        (whole,) = loads(1, 1, shape, tmp_path)
        parts = [due_times(part, 20) for part in loads(hosts, 2, shape, tmp_path)]
        assert sorted(at for part in parts for at in part) == due_times(whole, 20)


@pytest.mark.parametrize(("process", "burstiness"), [("poisson", 1.0), ("gamma", 0.25)])
def test_machines_that_begin_apart_are_together_as_bursty_as_asked(tmp_path, process, burstiness):
    """The variance of the number of arrivals in a while, over its mean, is 1 for Poisson and 1/shape for gamma."""
    hosts, rate, seconds, apart_s = 8, 400.0, 400, 0.7
    shape = OpenShape((RateLevel(math.inf, rate, rate),), process, burstiness)
    parts = [
        np.array(due_times(part, seconds + 10)) + int(load_host * apart_s * 1e9)
        for load_host, part in enumerate(loads(hosts, 1, shape, tmp_path, seed=3))
    ]
    at_s = np.sort(np.concatenate(parts)) / 1e9
    slots = np.histogram(at_s, np.arange(6, seconds, 0.4))[0]
    assert slots.mean() == pytest.approx(0.4 * rate, rel=0.02)
    assert slots.var() / slots.mean() == pytest.approx(1 / burstiness, rel=0.25)


def test_no_two_machines_and_no_two_runs_draw_the_same_arrivals(tmp_path):
    shape = OpenShape((RateLevel(math.inf, 50, 50),), "poisson")
    drawn = [due_times(part, 5)[0] for seed in range(4) for part in loads(4, 1, shape, tmp_path, seed=seed)]
    assert len(set(drawn)) == len(drawn)
