"""Files of points: every line is used, or named with the reason."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import UsageError
from assay.store.series_file import FilePoint, checked_point, read_series_file

HEAD = "series,time,value,better,commit,package.numpy,host\n"


def read(write, text, name="points.csv"):
    return read_series_file(write(name, text))


def test_a_csv_file(write):
    found = read(write, HEAD + "a,2026-01-02,1.5,lower,c1,2.1,h1\nb,2026-01-01T03:00:00Z,2e3,,,,\n")
    first, second = found.points
    assert first == FilePoint(
        "a",
        1767312000.0,
        1.5,
        "lower",
        "",
        {"commit": "c1", "machine": "h1", "packages": {"numpy": "2.1"}},
        "2026-01-02",
    )
    assert (second.at, second.value, second.better, second.context) == (1767236400.0, 2000.0, None, {})
    assert found.problems == ()


def test_json_lines(write):
    lines = [{"series": "a", "time": 3, "value": 1}, {"series": "a", "time": "4", "value": None, "packages": {"x": 1}}]
    found = read(write, "\n".join(map(json.dumps, lines)), "points.jsonl")
    assert [(one.at, one.value) for one in found.points] == [(3.0, 1.0), (4.0, None)]
    assert found.points[1].context == {"packages": {"x": 1}}


@pytest.mark.parametrize("text", ["series;time;value\na;1;2\n", "series\ttime\tvalue\na\t1\t2\n",
    "\ufeffvalue,series,time\r\n2,a,1\r\n", "series,time,value\n\na,1,2\n\n"])  # fmt: skip
def test_other_spellings_of_csv(write, text):
    assert [(one.series, one.at, one.value) for one in read(write, text).points] == [("a", 1.0, 2.0)]


@pytest.mark.parametrize("value", ["", "nan", "NaN", "null", "-", " n/a "])
def test_a_point_without_a_value_is_one(write, value):
    (one,) = read(write, f"series,time,value\na,1,{value}\n").points
    assert one.value is None


def test_every_line_that_cannot_be_used_is_named_and_the_others_are_used(write):
    rows = [
        "a,1,2",
        "a,yesterday,2",
        "a,2,fast",
        ",3,2",
        "a,4,inf",
        "a,,2",
        "a,5,2,sideways",
        "a,6,2,,x,y,z,w,v",
        "b,7,8,higher",
    ]
    found = read(write, HEAD + "\n".join(rows) + "\n")
    assert [(one.series, one.at) for one in found.points] == [("a", 1.0), ("b", 7.0)]
    assert [one.at.rpartition(":")[2] for one in found.problems] == ["3", "4", "5", "6", "7", "8", "9"]
    told = " ".join(one.message for one in found.problems)
    for word in ("yesterday", "fast", "no series", "inf", "no time", "sideways", "9 cells"):
        assert word in told


def test_lines_are_counted_where_a_cell_has_several(write):
    found = read(write, 'series,time,value,note\na,1,2,"two\nlines"\na,x,2,\n')
    assert [one.at.rpartition(":")[2] for one in found.problems] == ["4"]


def test_an_open_quote_is_named_where_it_begins(write):
    read = read_series_file(write("points.csv", 'series,time,value\na,1,2\n"a,2,3\na,3,4\n'))
    (problem,) = read.problems
    assert problem.at.endswith("points.csv:3")
    assert "up to line 4" in problem.message
    assert len(read.points) == 1


def test_columns_may_be_written_large_and_are_named_once(write):
    read = read_series_file(write("points.csv", "Series,TIME,Value,Commit\na,1,2,c0\n"))
    assert read.points[0].value == 2
    assert read.points[0].context == {"commit": "c0"}
    with pytest.raises(UsageError, match="value more than once; it is 'series,time,value,value'"):
        read_series_file(write("twice.csv", "series,time,value,value\na,1,2,3\n"))


def test_decimals_with_a_comma_are_explained(write):
    (problem,) = read_series_file(write("points.csv", "series;time;value\na;1;2,5\n")).problems
    assert "written with a point" in problem.message


def test_json_lines_that_are_none_are_named(write):
    rows = ['{"series": "a", "time": 1, "value": 2}', '{"series', "[1]", '{"series": 3, "time": 1, "value": true}']
    found = read(write, "\n".join(rows), "points.ndjson")
    assert len(found.points) == 1
    assert [one.at.rpartition(":")[2] for one in found.problems] == ["2", "3", "4"]


@pytest.mark.parametrize(("text", "word"), [("time,value\n1,2\n", "series"), ("", "series and time and value")])
def test_a_column_that_is_missing_is_reported(write, text, word):
    with pytest.raises(UsageError, match=word):
        read(write, text)


def test_a_file_that_cannot_be_read_is_reported(write, tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        read_series_file(tmp_path / "nothing.csv")
    path = tmp_path / "bytes.csv"
    path.write_bytes(b"series,time,value\na,1,\xff\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_series_file(path)


def test_a_known_metric_says_itself_which_direction_is_better(write):
    found = read(write, "series,time,value,better\nlatency_ms,1,2,\nlatency_ms,2,2,higher\nspeed,1,2,\n")
    assert [(one.better, one.unit) for one in found.points] == [("lower", "ms"), ("higher", "ms"), (None, "")]


def test_points_are_ordered_by_time_and_stay_in_the_order_of_the_file_within_it(write):
    found = read(write, "series,time,value\na,3,1\nb,1,2\na,1,3\na,3,4\n")
    assert {name: [one.value for one in mine] for name, mine in found.series().items()} == {"a": [3, 1, 4], "b": [2]}


def test_points_that_are_sent_follow_the_same_rules():
    point = FilePoint("a", 1.5, 2.0, "lower", "ms", {"commit": "c", "packages": {"numpy": "2"}})
    assert checked_point(point) == FilePoint("a", 1.5, 2.0, "lower", "ms", point.context, "1.5")
    for bad in (
        FilePoint("", 1, 2),
        FilePoint("a", float("nan"), 2),
        FilePoint("a", 1, float("inf")),
        FilePoint("a\0", 1, 2),
        FilePoint("a", 1, 2, context={"x": "\0"}),
    ):
        with pytest.raises(UsageError):
            checked_point(bad)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.text(max_size=300), st.sampled_from([".csv", ".jsonl"]))
def test_whatever_a_file_holds_it_is_read_or_refused_in_words(tmp_path, text, suffix):
    path = tmp_path / f"any{suffix}"
    path.write_text("series,time,value\n" * (suffix == ".csv") + text, encoding="utf-8", errors="surrogateescape")
    try:
        found = read_series_file(path)
    except UsageError:
        return
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(found.points) + len(found.problems) <= max(1, 2 * len(lines))
