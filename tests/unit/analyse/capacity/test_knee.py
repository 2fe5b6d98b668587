import numpy as np
import pytest

from assay.analyse.capacity import knee

RATES = [1, 2, 4, 8, 16, 32, 64]


def curve(bend: float, slope: float, noise: float, rng, runs: int = 3, rates=RATES):
    return [
        [50 * max(1.0, rate / bend) ** slope * np.exp(noise * rng.standard_normal()) for _ in range(runs)]
        for rate in rates
    ]


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.1])
def test_a_knee_is_found_where_it_is(noise) -> None:
    held = []
    for seed in range(100):
        found = knee(RATES, curve(20.0, 2.0, noise, np.random.default_rng(seed)))
        assert found is not None
        assert 14 < found.rate < 28
        assert found.after > found.before
        held.append(found.interval.low <= 20.0 <= found.interval.high)
    assert np.mean(held) >= 0.88


@pytest.mark.parametrize("trend", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("runs", [1, 3, 5])
def test_noise_on_a_straight_curve_has_no_knee(trend, runs) -> None:
    false = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        lines = [[50 * rate**trend * np.exp(0.1 * rng.standard_normal()) for _ in range(runs)] for rate in RATES]
        false += knee(RATES, lines) is not None
    assert false / 300 <= 0.05


def test_a_queue_has_a_knee_below_its_capacity() -> None:
    rates = [10, 30, 50, 70, 80, 90, 95]
    rng = np.random.default_rng(0)
    found = knee(rates, [[1000 / (100 - r) * np.exp(0.03 * rng.standard_normal()) for _ in range(3)] for r in rates])
    assert found is not None
    assert 50 < found.rate < 95


def test_few_rates_and_odd_values_have_no_knee() -> None:
    rng = np.random.default_rng(0)
    assert knee(RATES[:4], curve(4.0, 3.0, 0.01, rng, rates=RATES[:4])) is None
    assert knee([], []) is None
    assert knee(RATES, [[0.0]] * len(RATES)) is None
    assert knee(RATES, [[7.0]] * len(RATES)) is None
