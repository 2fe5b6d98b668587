import time

import numpy as np
import pytest

from assay.analyse.steady_state import enough, samples_for_objective, steady


def _durations(n: int, share: float, seed: int = 0) -> np.ndarray:
    return (1e6 * np.exp(share * np.random.default_rng(seed).standard_normal(n))).astype(np.int64)


def _decay(n: int, excess: float, tau: float, share: float) -> np.ndarray:
    return (_durations(n, share) * (1 + excess * np.exp(-np.arange(n) / tau))).astype(np.int64)


def test_fewer_samples_than_back_p90_are_never_enough() -> None:
    assert not enough(np.full(63, 1000, dtype=np.int64), 0.02)
    assert enough(np.full(64, 1000, dtype=np.int64), 0.02)


def test_noise_needs_more_samples() -> None:
    assert enough(_durations(64, 0.01), 0.02)
    assert not enough(_durations(64, 0.3), 0.02)
    assert enough(_durations(20_000, 0.3), 0.02)


def test_a_narrower_target_needs_more_samples() -> None:
    durations = _durations(1000, 0.1)
    assert enough(durations, 0.02)
    assert not enough(durations, 0.001)


def test_samples_that_remember_are_worth_less() -> None:
    durations = _durations(1000, 0.1)
    assert enough(durations, 0.012)
    assert not enough(np.sort(durations), 0.012)


def test_the_stop_rule_is_cheap() -> None:
    durations = _durations(1_000_000, 0.1)
    began = time.process_time()
    assert enough(durations, 0.02)
    assert time.process_time() - began < 0.5  # 0.02 s on a quiet machine


def test_few_calls_are_never_steady() -> None:
    assert not steady(np.full(29, 1000, dtype=np.int64))
    assert steady(np.full(30, 1000, dtype=np.int64))


def test_level_times_are_steady_whatever_their_first_calls() -> None:
    durations = _durations(60, 0.005)
    durations[:5] *= 20
    assert steady(durations)


def test_single_slow_calls_do_not_keep_the_warm_up_going() -> None:
    durations = _durations(90, 0.005)
    durations[[40, 65, 88]] *= 50
    assert steady(durations)


def test_noise_too_large_for_so_few_calls_is_not_called_steady() -> None:
    assert not steady(_durations(30, 0.1))
    assert steady(_durations(2000, 0.1))


@pytest.mark.parametrize(("excess", "tau"), [(10, 10), (2, 30), (0.3, 30), (0.3, 100)])
def test_a_decay_that_continues_is_not_steady_and_one_that_is_over_is(excess: float, tau: float) -> None:
    assert not steady(_decay(round(2 * tau) if 2 * tau >= 30 else 30, excess, tau, 0.005))
    assert steady(_decay(round(20 * tau), excess, tau, 0.005))


def test_times_that_grow_are_not_steady() -> None:
    assert not steady((_durations(300, 0.01) * np.linspace(1, 1.3, 300)).astype(np.int64))


def test_a_small_trend_that_does_not_slow_down_is_not_steady() -> None:
    # The last third differs by only 1 %, but as much as the third before: it is still going on.
    assert not steady((_durations(300, 0.002) * np.linspace(1.03, 1, 300)).astype(np.int64))


@pytest.mark.parametrize(
    ("objective", "runs", "samples"),
    [((), 5, 0), (("latency_ms.median",), 5, 0), (("latency_ms.p99",), 1, 662), (("latency_ms.p99", "x.p90"), 5, 133)],
)
def test_an_objective_requests_the_samples_that_back_it(objective: tuple[str, ...], runs: int, samples: int) -> None:
    assert samples_for_objective(objective, runs) == samples
