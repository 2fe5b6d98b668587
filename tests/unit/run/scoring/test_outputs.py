"""Answers written and read back: nothing is changed, and the same answers are the same bytes."""

import gzip
import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import MeasureError
from assay.run.scoring import Output, read_outputs, write_outputs

plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)
texts = st.text(st.characters())  # lone surrogates too: servers send them
facts = st.dictionaries(st.text(min_size=1).map(lambda name: f"x{name}"), plain, max_size=3)
outputs = st.builds(
    Output,
    item=st.text(),
    session=st.integers(0, 2**40),
    turn=st.integers(0, 50),
    text=texts,
    reference=st.none() | texts,
    data=facts,
    outcome=st.sampled_from(["ok", "timeout", "status"]),
    more=facts,
)


@given(st.lists(outputs, max_size=5))
def test_answers_come_back_as_they_were(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("outputs") / "outputs.jsonl.gz"
    assert write_outputs(path, rows) == len(rows)
    assert list(read_outputs(path)) == rows


def test_the_same_answers_are_the_same_bytes_and_plain_json(tmp_path):
    rows = [Output("a", 0, 0, "Grüße", more={"ttft_ms": np.float64(1.5), "tokens": np.int64(3), "late": math.nan})]
    for name in ("one", "other"):
        write_outputs(tmp_path / name, rows)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    (line,) = gzip.decompress((tmp_path / "one").read_bytes()).decode().splitlines()
    assert json.loads(line, parse_constant=pytest.fail) == {
        "item": "a",
        "session": 0,
        "turn": 0,
        "text": "Grüße",
        "reference": None,
        "data": {},
        "outcome": "ok",
        "ttft_ms": 1.5,
        "tokens": 3,
        "late": None,
    }
    assert "Grüße" in line


def test_a_line_of_others_needs_only_a_text(tmp_path):
    path = tmp_path / "own.gz"
    path.write_bytes(gzip.compress(b'{"text": "yes", "model": "m"}\n'))
    assert list(read_outputs(path)) == [Output("", 0, 0, "yes", more={"model": "m"})]


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip",
        gzip.compress(b"no json\n", mtime=0),
        gzip.compress(b"[1]\n", mtime=0),
        gzip.compress(b'{"item": "x"}\n', mtime=0),
        gzip.compress(b'{"text": 5}\n', mtime=0),
        gzip.compress(b'{"text": "x"}\n' * 5000, mtime=0)[:-30],
    ],
)
def test_a_file_that_is_none_is_reported_with_its_line(tmp_path, content):
    path = tmp_path / "x.gz"
    path.write_bytes(content)
    with pytest.raises(MeasureError) as caught:
        list(read_outputs(path))
    assert caught.value.problem.code == "outputs"
    assert str(path) in caught.value.problem.at


def test_memory_stays_flat(tmp_path):
    path = tmp_path / "many.gz"
    tracemalloc.start()
    write_outputs(path, (Output("a", number, 0, f"{number} " * 200) for number in range(5_000)))
    assert sum(1 for _ in read_outputs(path)) == 5_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2e6
