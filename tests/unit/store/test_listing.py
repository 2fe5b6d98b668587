"""Lists: every item once, in order, however the pages are cut, and found by what a person would type."""

from __future__ import annotations

import pytest
from tests.unit.store.setups import deliver, enroll, submit

from assay.errors import UsageError
from assay.store.listing import JobFilter, Listing, from_cursor, to_cursor
from assay.store.records import FleetSettings


@pytest.fixture
def listing(fleet):
    return Listing(fleet.engine)


def everything(ask, limit):
    items, cursor, pages = [], None, 0
    while True:
        page = ask(cursor=cursor, limit=limit)
        assert len(page.items) <= limit
        items += page.items
        cursor, pages = page.next, pages + 1
        if cursor is None:
            return items, pages


def test_pages_of_campaigns_hold_each_once_newest_first(fleet, listing, clock):
    made = []
    for number in range(7):
        made.append(submit(fleet, clock, name=f"b{number}", batches=(1,)).jobs[0].campaign)
        clock.pass_s(number % 2)  # some at the same moment
    found, pages = everything(listing.campaigns, 3)
    assert pages == 3
    assert sorted(one.id for one in found) == sorted(made)
    assert [one.created_at for one in found] == sorted((one.created_at for one in found), reverse=True)


def test_a_page_that_fits_exactly_is_the_last(fleet, listing, clock):
    for _ in range(3):
        submit(fleet, clock, batches=(1,))
    assert listing.campaigns(limit=3).next is None
    assert listing.campaigns(limit=2).next is not None


def test_new_ones_do_not_disturb_who_is_reading(fleet, listing, clock):
    for _ in range(4):
        submit(fleet, clock, batches=(1,))
        clock.pass_s(1)
    first = listing.campaigns(limit=2)
    submit(fleet, clock, batches=(1,))
    rest = listing.campaigns(limit=2, cursor=first.next)
    assert len({one.id for one in (*first.items, *rest.items)}) == 4
    assert rest.next is None


def test_campaigns_are_found_by_state_benchmark_and_text(fleet, control, listing, clock):
    settings = FleetSettings(submitted_by="anna", priority=3, origin="sark", version=2)
    one = submit(fleet, clock, name="100% cpu", batches=(1,), settings=settings, labels={"team": "vision"}).jobs[0]
    submit(fleet, clock, name="100x cpu", batches=(1,))
    control.cancel_campaign(one.campaign)

    def names(**how):
        return sorted(found.benchmark for found in listing.campaigns(**how).items)

    assert names(state="cancelled") == ["100% cpu"]
    assert names(benchmark="100x cpu") == ["100x cpu"]
    assert names(text="100%") == ["100% cpu"]  # the sign means itself
    assert names(text="100_") == []
    assert names(text="CPU") == ["100% cpu", "100x cpu"]
    assert names(text="vision") == names(text="anna") == ["100% cpu"]
    assert names(text=one.campaign) == ["100% cpu"]
    found = listing.campaign(one.campaign)
    assert (found.submitted_by, found.priority, found.origin, found.version) == ("anna", 3, "sark", 2)
    assert (found.jobs, found.jobs_ended, found.counts, found.engine) == (1, 1, {"cancelled": 1}, "fleet")
    with pytest.raises(UsageError):
        listing.campaign("nothing")


def test_jobs_of_a_campaign_come_in_the_order_of_its_matrix(fleet, listing, clock):
    campaign = submit(fleet, clock, batches=range(1, 13)).jobs[0].campaign
    found, pages = everything(lambda **how: listing.jobs(JobFilter(campaign=campaign), **how), 5)
    assert pages == 3
    assert [one.label for one in found] == [f"batch {number}" for number in range(1, 13)]


def test_jobs_of_all_campaigns_come_newest_first_and_once(fleet, listing, clock):
    for _ in range(4):
        submit(fleet, clock, batches=range(1, 4))
        clock.pass_s(1)
    found, _ = everything(listing.jobs, 5)
    assert len({one.id for one in found}) == 12
    assert [one.submitted_at for one in found] == sorted((one.submitted_at for one in found), reverse=True)


def test_jobs_are_found_by_state_agent_benchmark_verdict_and_text(fleet, control, listing, clock):
    submit(fleet, clock, batches=(1, 12), name="first")
    submit(fleet, clock, batches=(12,), name="second")
    agent = enroll(control, name="gpu box")
    lease = control.take(agent.id)
    deliver(control, lease, verdict="suspect")

    def ids(**how):
        return {one.id for one in listing.jobs(JobFilter(**how)).items}

    assert ids(state="done") == ids(verdict="suspect") == {lease.job.id}
    assert ids(agent="gpu box") == ids(agent=agent.id) == {lease.job.id}
    assert ids(agent="nobody") == ids(text="batch_1") == set()
    assert len(ids(benchmark="first")) == len(ids(text="Batch 12")) == 2
    assert len(ids(text="second")) == 1
    (one,) = listing.jobs(JobFilter(state="done")).items
    assert (one.agent, one.agent_name, one.fence, one.benchmark) == (agent.id, "gpu box", 1, lease.job.benchmark)
    control.remove_agent(agent.id)
    (one,) = listing.jobs(JobFilter(state="done")).items
    assert (one.agent, one.agent_name) == (agent.id, None)


def test_results_come_with_their_documents(fleet, control, listing, clock):
    submit(fleet, clock, batches=(1, 2))
    deliver(control, control.take(enroll(control).id), result='{"a": 1}')
    (one,) = listing.results().items
    assert (one.result, one.job.state) == ('{"a": 1}', "done")


def test_one_job_with_its_document(fleet, listing, clock):
    job = submit(fleet, clock, batches=(1,)).jobs[0]
    found = listing.job(job.id)
    assert (found.job, found.result, found.summary.state) == (job, None, "pending")
    with pytest.raises(UsageError) as caught:
        listing.job("nothing")
    assert caught.value.problem.code == "unknown-job"


def test_what_there_is_in_numbers(fleet, control, listing, clock):
    submit(fleet, clock, batches=(1, 2))
    control.take(enroll(control).id)
    assert listing.counts() == {
        "jobs": {"pending": 1, "running": 1},
        "agents": {"busy": 1},
        "campaigns": {"running": 1},
    }


@pytest.mark.parametrize(
    "cursor",
    ["x", "!!", "é", "\0", to_cursor(()), to_cursor((1,)), to_cursor((True, "a")), to_cursor(("a", None)), "W10"],
)
def test_a_cursor_that_is_none_is_refused(listing, cursor):
    for ask in (listing.campaigns, listing.jobs, listing.results):
        with pytest.raises(UsageError) as caught:
            ask(cursor=cursor)
        assert caught.value.problem.code == "cursor"


def test_cursors_carry_what_they_were_given():
    assert from_cursor(to_cursor((1.5, "ü")), float, str) == (1.5, "ü")
    assert "=" not in to_cursor(("a",))
