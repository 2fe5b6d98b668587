"""How a campaign ends, by how its jobs did: one rule for every engine."""

from __future__ import annotations

import pytest

from assay.plan.job import campaign_state


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({"done": 3}, "done"),
        ({"done": 3, "failed": 0}, "done"),
        ({"failed": 3}, "failed"),
        ({"poisoned": 1}, "failed"),
        ({"cancelled": 3}, "cancelled"),
        ({"done": 1, "failed": 2}, "partial"),
        ({"done": 1, "poisoned": 1}, "partial"),
        ({"done": 1, "cancelled": 1}, "partial"),
        ({"failed": 1, "cancelled": 1}, "failed"),
        ({"done": 1, "pending": 1}, "partial"),
        ({}, "failed"),
    ],
)
def test_the_state_of_a_campaign_follows_from_those_of_its_jobs(counts: dict[str, int], state: str) -> None:
    assert campaign_state(counts) == state
