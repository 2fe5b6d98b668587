"""Rows of benches/results/warmup.md with few rounds: the loop, its rules and the check on runs of known level."""

import numpy as np
import pytest
from benches.warmup import CASES, NOISES, called_other_than_flat, outcome

VISIBLE = [case for case in CASES if case.visible]


@pytest.mark.parametrize("noise", ["normal 2 %", "lognormal 10 %"])
@pytest.mark.parametrize("case", VISIBLE, ids=lambda case: case.name)
def test_a_run_reports_its_last_level_or_says_that_it_has_none(case, noise) -> None:
    found = outcome(case, noise, 3, seed=1)
    assert found.silent == 0
    assert found.within == (0 if case.final is None else 1)
    assert found.flat == (case.name == "flat")


def test_a_flat_run_is_over_as_soon_as_it_may() -> None:
    # 30 to 90 calls of a millisecond show that the times are level, and half a second is measured.
    assert outcome(VISIBLE[0], "normal 2 %", 3, seed=1).seconds < 0.7


@pytest.mark.parametrize("noise", NOISES)
def test_level_runs_are_called_flat(noise) -> None:
    assert np.mean([called_other_than_flat(noise, samples, 100, seed=1) for samples in (60, 600)]) <= 0.05
