"""Sizes of dynamic dimensions: pure decisions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import UsageError
from assay.run.tensors.dims import FixedShape, batch_keys, resolve_dims, show_shape


def shapes(inputs, batch=1, named=None, own=None):
    return dict(resolve_dims(inputs, batch, named or {}, own).shapes)


@pytest.mark.parametrize(
    ("symbol", "size"),
    [
        ("sequence_length", 128), ("seq_len", 128), ("num_tokens", 128), ("past_sequence_length", 0), ("height", 224),
        ("W", 224), ("imageWidth", 224), ("channels", 3), ("num_boxes", 1), ("s77", 1),
    ],
)  # fmt: skip
def test_defaults_by_name(symbol, size):
    found = resolve_dims({"x": ("batch", symbol)}, 2, {})
    assert found.shapes["x"] == (2, size)
    assert "default" in found.sizes[symbol].origin


@pytest.mark.parametrize("symbol", ["batch", "batch_size", "N", "Batch", "dynamic_batch", "B", None, "s0", "unk__12"])
def test_batch_is_the_first_dynamic_dimension(symbol):
    assert shapes({"x": (symbol, 3)}, 5) == {"x": (5, 3)}


def test_batch_may_be_elsewhere_when_it_says_so():
    assert shapes({"x": ("seq", "batch", 8)}, 4) == {"x": (128, 4, 8)}


def test_explicit_batch_symbol_leaves_other_first_symbols_alone():
    assert shapes({"x": ("batch", 3), "boxes": ("num_boxes", 4)}, 6) == {"x": (6, 3), "boxes": (1, 4)}


def test_first_dimension_with_a_meaning_is_no_batch():
    assert batch_keys({"x": ("sequence", 3)}, {}) == set()
    with pytest.raises(UsageError, match="no input of the model has a batch dimension"):
        shapes({"x": ("sequence", 3)}, 4)


def test_named_first_dimension_is_no_batch():
    assert shapes({"x": ("rows", 3)}, 1, {"rows": 9}) == {"x": (9, 3)}


def test_one_symbol_one_size_across_inputs():
    found = shapes({"a": ("batch", "foo"), "b": ("foo", 2), "c": ("foo",)}, 3, {"foo": 11})
    assert found == {"a": (3, 11), "b": (11, 2), "c": (11,)}


def test_sums_of_symbols_are_computed():
    inputs = {
        "ids": ("batch", "sequence_length"),
        "mask": ("batch", "past_sequence_length + sequence_length"),
        "past": ("batch", 4, "past_sequence_length", 8),
    }
    found = resolve_dims(inputs, 1, {"past_sequence_length": 10, "sequence_length": 2})
    assert found.shapes == {"ids": (1, 2), "mask": (1, 12), "past": (1, 4, 10, 8)}
    assert found.sizes["past_sequence_length + sequence_length"].origin.startswith("computed")


def test_unnamed_dimensions_are_named_by_input_and_axis():
    assert shapes({"x": (None, None)}, 2, {"x.1": 5}) == {"x": (2, 5)}
    assert shapes({"img": (None, 3, None, None)}, 2) == {"img": (2, 3, 224, 224)}
    assert shapes({"img": (None, None, None, 3)}, 2) == {"img": (2, 224, 224, 3)}


def test_fixed_batch_and_another_workload_batch():
    with pytest.raises(UsageError, match="fixed at 1") as caught:
        shapes({"x": (1, 3, 224, 224)}, 8)
    assert "set workload.batch: 1" in caught.value.problem.try_
    with pytest.raises(UsageError, match="fixed at 8"):
        shapes({"x": (8, 3)}, 1)
    assert shapes({"x": (8, 3)}, 8) == {"x": (8, 3)}


def test_first_dimension_that_is_no_batch_can_be_declared():
    own = {"x": FixedShape((8, 3), "workload.inputs.x.shape", not_batched=True)}
    assert shapes({"x": (8, 3)}, 1, own=own) == {"x": (8, 3)}


def test_models_without_a_batch_notion_run_once_per_call():
    assert shapes({"a": (2, 3), "b": (5, 3)}) == {"a": (2, 3), "b": (5, 3)}
    assert shapes({"a": (4,), "b": ()}) == {"a": (4,), "b": ()}
    assert shapes({}) == {}
    with pytest.raises(UsageError, match="no input of the model has a batch"):
        shapes({}, 4)


def test_unknown_dimension_names_the_nearest():
    with pytest.raises(UsageError) as caught:
        shapes({"x": ("batch", "sequence")}, 1, {"sequnce": 5})
    assert "did you mean 'sequence'?" in caught.value.problem.try_
    assert "batch, sequence" in caught.value.problem.try_


def test_batch_by_two_names_must_agree():
    with pytest.raises(UsageError, match=r"4 by workload\.dims\.batch but 1 by workload\.batch"):
        shapes({"x": ("batch", 2)}, 1, {"batch": 4})
    assert shapes({"x": ("batch", 2)}, 4, {"batch": 4}) == {"x": (4, 2)}


def test_own_data_settles_dimensions_for_all_inputs():
    own = {"ids": FixedShape((1, 77), "workload.inputs.ids.file")}
    found = resolve_dims({"ids": ("batch", "seq"), "mask": ("batch", "seq")}, 1, {}, own)
    assert found.shapes["mask"] == (1, 77)
    assert found.sizes["seq"].origin == "workload.inputs.ids.file"


@pytest.mark.parametrize(
    ("shape", "batch", "named", "words"),
    [
        ((2, 77), 1, {}, "workload.batch"),
        ((1, 77), 1, {"seq": 5}, "workload.dims.seq"),
        ((1, 77, 1), 1, {}, "batch, seq"),
        ((-1, 77), 1, {}, "-1"),
    ],
)
def test_own_data_that_contradicts(shape, batch, named, words):
    with pytest.raises(UsageError) as caught:
        shapes({"ids": ("batch", "seq")}, batch, named, {"ids": FixedShape(shape, "workload.inputs.ids.file")})
    assert words in caught.value.problem.message


def test_unknown_rank_needs_a_shape():
    with pytest.raises(UsageError, match="not even its rank"):
        shapes({"x": None})
    assert shapes({"x": None}, own={"x": FixedShape((2, 2), "here")}) == {"x": (2, 2)}


def test_shapes_are_shown_like_people_write_them():
    assert show_shape(("batch", 3, None)) == "[batch, 3, ?]"


DIMS = st.one_of(st.integers(0, 5), st.sampled_from(["batch", "seq", "foo", "a + b", "past", "x-y", "1bad"]), st.none())


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from("abcd"), st.lists(DIMS, max_size=4).map(tuple)), st.integers(1, 9))
def test_every_signature_gets_consistent_sizes_or_a_plain_error(inputs, batch):
    try:
        found = resolve_dims(inputs, batch, {})
    except UsageError:
        return  # hypothesis fails on any other exception
    for name, shape in inputs.items():
        for axis, dim in enumerate(shape):
            size = found.shapes[name][axis]
            if isinstance(dim, int):
                assert size == dim
            else:
                assert size == found.sizes[dim if isinstance(dim, str) else f"{name}.{axis}"].value >= 0
