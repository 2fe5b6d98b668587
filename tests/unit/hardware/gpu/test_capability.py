"""Compute capabilities: published tables, nothing for others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.hardware.gpu.nvidia import Abilities, abilities, multiprocessors

EVERY = ("fp64", "fp32", "tf32", "fp16", "bf16", "int8", "fp8", "fp4")
KNOWN = {"3.0", "3.2", "3.5", "3.7", "5.0", "5.2", "5.3", "6.0", "6.1", "6.2", "7.0", "7.2", "7.5", "8.0", "8.6", "8.7",
         "8.9", "9.0", "10.0", "10.1", "10.3", "11.0", "12.0", "12.1"}  # fmt: skip


@pytest.mark.parametrize(
    ("capability", "architecture", "tensor_cores", "missing"),
    [
        ("3.5", "Kepler", 0, {"tf32", "fp16", "bf16", "int8", "fp8", "fp4"}),
        ("5.2", "Maxwell", 0, {"tf32", "fp16", "bf16", "int8", "fp8", "fp4"}),
        ("6.0", "Pascal", 0, {"tf32", "bf16", "int8", "fp8", "fp4"}),
        ("6.1", "Pascal", 0, {"tf32", "bf16", "fp8", "fp4"}),
        ("7.0", "Volta", 1, {"tf32", "bf16", "fp8", "fp4"}),
        ("7.2", "Volta", 1, {"tf32", "bf16", "fp8", "fp4"}),
        ("8.0", "Ampere", 3, {"fp8", "fp4"}),
        ("8.6", "Ampere", 3, {"fp8", "fp4"}),
        ("8.7", "Ampere", 3, {"fp8", "fp4"}),
        ("8.9", "Ada", 4, {"fp4"}),
        ("9.0", "Hopper", 4, {"fp4"}),
        ("10.0", "Blackwell", 5, set()),
        ("12.0", "Blackwell", 5, set()),
    ],
)
def test_a_known_capability(capability, architecture, tensor_cores, missing):
    can = abilities(capability)
    assert (can.architecture, can.tensor_cores, can.note) == (architecture, tensor_cores, "")
    assert can.precisions == tuple(name for name in EVERY if name not in missing)


def test_turing_does_not_report_whether_there_are_tensor_cores():
    can = abilities("7.5")
    assert can.architecture == "Turing"
    assert can.tensor_cores is None
    assert "2nd generation" in can.note
    assert "without any" in can.note


@given(st.integers(0, 120), st.integers(0, 20))
def test_nothing_is_guessed_for_another_one(major, minor):
    capability = f"{major}.{minor}"
    can = abilities(capability)
    if capability in KNOWN:
        assert can.architecture
    else:
        assert can == Abilities(note=can.note)
        assert capability in can.note
        assert multiprocessors(16896, capability) is None


def test_no_capability_is_no_riddle():
    assert abilities(None) == Abilities()


@pytest.mark.parametrize(
    ("cores", "capability", "count"),
    [
        (16896, "9.0", 132),  # H200, as PyTorch counts it there, too
        (5120, "7.0", 80),
        (2560, "7.5", 40),
        (6912, "8.0", 108),
        (10496, "8.6", 82),
        (7424, "8.9", 58),
        (18944, "10.0", 148),
        (16897, "9.0", None),
        (0, "9.0", None),
        (None, "9.0", None),
        (16896, None, None),
        (16896, "8.4", None),
    ],
)
def test_multiprocessors_of_cores(cores, capability, count):
    assert multiprocessors(cores, capability) == count
