"""Every promise of the calibration table, held against simulations with a known truth."""

import importlib.util
import sys
from pathlib import Path

import pytest

_PATH = Path(__file__).parents[3] / "benches" / "calibration.py"
_SPEC = importlib.util.spec_from_file_location("assay_calibration", _PATH)
calibration = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = calibration  # dataclasses look their module up
_SPEC.loader.exec_module(calibration)


@pytest.mark.simulated
@pytest.mark.parametrize("row", calibration.rows(), ids=lambda row: f"{row.what}, {row.situation}")
def test_promise_holds(row) -> None:
    # Two thousand rounds measure a share of 95 % to half a percent.
    assert row.least <= row.measure(2000) <= row.most
