"""Scores summed up: the statistics of a result, and the mean with its doubt."""

import numpy as np
import pytest

from assay.analyse.intervals import between_runs
from assay.analyse.summary import qualities, summarise


def test_statistics_are_those_of_a_result_and_the_mean_has_an_interval_between_runs():
    by_run = {
        0: np.array([1.0, 0.0, np.nan, 1.0]),
        1: np.array([0.0, 0.0, 1.0, 1.0]),
        2: np.array([1.0, 1.0, 1.0, 1.0]),
    }
    found = qualities({run: {"rouge_l": values} for run, values in by_run.items()})["rouge_l"]
    finite = {run: values[np.isfinite(values)] for run, values in by_run.items()}
    assert found.statistics == summarise("rouge_l", "", "higher", finite)
    assert found.run_means == {0: pytest.approx(2 / 3), 1: 0.5, 2: 1.0}
    assert found.interval == between_runs([2 / 3, 0.5, 1.0])


def test_one_run_has_no_interval_and_a_run_without_values_no_mean():
    assert qualities({0: {"rouge_l": np.array([0.5])}})["rouge_l"].interval is None
    found = qualities({0: {"x": np.array([0.5])}, 1: {"x": np.array([np.nan])}, 2: {"y": np.array([1.0])}})
    assert found["x"].run_means == {0: 0.5}
    assert set(found) == {"x", "y"}
