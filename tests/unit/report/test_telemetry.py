"""Telemetry: known readings must come out as drawn coordinates, names and sentences."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.unit.report import watched

from assay.errors import StoreError
from assay.report.html import render_html
from assay.report.html.telemetry import draw_telemetry, held_back, panels_of, read_recordings, straightened
from assay.report.markdown import render_markdown
from assay.report.result import file_reader
from assay.report.telemetry import (
    figures_of,
    foreign_sentences,
    named,
    sampling_sentences,
    show_value,
    telemetry_sheet,
    throttling_sentences,
    unit_of,
    unseen_sentences,
)
from assay.report.terminal import render_job
from assay.run.probes import FILE
from assay.store.telemetry import Recording, Track, read_telemetry

TITLE = "Telemetry, run 1"
LOW, HIGH = -5.0, 11.0  # of the time axis: the first reading and the end of the last phase


@pytest.fixture(scope="module")
def picture() -> ET.Element:
    return ET.fromstring(draw_telemetry(watched.job(), watched.files).figure())


def coordinates(path: ET.Element) -> np.ndarray:
    """The points of a curve in thousandths of the picture, from its left and from its top."""
    return np.array([[float(n) for n in point.split()] for point in path.get("d")[1:].split("L")])


def curves(picture: ET.Element) -> list[tuple[str, str, np.ndarray]]:
    """Title of the panel, class and points of each curve."""
    found = []
    for group in picture.iter("g"):
        titles = [text.text for text in group.findall("text") if "halo" in (text.get("class") or "")]
        for svg in group.findall("svg"):
            path = svg.find("path")
            found.append((titles[0], path.get("class"), coordinates(path)))
    return found


def share(at: float) -> float:
    return 1000 * (at - LOW) / (HIGH - LOW)


def test_the_job_comes_first_whatever_the_order_of_the_file():
    backwards = Recording(tuple(reversed(read_telemetry(watched.recorded()).tracks)))
    panels = {panel.title: [line.source for line in panel.lines] for panel in panels_of(backwards, 0)}
    assert panels["Processor"] == ["job", "others"]
    assert panels["Power"] == ["gpu:0", "rapl:package-0"]


def test_each_quantity_that_was_read_has_a_panel(picture):
    titles = dict.fromkeys(title for title, *_ in curves(picture))
    assert list(titles) == [
        "Processor, % of a core",
        "Memory, GB",
        "GPU utilisation, %",
        "GPU memory, GB",
        "Power, W",
        "Clock, MHz",
        "Temperature, °C",
    ]


def height(points: np.ndarray, at: float) -> float:
    """How high a curve lies at a moment, in thousandths of its panel."""
    return 1000 - float(np.interp(share(at), points[:, 0], points[:, 1]))


def test_a_known_series_is_drawn_where_it_belongs(picture):
    drawn = {(title, kind): points for title, kind, points in curves(picture) if "thick" in kind}
    job = drawn["Processor, % of a core", "trace thick"]
    # On an axis from 0 to 100: 20 % before the window, 100 % in it, and the step between -0.1 s and 0 s.
    assert [height(job, at) for at in (-5, -0.1, 0.0, 5.0, 10.0, 10.1)] == pytest.approx(
        [200, 200, 1000, 1000, 1000, 200], abs=8
    )
    assert height(drawn["Processor, % of a core", "trace second thick"], 3) == pytest.approx(50, abs=8)
    # Memory rises from 1 to 3 GB, on an axis from 0 to 3.
    memory = drawn["Memory, GB", "trace thick"]
    assert [height(memory, at) for at in (-5.0, 10.9)] == pytest.approx([333, 1000], abs=8)
    # The temperature rises from 40 to 70 on an axis that begins there.
    assert [height(drawn["Temperature, °C", "trace thick"], at) for at in (-5.0, 10.9)] == pytest.approx(
        [0, 1000], abs=8
    )


def test_a_counter_of_energy_becomes_power(picture):
    drawn = {kind: 1000 - points[:, 1] for title, kind, points in curves(picture) if title == "Power, W"}
    board, package = drawn["trace thick"], drawn["trace second thick"]
    assert package.max() - package.min() < 1  # 120 W all the time
    assert board.max() / package.max() == pytest.approx(600 / 120, rel=0.01)


def test_other_runs_stand_thin_behind(picture):
    faint = [points for title, kind, points in curves(picture) if kind == "trace faint" and title == "Power, W"]
    assert len(faint) == 4
    assert all(len(points) <= 90 for points in faint)
    assert "The faint lines are runs 1, 2, 3, 4." in picture.findtext("figcaption")


def test_phases_are_marked_and_named(picture):
    boxes = [node for node in picture.iter("rect") if node.get("class") == "phase"]
    assert [box.findtext("title").partition(",")[0] for box in boxes] == [name for name, *_ in watched.PHASES]
    measure = next(box for box in boxes if box.findtext("title").startswith("measure"))
    assert float(measure.get("x").rstrip("%")) == pytest.approx(share(0) / 10, abs=0.02)
    assert float(measure.get("width").rstrip("%")) == pytest.approx(1000 / (HIGH - LOW), abs=0.02)
    names = {text.text for text in picture.iter("text")}
    assert {"warmup", "measure"} <= names
    assert "first" not in names
    assert "first (20 ms)" in picture.findtext("figcaption")
    edges = [node for node in picture.iter("line") if node.get("class") == "edge"]
    assert [edge.get("x1") for edge in edges] == [f"{share(0) / 10:.2f}%", f"{share(10) / 10:.2f}%"]


def test_throttled_stretches_are_shaded_with_their_reason(picture):
    hot = [node for node in picture.iter("rect") if node.get("class") == "hot"]
    assert len(hot) == 2  # one over the panels, one with the name
    for box in hot:
        assert float(box.get("x").rstrip("%")) == pytest.approx(share(6) / 10, abs=0.1)
        assert float(box.get("width").rstrip("%")) == pytest.approx((share(8) - share(6)) / 10, abs=0.1)
    assert "GPU 0 was throttled for 2.0 s in all: power cap." in picture.findtext("figcaption")
    (name,) = [text for text in picture.iter("text") if text.text == "throttled: power cap"]
    assert name.get("x") == "100%"  # it begins far at the right, and must not leave the picture


def test_reasons_that_would_meet_are_left_to_the_caption():
    at = np.round(np.arange(0.0, 10.0, 0.1), 1)
    values = np.where((at % 2) < 1, 0x4, 0)
    content = watched.recorded(more={("gpu:0", "throttle_bits"): (at, values)})
    drawn = ET.fromstring(draw_telemetry(watched.job(), lambda *_: content).figure())
    hot = [node for node in drawn.iter("rect") if node.get("class") == "hot"]
    assert len(hot) == 10
    assert len([text for text in drawn.iter("text") if text.text == "throttled: power cap"]) < 5


def test_points_on_a_straight_line_are_left_out_and_corners_kept():
    level = [(x / 100, 0.2) for x in range(50)] + [(x / 100, 0.9) for x in range(50, 101)]
    assert straightened(level, 0.01) == [(0.0, 0.2), (0.49, 0.2), (0.5, 0.9), (1.0, 0.9)]
    rng = np.random.default_rng(3)
    wild = [(x / 500, float(y)) for x, y in enumerate(np.cumsum(rng.normal(0, 0.02, 501)))]
    kept = straightened(wild, 0.01)
    assert kept[0] == wild[0]
    assert kept[-1] == wild[-1]
    assert set(kept) <= set(wild)
    back = np.interp([x for x, _ in wild], [x for x, _ in kept], [y for _, y in kept])
    assert np.abs(back - [y for _, y in wild]).max() <= 0.0201


def test_the_picture_is_reported_in_words_and_stays_small(picture):
    chart = picture.find("svg")
    assert chart.findtext("title") == TITLE
    told = chart.findtext("desc")
    assert "Power in W: GPU 0 " in told
    assert "Phase measure: 0.00 s to 10.00 s." in told
    assert "power cap" in told
    assert len(ET.tostring(picture, "unicode")) < 60_000
    assert "seconds since the measured window began" in "".join(chart.itertext())


def test_an_hour_of_eight_boards_stays_small():
    at = np.arange(-5.0, 3600.0, 2.0)  # fewer looks than there would be: thinning makes them equal
    rng = np.random.default_rng(1)
    noise = {
        (f"gpu:{board}", name): (at, rng.random(at.size) * 500 + 50 * board)
        for board in range(8)
        for name in ("power_w", "gpu_util_pct", "sm_mhz", "temperature_c")
    }
    content = watched.recorded(more=noise, phases=(("measure", 0.0, 3600.0),))
    drawn = draw_telemetry(watched.job(), lambda job, run, name: content).figure()
    assert len(drawn) < 60_000
    assert "Of many devices, those with the highest values are drawn." in drawn
    assert "GPU 7 ┈┈" in drawn
    power = ET.fromstring(drawn).findtext("svg/desc").partition("Power in W:")[2].partition("Clock")[0]
    assert re.findall(r"GPU \d", power) == ["GPU 5", "GPU 6", "GPU 7"]


def test_the_first_good_run_is_the_one_that_is_drawn():
    job = watched.job()
    broken = replace(job.runs[0], error=watched.build.failed_job().runs[0].error)
    drawn = draw_telemetry(replace(job, runs=(broken, *job.runs[1:])), watched.files).figure()
    assert "Telemetry, run 2" in drawn


def test_files_that_are_lost_or_damaged_cost_only_their_lines():
    def some(job: str, run: int, name: str) -> bytes | None:
        if run == 0:
            raise StoreError("it is gone")
        return {1: b"damaged", 2: None}.get(run, watched.recorded(run))

    assert list(read_recordings(watched.job(), some)) == [3, 4]
    assert "run 4" in draw_telemetry(watched.job(), some).figure()
    assert draw_telemetry(watched.job(), lambda *_: None) is None
    assert draw_telemetry(watched.build.done_job(), watched.files) is None  # an older result has no such file


def test_only_what_was_read_is_drawn():
    """A machine without a GPU, and one that tells nothing."""
    recording = read_telemetry(watched.recorded(phases=()))
    tracks = tuple(track for track in recording.tracks if track.source in ("job", "others"))
    assert [panel.title for panel in panels_of(Recording(tracks), 0)] == ["Processor", "Memory"]
    assert panels_of(Recording(()), 0) == []


def test_without_phases_time_counts_from_the_first_reading():
    drawn = draw_telemetry(watched.job(), lambda *_: watched.recorded(phases=())).figure()
    assert "seconds since the first reading" in drawn
    assert 'class="phase"' not in drawn


def bits(values: list[int], step: float = 0.1) -> Recording:
    at = (np.arange(len(values)) * step * watched.S).astype(np.int64)
    return Recording((Track("gpu:0", "throttle_bits", at, np.array(values, dtype=float)),))


def test_a_flickering_board_makes_few_stretches():
    """A board at its power limit: every other look finds the bit set."""
    held = held_back(bits([0x4, 0] * 5000), 0)
    assert len(held) == 1
    assert held[0].held_s == pytest.approx(500.0, rel=0.01)
    alternating = held_back(bits([0x4, 0x20, 0, 0, 0, 0, 0] * 2000), 0)
    assert 0 < len(alternating) <= 40
    assert "power cap" in alternating[0].why
    assert "thermal, by software" in alternating[0].why
    assert sum(one.held_s for one in alternating) == pytest.approx(400.0, rel=0.01)


def test_idle_clocks_are_no_throttling():
    assert held_back(bits([0x1, 0x1, 0x0, 0x2]), 0) == ()
    only = held_back(bits([0x0, 0x40]), 0)
    assert [(one.why, round(one.begin_s, 3), round(one.end_s, 3)) for one in only] == [
        ("thermal, by hardware", 0.1, 0.2)
    ]


def test_series_are_named_for_people():
    assert named("gpu:0.power_w") == "GPU 0: power"
    assert named("others.cpu_pct") == "other programs: processor"
    assert named("machine.something_new_mhz") == "the machine: something_new_mhz"
    names = ("power_w", "sm_mhz", "temperature_c", "rss_bytes", "cpu_pct", "net_in_bytes_per_s")
    assert [unit_of(name) for name in names] == ["W", "MHz", "°C", "B", "%", "B/s"]
    assert show_value(2.5e6, "B/s") == "2.5 MB/s"
    assert show_value(5400.0, "B/s") == "5.4 kB/s"
    assert show_value(1980.4, "MHz") == "1,980 MHz"


def test_what_was_not_seen_is_named_for_people():
    absent = {"energy:gpu:1": "a", "machine.cpu_mhz": "b", "rapl": "c", "rapl:package-0": "d", "cpu throttling": "e"}
    job = watched.job()
    blind = replace(job, runs=(replace(job.runs[0], seen=watched.seen(absent=absent)),))
    assert unseen_sentences(blind) == [
        "not seen: energy of GPU 1: a",
        "not seen: the machine: clock: b",
        "not seen: RAPL: c",
        "not seen: package-0: d",
        "not seen: cpu throttling: e",
    ]


def test_what_never_moved_is_reported_in_one_line():
    flat = {"machine.swap_in_bytes_per_s": dict.fromkeys(("mean", "min", "max"), 0.0)}
    job = watched.job()
    still = replace(job, runs=(replace(job.runs[0], seen=watched.seen(statistics=flat)),))
    sheet = telemetry_sheet(still)
    assert sheet.rows == ()
    assert sheet.notes[0] == "Zero all the time: the machine: swap, in."


def test_statistics_of_all_runs_are_put_together():
    figures = {one.series: one for one in figures_of(watched.job())}
    power = figures["gpu:0.power_w"]
    assert (power.mean, power.low, power.high, power.runs) == (602.0, 590.0, 610.0, 5)
    assert figures["job.cpu_pct"].high == 109.0
    sheet = telemetry_sheet(watched.job())
    assert ("GPU 0: power", "602 W", "590 W", "610 W") in sheet.rows
    assert ("the job: memory", "2.0 GiB", "1.0 GiB", "3.0 GiB") in sheet.rows
    assert telemetry_sheet(watched.build.done_job()) is None


def test_what_looking_cost_is_reported():
    (told,) = sampling_sentences(watched.job())
    assert told.startswith("Another process looked every 100 ms over the measured window; it took 0.42 % of one core; ")
    assert told.endswith("a look took 0.31 ms (the slowest 4.20 ms).")


def test_throttling_and_foreign_programs_name_their_runs():
    assert throttling_sentences(watched.job()) == ["GPU 0 held its clocks down: power cap (in run 1)"]
    assert foreign_sentences(watched.job()) == ["other programs computed on GPU 0: other (pid 12) (in run 2)"]


def test_every_form_shows_it():
    job = watched.job()
    text = render_job(job, width=120)
    assert re.search(r"GPU 0: power +602 W +590 W +610 W", text)
    assert "GPU 0 held its clocks down: power cap (in run 1)" in text
    assert "not seen: the machine: clock: no core tells its clock" in text
    record = watched.build.campaign(job)
    page = render_html(record, watched.build.samples, watched.files)
    ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    assert TITLE in page
    assert "<summary>Telemetry</summary>" in page
    assert "held its clocks down" in render_markdown(record)
    assert TITLE not in render_html(record, watched.build.samples)


def test_hostile_names_stay_text():
    bad = "<script>alert(1)</script>"
    at = np.arange(0.0, 5.0, 0.1)
    job = watched.job()
    runs = tuple(
        replace(
            run,
            seen=watched.seen(
                absent={bad: bad},
                throttled={bad: (bad,)},
                foreign={bad: (bad,)},
                statistics={f"{bad}.power_w": {"mean": 1.0, "min": 1.0, "max": 1.0}},
            ),
        )
        for run in job.runs
    )
    content = watched.recorded(more={(bad, "power_w"): (at, at), ("x", bad): (at, at)}, phases=((bad, 0.0, 4.0),))
    page = render_html(watched.build.campaign(replace(job, runs=runs)), watched.build.samples, lambda *_: content)
    ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    assert "<script" not in page
    assert "<script" not in re.sub(r"`[^`]*`", "", render_markdown(watched.build.campaign(replace(job, runs=runs))))


def test_the_readings_of_a_store_are_found(tmp_path):
    kept = tmp_path / "kept"
    kept.write_bytes(watched.recorded())
    store = SimpleNamespace(file_of=lambda job, run, name: kept if (run, name) == (0, FILE) else None)
    drawn = draw_telemetry(watched.job(), file_reader(store)).figure()
    assert TITLE in drawn
    assert "faint lines" not in drawn
