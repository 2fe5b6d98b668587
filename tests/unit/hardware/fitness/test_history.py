"""The history of the control workload: bounded, shared by processes, and robust against whatever stands in its file."""

from __future__ import annotations

import json
import multiprocessing
import statistics

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.hardware.fitness.control import FEWEST, KEPT, NAME, ControlHistory, usual

RESULT = {"integer_ms": 100.0, "memory_ms": 50.0, "version": 1}


def history(folder, **key):
    return ControlHistory(folder, **{"machine": "m", "version": 1, "python": "CPython 3.11.9", **key})


def filled(folder, count, value=100.0):
    one = history(folder)
    for number in range(count):
        one.add({"integer_ms": value * (1 + 0.01 * (number % 3 - 1)), "memory_ms": 50.0}, "now")
    return one


def test_few_entries_are_no_history(tmp_path):
    one = filled(tmp_path, FEWEST - 1)
    assert one.against(RESULT) == {"entries": FEWEST - 1}
    one.add(RESULT, "now")
    assert set(one.against(RESULT)) == {"entries", "integer", "memory"}


def test_drift_band_and_median(tmp_path):
    told = filled(tmp_path, 30).against({"integer_ms": 110.0, "memory_ms": 45.0})
    assert told["integer"]["median_ms"] == 100.0
    assert told["integer"]["drift_pct"] == pytest.approx(10.0)
    assert told["memory"] == {"median_ms": 50.0, "band_pct": 0.0, "drift_pct": -10.0}
    assert 3.5 < told["integer"]["band_pct"] < 10


@pytest.mark.parametrize("other", [{"machine": "n"}, {"version": 2}, {"python": "CPython 3.12.1"}])
def test_entries_of_another_machine_python_or_version_do_not_count(tmp_path, other):
    filled(tmp_path, 10)
    assert history(tmp_path, **other).entries() == []


def test_only_the_last_entries_count(tmp_path):
    one = filled(tmp_path, KEPT + 50)
    one.add({"integer_ms": 7.0}, "now")
    assert len(one.entries()) == KEPT
    assert one.entries()[-1] == {"integer": 7.0}


def test_figures_of_a_busy_machine_count_only_where_it_is_never_quiet(tmp_path):
    one = history(tmp_path)
    for _ in range(9):
        one.add({"integer_ms": 200.0, "others_pct": 60.0}, "now")
    assert one.against({"integer_ms": 200.0})["integer"]["drift_pct"] == 0.0
    for _ in range(FEWEST):
        one.add({"integer_ms": 100.0, "others_pct": 2.0}, "now")
    told = one.against({"integer_ms": 200.0})
    assert (told["entries"], told["integer"]["drift_pct"]) == (FEWEST, 100.0)


def test_the_file_stays_small(tmp_path):
    one = filled(tmp_path, 10)
    path = tmp_path / NAME
    path.write_bytes(b"rubbish\n" * 200_000 + path.read_bytes())
    one.add(RESULT, "now")
    one.add(RESULT, "now")
    assert path.stat().st_size < 600 * 1024
    assert len(one.entries()) == 12


def test_a_half_written_line_costs_one_entry(tmp_path):
    one = filled(tmp_path, 6)
    with (tmp_path / NAME).open("a") as file:
        file.write('{"machine": "m", "python"')
    one.add(RESULT, "now")  # joins the broken line
    one.add(RESULT, "now")
    assert len(one.entries()) == 7


def test_a_folder_that_cannot_be_written_is_a_reason_not_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    one = history(tmp_path / "file" / "below")
    assert "cannot be written" in one.add(RESULT, "now")
    assert one.entries() == []


def _add_many(folder):
    one = history(folder)
    for _ in range(100):
        one.add(RESULT, "now")


def test_processes_that_write_at_once_never_mix_their_lines(tmp_path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_add_many, args=(tmp_path,)) for _ in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    lines = (tmp_path / NAME).read_text().splitlines()
    assert len(lines) == 400
    assert all(json.loads(line)["integer_ms"] == 100.0 for line in lines)


KEY = {"machine": "m", "python": "CPython 3.11.9", "control": 1}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ENTRY = st.fixed_dictionaries({"integer_ms": ANYTHING, "memory_ms": ANYTHING}).map(lambda one: json.dumps(KEY | one))
LINES = st.lists(st.binary(max_size=30) | ENTRY.map(str.encode) | ANYTHING.map(lambda one: json.dumps(one).encode()))


@given(LINES)
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_the_file_no_entry_is_anything_but_a_time(tmp_path, lines):
    (tmp_path / NAME).write_bytes(b"\n".join(lines))
    one = history(tmp_path)
    assert all(0 < value < 1e9 for entry in one.entries() for value in entry.values())
    told = one.against(RESULT)
    assert told["entries"] == len(one.entries())


@given(st.lists(st.floats(0.1, 1e6), min_size=FEWEST, max_size=50), st.floats(0.1, 1e6))
@settings(deadline=None)
def test_drift_has_the_right_sign(values, now):
    known = usual(values)
    middle = statistics.median(values)
    assert known.band >= 0
    assert known.entries == len(values)
    assert (known.drift(now) > 0) == (now / middle > 1)
    assert known.drift(middle) == 0


@given(st.lists(st.floats(1, 100), min_size=FEWEST, max_size=30), st.floats(0.5, 2))
@settings(deadline=None)
def test_the_band_is_a_share_and_does_not_depend_on_the_unit(values, scale):
    assert usual([value * scale for value in values]).band == pytest.approx(usual(values).band, rel=1e-6, abs=1e-9)


def test_fewer_entries_have_a_wider_band():
    few, many = usual([99.0, 100.0, 101.0, 99.0, 101.0]), usual([99.0, 100.0, 101.0, 99.0, 101.0] * 20)
    assert few.band > 1.5 * many.band
    assert usual([1.0] * (FEWEST - 1)) is None
