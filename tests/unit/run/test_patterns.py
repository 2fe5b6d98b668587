import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.run.targets.output import find_values, number
from assay.spec.target import MetricPattern


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-05", 1e-5), ("-3", -3), ("+.5", 0.5), ("1,234.5", 1234.5), ("1_000", 1000), ("inf", math.inf), ("6.", 6)],
)
def test_numbers_as_programs_print_them(text, value):
    assert number(text) == value


def test_nan_is_a_value_and_words_are_none():
    assert math.isnan(number("nan"))
    assert number("fast") is None
    assert number("1,23") is None


@given(st.floats(allow_nan=False))
def test_every_printed_float_is_read_back(value):
    found, bad = find_values(f"speed: {value!r} img/s\n", [MetricPattern(name="speed", pattern=r"speed: (\S+)")])
    assert [item.value for item in found] == [value]
    assert not bad


OUTPUT = """\
network: resnet50
batch 8
speed: 1.0e2 img/s
speed: nan img/s
batch 16
speed: -5 img/s
speed: quick img/s
network: vgg
speed: 7 img/s
"""


def test_context_above_a_value_is_attached():
    metric = MetricPattern(
        name="speed", pattern=r"speed: (\S+)", context={"net": r"network: (\w+)", "batch": r"batch (\d+)"}
    )
    found, bad = find_values(OUTPUT, [metric])
    assert [item.metric for item in found] == [
        "speed{batch=8,net=resnet50}",
        "speed{batch=8,net=resnet50}",
        "speed{batch=16,net=resnet50}",
        "speed{batch=16,net=vgg}",
    ]
    assert found[0].value == 100
    assert math.isnan(found[1].value)
    assert found[2].value == -5
    assert [(item.text, item.line) for item in bad] == [("quick", 7)]


def test_a_pattern_may_span_lines_and_name_its_group():
    metric = MetricPattern(name="speed", pattern=r"batch (\d+)\nspeed: (?P<value>\S+)")
    found, _ = find_values(OUTPUT, [metric])
    assert [item.value for item in found] == [100, -5]


def test_a_line_start_can_be_named():
    found, _ = find_values("x 1\n x 2\nx 3\n", [MetricPattern(name="x", pattern=r"^x (\d)$")])
    assert [item.value for item in found] == [1, 3]


def test_a_pattern_that_cuts_a_number_short_is_found_out():
    metric = MetricPattern(name="loss", pattern=r"loss=([-+]?\d*\.\d+|\d+)")
    found, bad = find_values("loss=1e-05\nloss=0.5\nloss=2.5e+3 x\nloss=3e4f\n", [metric])
    assert [item.value for item in found] == [0.5, 3]
    assert [(item.text, item.line) for item in bad] == [("1e-05", 1), ("2.5e+3", 3)]
    assert "only the beginning" in bad[0].why
