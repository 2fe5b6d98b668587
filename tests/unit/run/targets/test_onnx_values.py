"""Values of inputs: seeded, sensible, or the user's own."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from assay.errors import UsageError
from assay.run.tensors import values
from assay.run.tensors.values import ELEMENT_TYPES

INT64, FLOAT, STRING = ELEMENT_TYPES["int64"], ELEMENT_TYPES["float"], ELEMENT_TYPES["string"]


@pytest.mark.parametrize("element", ELEMENT_TYPES.values(), ids=list(ELEMENT_TYPES))
def test_generated_values_have_the_type_and_are_not_all_alike(element):
    made = values.generate("x", element, (4, 50), 3).array
    assert made.shape == (4, 50)
    assert made.dtype == element.dtype
    assert len({str(item) for item in made.flat}) > 1
    again = values.generate("x", element, (4, 50), 3).array
    assert values.digest(made, element) == values.digest(again, element)
    if element.kind == "float":
        assert np.isfinite(made.astype(np.float32)).all()


@pytest.mark.parametrize("element", ELEMENT_TYPES.values(), ids=list(ELEMENT_TYPES))
def test_scalars_are_arrays_without_axes(element):
    made = values.generate("position", element, (), 3).array
    assert isinstance(made, np.ndarray)
    assert made.shape == ()
    if element.kind in ("int", "float"):
        assert isinstance(values.from_range("x", element, (), 0, (0, 1)).array, np.ndarray)


def test_integers_stay_inside_the_table():
    made = values.generate("ids", INT64, (1000,), 0, rows=7)
    assert set(made.array.tolist()) == set(range(7))
    assert "7 rows" in made.origin


def test_integers_of_a_narrow_type_stay_inside_it():
    made = values.generate("ids", ELEMENT_TYPES["int8"], (1000,), 0, rows=50_000)
    assert 0 <= made.array.min() <= made.array.max() <= 127


def test_customary_inputs_by_name():
    assert values.generate("attention_mask", INT64, (1, 3), 0).array.tolist() == [[1, 1, 1]]
    assert values.generate("token_type_ids", INT64, (1, 3), 0).array.tolist() == [[0, 0, 0]]
    assert values.generate("position_ids", INT64, (2, 3), 0).array.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert values.generate("x_mask", ELEMENT_TYPES["bool"], (2,), 0).array.tolist() == [True, True]


def test_each_input_has_its_own_stream():
    a = values.generate("a", FLOAT, (4,), 0).array
    b = values.generate("b", FLOAT, (4,), 0).array
    assert not np.array_equal(a, b)


def test_range_of_floats_and_integers():
    made = values.from_range("x", FLOAT, (1000,), 0, (2.0, 3.0)).array
    assert 2 <= made.min() < made.max() < 3
    whole = values.from_range("x", INT64, (1000,), 0, (-2, 3)).array
    assert set(whole.tolist()) == {-2, -1, 0, 1, 2}


@pytest.mark.parametrize(
    ("element", "bounds"),
    [(FLOAT, (3.0, 3.0)), (INT64, (0.2, 0.8)), (STRING, (0, 1)), (ELEMENT_TYPES["uint8"], (250, 400))],
)
def test_range_that_makes_no_sense(element, bounds):
    with pytest.raises(UsageError, match="range"):
        values.from_range("x", element, (1000,), 0, bounds)


@pytest.mark.parametrize(
    ("element", "value", "words"),
    [
        ("int64", 1.5, "cannot hold 1.5"),
        ("int8", 300, "cannot hold 300"),
        ("uint8", -1, "cannot hold -1"),
        ("int64", True, "cannot hold True"),
        ("bool", 3, "cannot hold 3"),
        ("float", "a", "cannot hold 'a'"),
        ("float", [[1.0], [1.0, 2.0]], "rows differ"),
    ],
)
def test_value_that_the_type_cannot_hold(element, value, words):
    with pytest.raises(UsageError) as caught:
        values.listed("x", ELEMENT_TYPES[element], value)
    assert words in caught.value.problem.message


def test_value_of_any_element():
    assert values.filled("x", STRING, (2,), "hello").array.tolist() == ["hello", "hello"]
    assert values.filled("x", FLOAT, (2,), 1).array.dtype == np.float32
    assert values.filled("x", ELEMENT_TYPES["bool"], (), True).array.tolist() is True


def test_files_of_another_type_or_entry(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(UsageError, match=r"int64 in the model, but .*x\.npy holds float64"):
        values.read_file("x", INT64, "x.npy", tmp_path)
    np.savez(tmp_path / "x.npz", xx=np.zeros(3))
    with pytest.raises(UsageError, match="did you mean 'xx'"):
        values.read_file("x", INT64, "x.npz", tmp_path)


@pytest.mark.parametrize(("name", "words"), [("none.npy", "does not exist"), ("x.csv", "must be one of")])
def test_files_that_are_not_there_or_unknown(name, words, tmp_path):
    with pytest.raises(UsageError, match=words):
        values.read_file("x", INT64, name, tmp_path)


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "evil.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(UsageError, match="cannot be read"):
        values.read_file("x", INT64, "evil.npy", tmp_path)


def test_broken_file(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"nonsense")
    with pytest.raises(UsageError, match="cannot be read"):
        values.read_file("x", INT64, "x.npy", tmp_path)


def test_types_that_numpy_saves_as_bytes_come_back(tmp_path):
    array = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", array)
    read = values.read_file("x", ELEMENT_TYPES["bfloat16"], "x.npy", tmp_path)
    assert np.array_equal(read, array)


def test_strings_from_a_file(tmp_path):
    np.save(tmp_path / "x.npy", np.array(["a", "bc"]))
    assert values.read_file("x", STRING, "x.npy", tmp_path).tolist() == ["a", "bc"]


def test_string_digest_reports_borders_apart():
    one, two = np.array(["ab", "c"], object), np.array(["a", "bc"], object)
    assert values.digest(one, STRING) != values.digest(two, STRING)


def test_unknown_input_names_the_nearest():
    with pytest.raises(UsageError) as caught:
        values.check_inputs({"inputs_ids": None}, {"input_ids": 1, "mask": 2})
    assert "did you mean 'input_ids'" in caught.value.problem.try_
