import pytest

from assay.analyse.text import all_of, count, listed, number, percent, quantity


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0.0 %"), (0.0004, "0.04 %"), (0.042, "4.2 %"), (0.5, "50 %"), (float("inf"), "an unknown share")],
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


def test_signed_percent() -> None:
    assert percent(0.042, signed=True) == "+4.2 %"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12.3456, "12.35"),
        (123456.7, "123,457"),
        (0.012346, "0.01235"),
        (20.0, "20"),
        (1e-9, "1e-09"),
        (-2.5, "-2.5"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_count_quantity_and_list() -> None:
    assert (count(1, "run"), count(12_000, "sample")) == ("1 run", "12,000 samples")
    assert (all_of(1, "run"), all_of(2, "run"), all_of(3, "run")) == ("the run", "both runs", "all 3 runs")
    assert (quantity(1.5, "ms"), quantity(1.5, "")) == ("1.5 ms", "1.5")
    assert (listed(["a"]), listed(list("abcdefg"))) == ("a", "a, b, c, d, e and 2 more")
