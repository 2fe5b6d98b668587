"""The picture of a series: every point, level, finding, gap and failure is there, and nothing is drawn that is not."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.alert.digest.material import DAY, SINCE, UNTIL, spots

from assay.report.html.chart import moment_axis
from assay.report.html.series import SeriesChange, SeriesPicture, SeriesPoint, draw_series, gaps, levels, series_svg

STEP = SeriesChange(UNTIL - 3 * DAY, UNTIL - 4 * DAY, UNTIL - 3 * DAY, "step", 71.5, 75.8, "worse", "+6.0 %", "code")
DRIFT = SeriesChange(
    UNTIL - 90 * DAY, UNTIL - 91 * DAY, UNTIL - 60 * DAY, "drift", 71.5, 65.0, "better", "-9.1 %", "unknown", "expected"
)


def picture(*turns, **more) -> SeriesPicture:
    return SeriesPicture("latency_ms · x", "ms", tuple(spots()), turns, **more)


def parsed(markup: str) -> ET.Element:
    return ET.fromstring(f"<div>{markup}</div>")


def of_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [node for node in root.iter() if name in node.get("class", "").split()]


def test_points_whiskers_failures_and_gaps_are_drawn():
    drawn = picture(STEP)
    root = parsed(draw_series(drawn))
    known = [one for one in drawn.spots if one.value is not None]
    (dots, holes) = (node.get("d").count("M") for node in of_class(root, "spot"))
    beyond = len(of_class(root, "beyond"))
    assert dots + beyond == len(known)
    assert beyond == 1  # the wild one is marked at the edge
    assert holes == sum(one.verdict == "suspect" for one in known)
    (whiskers,) = of_class(root, "spot-error")
    assert whiskers.get("d").count("V") == dots
    assert len(of_class(root, "cross")) == 1
    assert len(of_class(root, "away")) == 1
    told = root.find(".//figcaption").text
    assert "A cross at the bottom is a job that failed." in told
    assert "Nothing was measured in the grey times." in told


def test_points_without_doubt_or_errors_claim_none():
    plain = SeriesPicture("x", "", tuple(SeriesPoint(UNTIL + DAY * place, 1.0 + place % 3) for place in range(10)))
    root = parsed(draw_series(plain))
    assert not of_class(root, "spot-error")
    assert not of_class(root, "hole")
    assert "whisker" not in root.find(".//figcaption").text


def test_changes_are_marked_by_shape_and_reported_below():
    root = parsed(draw_series(picture(DRIFT, STEP)))
    shapes = of_class(root, "turn")
    assert [node.get("class") for node in shapes] == ["turn better settled", "turn worse"]
    assert shapes[0].get("d") != shapes[1].get("d")  # colour is only the second sign
    assert [node.text for node in root.findall(".//ol/li")] == [
        "-9.1 % better, unknown, drift from 2025-10-03 to 2025-11-02, expected",
        "+6.0 % worse, code, step on 2025-12-29",
    ]
    assert "An open sign on a dashed line was expected" in root.find(".//figcaption").text


def test_levels_follow_the_changes():
    found = list(levels(picture(DRIFT, STEP)))
    assert found[0][1] == (DRIFT.good_at, 71.5)
    assert found[1] == ((DRIFT.good_at, 71.5), (DRIFT.end, 65.0))
    assert found[2] == ((DRIFT.end, 65.0), (STEP.good_at, 65.0))
    assert found[3] == ((STEP.at, 75.8), (max(one.at for one in spots()), 75.8))
    (only,) = levels(picture())
    assert only[0][1] == pytest.approx(71.5, rel=0.01)
    assert not list(levels(SeriesPicture("x", "", (SeriesPoint(1.0, None),))))


def test_a_gap_is_what_is_longer_than_usual():
    (one,) = gaps(picture())
    assert one[1] - one[0] == 11 * DAY
    assert gaps(picture(until=UNTIL + 9 * DAY))[-1][1] == UNTIL + 9 * DAY  # silent up to now
    assert gaps(SeriesPicture("x", "", (SeriesPoint(0.0, 1.0), SeriesPoint(9e9, 1.0)))) == ()


def test_a_file_of_its_own_has_its_style_and_says_size_and_cause():
    text = series_svg(picture(DRIFT, STEP, since=SINCE, until=UNTIL))
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "+6.0 % code" in text
    assert "-9.1 % unknown, expected" in text
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    assert len(text) < 20_000


def test_a_year_is_a_small_file():
    year = SeriesPicture("x", "ms", tuple(spots(nights=365)), (DRIFT, STEP))
    assert len(series_svg(year)) < 30_000


@pytest.mark.parametrize(
    "few",
    [
        (),
        (SeriesPoint(UNTIL, 1.0),),
        (SeriesPoint(UNTIL, None),),
        (SeriesPoint(UNTIL, 5.0), SeriesPoint(UNTIL + 1, 5.0)),
        (SeriesPoint(UNTIL, 0.0),),
    ],
)
def test_a_young_series_is_drawn_too(few):
    root = parsed(draw_series(SeriesPicture("x", "", few, until=UNTIL + DAY)))
    assert root.find(".//figure") is not None
    assert "nan" not in ET.tostring(root, encoding="unicode")


@given(st.floats(0, 2e9), st.floats(1, 3e8))
def test_ticks_of_a_time_axis_lie_on_it_and_differ(begin, span):
    axis = moment_axis(begin, begin + span)
    assert axis.low < begin
    assert axis.high > begin + max(span, 1)
    assert 1 <= len(axis.ticks) <= 12
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks)
    labels = [axis.label(tick) for tick in axis.ticks]
    assert all(before != after for before, after in pairwise(labels))


@pytest.mark.parametrize(
    ("days", "labels"),
    [(365, ["Jan 2025", "Mar"]), (60, ["6 Jan", "20 Jan"]), (7, ["2 Jan", "4 Jan"]), (1, ["1 Jan", "06:00"])],
)
def test_ticks_are_whole_months_weeks_days_or_hours(days, labels):
    begin = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
    axis = moment_axis(begin, begin + days * DAY)
    assert [axis.label(tick) for tick in axis.ticks][:2] == labels
