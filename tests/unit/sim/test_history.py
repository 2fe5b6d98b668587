"""A simulated history: the same settings give the same numbers, and the numbers do what the settings say."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import pairwise
from statistics import fmean, median, pstdev

import pytest

from assay.errors import SpecError
from assay.sim.history import History, nights, read_history, series_name, truth, year
from assay.sim.history.settings import year_text

TODAY = datetime(2026, 3, 1, 3, tzinfo=UTC)
SMALL = {
    "seed": 7,
    "nights": 200,
    "start": "2025-01-01T03:00:00+00:00",
    "hosts": {
        "a": {"cpu": "one", "cores": 4, "memory": "16GiB", "driver": "1.0", "packages": {"numpy": "2.0"}},
        "b": {"cpu": "one", "cores": 4, "memory": "16GiB"},
    },
    "benchmarks": [
        {
            "host": "a",
            "file": {"benchmark": "small", "target": {"model": "m.onnx"}},
            "jobs": [
                {
                    "latency_ms": {"level": 10, "spread": "2%"},
                    "throughput_per_s": {"level": 100, "spread": 0, "within": 0, "against": "latency_ms"},
                    "peak_run_rss_mb": {"level": 500, "spread": "1%", "tails": "heavy", "memory": 0.6},
                }
            ],
        }
    ],
    "events": [],
}


def history(*events: dict, **more) -> History:
    import json

    return History.model_validate_json(json.dumps(SMALL | {"events": list(events)} | more))


def column(made: History, metric: str = "latency_ms") -> list[float]:
    """Median over runs for each night; NaN where there is none."""
    return [median(night[0].values[metric]) if night and night[0].values else math.nan for night in nights(made, TODAY)]


def test_the_same_settings_give_the_same_results():
    step = {"night": 50, "what": "step", "cause": "code", "moves": {"small": {"latency_ms": 0.1}}}
    assert list(nights(history(step))) == list(nights(history(step)))
    assert column(history(step)) != column(history(step, seed=8))


def test_a_shorter_history_is_the_beginning_of_the_longer_one():
    assert list(nights(history(nights=40))) == list(nights(history()))[:40]


def test_another_metric_changes_no_numbers():
    """Each metric draws from a stream of its own."""
    jobs = [{"latency_ms": {"level": 10, "spread": "2%"}}]
    alone = history(benchmarks=[SMALL["benchmarks"][0] | {"jobs": jobs}])
    assert column(alone) == column(history())


def test_levels_and_spreads_are_those_of_the_settings():
    values = [math.log(value) for value in column(history(nights=4000))]
    assert math.exp(fmean(values)) == pytest.approx(10, rel=0.002)
    assert pstdev(values) == pytest.approx(0.02, rel=0.1)
    heavy = [math.log(value / 500) for value in column(history(nights=4000), "peak_run_rss_mb")]
    assert median(abs(value) for value in heavy) < 0.6 * pstdev(heavy)  # 0.67 for normal ones
    around = fmean(a * b for a, b in pairwise(heavy)) / fmean(a * a for a in heavy)
    assert around == pytest.approx(0.6, abs=0.12)


def test_a_rate_goes_the_other_way_as_the_time_it_is_made_of():
    made = history({"night": 100, "what": "step", "cause": "code", "moves": {"small": {"latency_ms": 0.25}}})
    first, last = column(made, "throughput_per_s")[:99], column(made, "throughput_per_s")[99:]
    assert median(last) / median(first) == pytest.approx(0.8, abs=0.01)
    times, rates = column(made), column(made, "throughput_per_s")
    assert all(time * rate == pytest.approx(1000, rel=0.02) for time, rate in zip(times, rates, strict=True))


def test_a_step_stays_a_span_ends_and_a_drift_takes_its_time():
    quiet = {
        "benchmarks": [SMALL["benchmarks"][0] | {"jobs": [{"latency_ms": {"level": 10, "spread": 0, "within": 0}}]}]
    }
    moves = {"small": {"latency_ms": 0.1}}
    step = column(history({"night": 11, "what": "step", "cause": "code", "moves": moves}, nights=40, **quiet))
    assert step == pytest.approx([10.0] * 10 + [11.0] * 30)
    span = column(
        history({"night": 11, "until": 20, "what": "span", "cause": "machine", "moves": moves}, nights=40, **quiet)
    )
    assert span == pytest.approx([10.0] * 10 + [11.0] * 10 + [10.0] * 20)
    drift = column(
        history({"night": 11, "until": 20, "what": "drift", "cause": "unknown", "moves": moves}, nights=40, **quiet)
    )
    assert drift[:10] == pytest.approx([10.0] * 10)
    assert drift[10:20] == pytest.approx([10 + 0.1 * number for number in range(1, 11)])
    assert drift[20:] == pytest.approx([11.0] * 20)


def test_noise_is_larger_for_a_while_and_outages_and_failures_have_no_numbers():
    made = history(
        {"night": 101, "until": 200, "what": "noise", "noise": 4, "of": {"small": ["latency_ms"]}},
        {"night": 20, "until": 29, "what": "outage", "host": "a"},
        {"night": 40, "what": "failed", "of": {"small": []}, "note": "crashed: it ended"},
    )
    values = column(made)
    assert [place for place, value in enumerate(values, 1) if math.isnan(value)] == [*range(20, 30), 40]
    logs = [math.log(value / 10) for value in values if not math.isnan(value)]
    assert 3 < pstdev(logs[89:]) / pstdev(logs[:89]) < 5
    all_nights = list(nights(made))
    assert all_nights[19] == ()
    assert (all_nights[39][0].failure, all_nights[39][0].values) == ("crashed: it ended", {})


def test_the_surroundings_change_when_they_should():
    made = history(
        {"night": 50, "what": "quiet", "host": "a", "driver": "2.0", "packages": {"numpy": "2.1"}},
        {"night": 90, "what": "quiet", "host": "a", "to": "b"},
        {
            "night": 70,
            "until": 75,
            "what": "span",
            "cause": "machine",
            "host": "a",
            "control": 0.3,
            "throttled": True,
            "moves": {"small": {"latency_ms": 0.1}},
        },
        {
            "night": 120,
            "what": "step",
            "cause": "data or model",
            "model": "small",
            "moves": {"small": {"latency_ms": 0.1}},
        },
        {
            "night": 130,
            "what": "step",
            "cause": "method",
            "file": {"measure.runs": 9},
            "moves": {"small": {"latency_ms": 0.1}},
        },
    )
    around = [night[0].around for night in nights(made)]
    assert [one.machine.driver for one in (around[48], around[49])] == ["1.0", "2.0"]
    assert [one.machine.packages["numpy"] for one in (around[48], around[49])] == ["2.0", "2.1"]
    assert [one.host for one in (around[88], around[89])] == ["a", "b"]
    assert [place for place, one in enumerate(around, 1) if one.throttled] == list(range(70, 76))
    assert around[72].integer_ms / around[60].integer_ms == pytest.approx(1.3, abs=0.06)
    assert around[80].integer_ms / around[60].integer_ms == pytest.approx(1.0, abs=0.06)
    assert around[118].model != around[119].model
    files = [night[0].file for night in nights(made)]
    assert (files[128], files[129]) == ({}, {"measure.runs": 9})


def test_new_code_comes_with_its_events_and_by_chance():
    made = history(
        {"night": 50, "what": "step", "cause": "code", "moves": {"small": {"latency_ms": 0.1}}},
        {
            "night": 60,
            "what": "step",
            "cause": "environment",
            "host": "a",
            "kernel": "9",
            "moves": {"small": {"latency_ms": 0.1}},
        },
        {"night": 70, "what": "quiet", "host": "a", "kernel": "10", "commit": True},
    )
    code = [night[0].around.commit for night in nights(made)]
    assert code[48] != code[49]
    assert code[58] == code[59]
    assert code[68] != code[69]
    changes = sum(a != b for a, b in pairwise(code))
    assert 35 < changes < 85  # three of ten nights


def test_the_truth_names_every_change_of_every_series():
    made = history(
        {"night": 50, "what": "step", "cause": "code", "moves": {"small": {"latency_ms": 0.25}}, "note": "slow"},
        {"night": 70, "until": 75, "what": "span", "cause": "machine", "moves": {"small": {"peak_run_rss_mb": 1.0}}},
        {"night": 100, "until": 120, "what": "drift", "cause": "unknown", "moves": {"small": {"peak_run_rss_mb": 0.1}}},
        {"night": 500, "what": "step", "cause": "code", "moves": {"small": {"latency_ms": 0.1}}},
    )
    found = [(one.series, one.night, one.last, one.kind, round(one.size, 4), one.cause) for one in truth(made)]
    latency, rate, memory = (
        series_name("small", 0, one) for one in ("latency_ms", "throughput_per_s", "peak_run_rss_mb")
    )
    assert found == [
        (latency, 50, 50, "step", 0.25, "code"),
        (memory, 70, 70, "step", 1.0, "machine"),
        (memory, 76, 76, "step", -0.5, "machine"),
        (memory, 100, 120, "drift", 0.1, "unknown"),
        (rate, 50, 50, "step", -0.2, "code"),
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"night": 5, "what": "drift", "cause": "code", "moves": {"small": {"latency_ms": 0.1}}}, "needs until"),
        (
            {"night": 5, "until": 9, "what": "step", "cause": "code", "moves": {"small": {"latency_ms": 0.1}}},
            "has no until",
        ),
        ({"night": 9, "until": 5, "what": "outage", "host": "a"}, "lies before"),
        ({"night": 5, "what": "step", "cause": "code"}, "needs moves and a cause"),
        (
            {"night": 5, "what": "step", "cause": "code", "moves": {"small": {"speed": 0.1}}},
            "speed, which no benchmark measures",
        ),
        (
            {"night": 5, "what": "step", "cause": "code", "moves": {"other": {"latency_ms": 0.1}}},
            "other, which no benchmark",
        ),
        ({"night": 5, "until": 6, "what": "outage", "host": "c"}, "c, which is not under hosts"),
        ({"night": 5, "until": 6, "what": "outage"}, "host is missing"),
        ({"night": 5, "what": "quiet", "moves": {"small": {"latency_ms": 0.1}}}, "moves nothing"),
        ({"night": 5, "what": "failed"}, "of is missing"),
        ({"night": 5, "what": "explosion"}, "explosion|Input should be"),
        ({"night": 5, "what": "quiet", "kernel": "9", "colour": "red"}, "colour|Extra"),
    ],
)
def test_settings_that_make_no_sense_are_reported(tmp_path, change, told):
    import json

    file = tmp_path / "settings.yaml"
    file.write_text(json.dumps(SMALL | {"events": [change]}))
    with pytest.raises(SpecError, match=told) as caught:
        read_history(file)
    assert str(file) in str(caught.value)


def test_without_a_first_night_the_last_one_is_today():
    made = history(start=None, nights=30)
    found = list(nights(made, TODAY))
    assert found[-1][0].at == TODAY
    with pytest.raises(ValueError, match="neither the first night nor the last one"):
        next(nights(made))


def test_the_year_has_everything_that_it_promises():
    made = year()
    assert made.nights == 365
    names = {one.series for one in truth(made)}
    all_of = {
        series_name(bench.name, place, metric)
        for bench in made.benchmarks
        for place, job in enumerate(bench.jobs)
        for metric in job
    }
    assert len(all_of) == 12
    assert names <= all_of
    assert {one.cause for one in truth(made)} == {
        "code",
        "data or model",
        "environment",
        "machine",
        "method",
        "unknown",
    }
    assert {event.what for event in made.events} == {"step", "drift", "span", "noise", "outage", "failed", "quiet"}
    assert "driver" in year_text()
