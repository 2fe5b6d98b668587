"""The rows of the bench with few searches: queues whose capacity is known, in simulated time."""

import numpy as np
import pytest
from benches.capacity import QUEUES, ends, search


def test_a_queue_is_first_come_first_served() -> None:
    due, service = np.array([0.0, 1.0, 1.5, 9.0]), np.array([2.0, 2.0, 2.0, 2.0])
    assert ends(due, service, 1).tolist() == [2.0, 4.0, 6.0, 11.0]
    assert ends(due, service, 2).tolist() == [2.0, 3.0, 4.0, 11.0]
    assert ends(due, np.array([2.0, 3.0, 1.0, 2.0]), 2).tolist() == [2.0, 4.0, 3.0, 11.0]


@pytest.mark.simulated
def test_searches_come_near_the_capacity_of_each_queue() -> None:
    off = []
    for number, queue in enumerate(QUEUES):
        for turn in range(4):
            result, seconds = search(queue, np.random.default_rng([7, turn, number]))
            assert result.capacity is not None, queue.name
            assert seconds <= 1.05 * 360
            off.append(result.capacity / queue.truth - 1)
    assert np.mean(np.abs(off) <= 0.05) >= 0.65
    assert np.mean(np.abs(off) <= 0.1) >= 0.85
    assert np.mean(np.array(off) > 0.1) <= 0.05
