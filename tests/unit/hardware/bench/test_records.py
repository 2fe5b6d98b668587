"""Whether a product is right: rounding passes, anything else does not."""

from __future__ import annotations

import numpy as np
import pytest

from assay.hardware.bench import records
from assay.hardware.bench.records import compared, reference_product, sampled_lines


def operands(n, dtype=np.float64, seed=0):
    draw = np.random.default_rng(seed)
    return (draw.standard_normal((2, n, n)) * n**-0.25).astype(dtype)


def checked(a, b, product, precision):
    rows, columns = sampled_lines(len(a), precision, 1)
    expected = reference_product(a[rows], b[:, columns], precision)
    return compared(product[np.ix_(rows, columns)], expected, precision)


@pytest.mark.parametrize(("precision", "dtype"), [("fp64", np.float64), ("fp32", np.float32), ("fp16", np.float16)])
@pytest.mark.parametrize("n", [17, 256, 1024])
def test_a_right_product_passes_far_from_the_limit(precision, dtype, n):
    a, b = operands(n, dtype)
    wide = np.float64 if precision == "fp64" else np.float32
    found = checked(a, b, (a.astype(wide) @ b.astype(wide)).astype(dtype), precision)
    assert found.wrong == ""
    assert found.error < found.tolerance / 3


def test_single_precision_cannot_pass_for_double_nor_tf32_for_single():
    a, b = operands(512)
    assert checked(a, b, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float64), "fp64").wrong

    a, b = operands(512, np.float32)
    # TF32 keeps 10 of 23 bits.
    short = [(one.view(np.uint32) + 0x1000 & 0xFFFFE000).view(np.float32) for one in (a, b)]
    through_tf32 = short[0] @ short[1]
    assert checked(a, b, through_tf32, "fp32").wrong
    assert checked(a, b, through_tf32, "tf32").wrong == ""


def test_single_precision_does_not_pass_for_tf32():
    a, b = operands(512, np.float32)
    assert "higher precision" in checked(a, b, a @ b, "tf32").wrong


@pytest.mark.parametrize("precision", records.TOLERANCE)
@pytest.mark.parametrize("spoil", ["zeros", "transposed", "one operand", "nan", "negated"])
def test_a_wrong_product_is_caught_in_every_precision(precision, spoil):
    n = 256
    if precision == "int8":
        a, b = np.random.default_rng(0).integers(-128, 128, (2, n, n)).astype(np.int8)
        right = a.astype(np.int64) @ b.astype(np.int64)
    else:
        a, b = operands(n)
        right = a @ b
    wrong = {
        "zeros": right * 0,
        "transposed": right.T,
        "one operand": a.astype(np.float64),
        "negated": -right,
        "nan": np.where(np.eye(n, dtype=bool), np.nan, np.nan),
    }[spoil]
    assert checked(a, b, wrong, precision).wrong.startswith("the result is wrong")


def test_integers_must_be_exact():
    a, b = np.random.default_rng(0).integers(-128, 128, (2, 512, 512)).astype(np.int8)
    right = a.astype(np.int64) @ b.astype(np.int64)
    assert checked(a, b, right, "int8").error == 0
    assert checked(a, b, right + 1, "int8").wrong


def test_other_lines_are_drawn_for_other_shapes():
    assert not np.array_equal(sampled_lines(1024, "fp32", 1)[0], sampled_lines(2048, "fp32", 1)[0][:16])
    assert len(sampled_lines(8, "fp32", 1)[0]) == 8
