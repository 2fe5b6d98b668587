"""What time demands of a server, with a calendar that is set and a process that stands still; on both databases."""

import pytest
from tests.unit.store.setups import beat, deliver, enroll, submit
from tests.unit.store.test_clock_steps import STEP_S, SteppingClock

from assay.serve.live.loops import Ticker
from assay.serve.settings import ServerSettings
from assay.serve.state import ServerState

LEASE_S = 60.0


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.live)])
def server(request, tmp_path):
    """The state of a server, its ticker and its clock; nothing happens by itself."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgresql").migrated()
    clock = SteppingClock()
    state = ServerState(ServerSettings(folder=tmp_path, database_url=url, lease_s=LEASE_S), clock)
    ticker = Ticker(state)
    ticker.tick()
    yield state, ticker, clock
    state.close()


def leased(state, clock):
    """A job that an agent holds."""
    submit(state.kept.store, clock, batches=(1,))
    agent = enroll(state.kept.control).id
    return agent, state.kept.control.take(agent)


def tick_for(ticker, clock, seconds):
    for _ in range(int(seconds)):
        clock.pass_s(1)
        ticker.tick()


def agent_state(state, agent):
    return state.kept.control.agent(agent).state


@pytest.mark.parametrize("step", [STEP_S, -STEP_S])
def test_a_clock_that_is_set_and_set_back_loses_nothing(server, step):
    state, ticker, clock = server
    agent, lease = leased(state, clock)
    clock.step_s(step)
    tick_for(ticker, clock, 12)
    assert agent_state(state, agent) == "busy"  # not silent: it was heard of 12 s ago
    clock.step_s(-step)
    tick_for(ticker, clock, 12)
    assert agent_state(state, agent) == "busy"
    assert beat(state.kept.control, agent, (lease.job.id, lease.fence)).lost == ()
    assert deliver(state.kept.control, lease) == "accepted"


def test_a_server_that_stood_still_longer_than_a_lease_ends_none_when_it_wakes(server):
    state, ticker, clock = server
    agent, lease = leased(state, clock)
    tick_for(ticker, clock, 3)
    clock.pass_s(10 * LEASE_S)  # SIGSTOP: time goes on, and nothing else
    ticker.tick()
    assert agent_state(state, agent) == "busy"
    assert beat(state.kept.control, agent, (lease.job.id, lease.fence)).lost == ()
    assert deliver(state.kept.control, lease) == "accepted"


def test_a_machine_that_slept_longer_than_a_lease_ends_none_when_it_wakes(server):
    state, ticker, clock = server
    agent, lease = leased(state, clock)
    clock.step_s(10 * LEASE_S)  # asleep: the calendar goes on, and the monotonic clock does not
    ticker.tick()
    assert beat(state.kept.control, agent, (lease.job.id, lease.fence)).lost == ()


def test_an_agent_that_died_while_the_server_stood_still_loses_its_job_one_lease_later(server):
    state, ticker, clock = server
    agent, lease = leased(state, clock)
    clock.pass_s(10 * LEASE_S)
    tick_for(ticker, clock, LEASE_S + 2)
    assert beat(state.kept.control, agent, (lease.job.id, lease.fence)).lost != ()
