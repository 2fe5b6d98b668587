from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.place.leasing import LeasePolicy, after_loss, backoff_s, delivery, needs_key
from assay.plan.job import Job
from assay.spec.benchmark import Definition

POLICY = LeasePolicy()


@given(st.integers(1, 60), st.floats(0, 1))
def test_waits_grow_and_stay_bounded(lost, chance):
    wait = backoff_s(POLICY, lost, chance)
    assert POLICY.backoff_s <= wait <= POLICY.longest_backoff_s
    assert backoff_s(POLICY, lost + 1, chance) >= wait
    assert wait <= backoff_s(POLICY, lost, 1.0)


def test_a_job_is_set_aside_after_its_last_try():
    assert [after_loss(POLICY, lost) for lost in range(1, POLICY.tries + 1)] == ["expire"] * (POLICY.tries - 1) + [
        "poison"
    ]


@pytest.mark.parametrize(
    ("state", "current", "fence", "attempt", "taken"),
    [
        ("running", 2, 2, "leased", "accepted"),
        ("running", 2, 1, "expired", "late"),
        ("pending", 1, 1, "expired", "late"),
        ("cancelled", 1, 1, "cancelled", "late"),
        ("pending", 1, 1, "released", "late"),
        ("pending", 1, 1, "crashed", "late"),
        ("done", 1, 1, "delivered", "repeated"),
        ("done", 2, 1, "expired", "late"),
        ("poisoned", 3, 3, "expired", "late"),
        ("running", 2, 3, None, "unknown"),
        ("running", 2, 2, None, "unknown"),
    ],
)
def test_how_a_result_is_taken(state, current, fence, attempt, taken):
    assert delivery(state, current, fence, attempt) == taken


def job(**sections):
    return Job("b", "d", 0, Definition.model_validate_json(json.dumps({"target": {"model": "m"}, **sections})))


def test_jobs_that_need_the_same_share_a_key():
    assert needs_key(job()) == needs_key(job(workload={"batch": 8})) == needs_key(job(target={"model": "other"}))
    assert needs_key(job()) != needs_key(job(needs={"gpus": 1}))
    assert needs_key(job()) != needs_key(job(target={"model": "m", "device": "cuda"}))
    assert needs_key(job()) != needs_key(job(target={"command": "x"}))
    assert needs_key(job(target={"endpoint": "http://x", "api": "y"})) != needs_key(job(target={"command": "x"}))
