"""Settings as users write them: draws, faults, stops, and whole scripts."""

from __future__ import annotations

import statistics
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import SpecError
from assay.sim.faults import (
    MEANING,
    Draw,
    InjectedFault,
    InjectedPause,
    SlowStart,
    Stop,
    choose,
    count,
    duration,
    parse_fault,
    parse_pause,
    parse_slow_start,
    parse_stop,
)
from assay.sim.script import ListenOptions, SimScript, build, read_file, settings_of


@pytest.mark.parametrize(
    ("text", "draw"),
    [
        ("50ms", Draw("constant", 0.05)),
        (0.05, Draw("constant", 0.05)),
        ("normal:50ms,5ms", Draw("normal", 0.05, 0.005)),
        ("lognormal: 50ms, 0.3", Draw("lognormal", 0.05, 0.3)),
        ("exponential:1s", Draw("exponential", 1.0)),
        ("uniform:1ms,2ms", Draw("uniform", 0.001, 0.002)),
    ],
)
def test_durations(text, draw):
    assert duration(text) == draw


@pytest.mark.parametrize(
    "text",
    ["", "fast", "5 parsecs", "-1ms", "normal:50ms", "normal:1ms,2ms,3ms", "gamma:1ms", "uniform:2ms,1ms", True, None],
)
def test_durations_that_are_none(text):
    with pytest.raises(ValueError, match=r"."):
        duration(text)


@pytest.mark.parametrize("text", ["nan", "inf", "normal:nan,1", "lognormal:5,inf", "x"])
def test_counts_that_are_none(text):
    with pytest.raises(ValueError, match="not a number"):
        count(text)


@pytest.mark.parametrize(
    ("draw", "median", "mean"),
    [
        (Draw("normal", 5.0, 1.0), 5.0, 5.0),
        (Draw("lognormal", 5.0, 0.5), 5.0, 5.0 * 2.718281828 ** (0.5**2 / 2)),
        (Draw("exponential", 5.0), 5.0 * 0.693147, 5.0),
        (Draw("uniform", 2.0, 8.0), 5.0, 5.0),
    ],
)
def test_draws_have_the_distribution_that_they_say(draw, median, mean):
    source = Random(1)
    values = [draw.value(source) for _ in range(20_000)]
    assert statistics.median(values) == pytest.approx(median, rel=0.03)
    assert statistics.fmean(values) == pytest.approx(mean, rel=0.03)


def test_a_normal_draw_is_never_below_zero():
    source = Random(1)
    assert min(Draw("normal", 0.001, 0.01).value(source) for _ in range(1000)) == 0.0


def test_faults():
    assert parse_fault("429:every=10") == InjectedFault("429", every=10)
    assert parse_fault("reset:share=5%") == InjectedFault("reset", share=0.05)
    assert parse_fault("hang:number=3") == InjectedFault("hang", number=3)
    assert all(parse_fault(f"{kind}:every=1").kind == kind for kind in MEANING)


@pytest.mark.parametrize(
    "text",
    ["", "429", "200:every=1", "boom:every=1", "429:every=0", "429:every=2,share=5%", "429:share=0", "429:share=120%",
     "429:each=2", "429:every", "hang:number=-1", 429, None, True],
)  # fmt: skip
def test_faults_that_are_none(text):
    with pytest.raises(ValueError, match=r"."):
        parse_fault(text)


def test_which_requests_a_fault_befalls():
    faults = [InjectedFault("500", every=3), InjectedFault("reset", number=3)]
    assert [choose(faults, number, 0) for number in range(7)] == [None, None, "500", "reset", None, "500", None]


def test_a_share_is_met_and_depends_on_the_seed_alone():
    one = InjectedFault("reset", share=0.1)
    hit = [number for number in range(5000) if one.hits(number, seed=1)]
    assert len(hit) == pytest.approx(500, rel=0.15)
    assert hit == [number for number in range(5000) if one.hits(number, seed=1)]
    assert hit != [number for number in range(5000) if one.hits(number, seed=2)]


def test_stops_pauses_and_slow_starts():
    assert parse_stop("5s:for=2s") == Stop(5.0, 2.0)
    assert parse_pause("200ms:every=10,after=5") == InjectedPause(0.2, 10, 5)
    assert parse_pause("1s") == InjectedPause(1.0, 1, 1)
    assert parse_slow_start("3x:requests=10") == SlowStart(3.0, 10, 0.0)
    assert parse_slow_start("1.5:for=5s") == SlowStart(1.5, 0, 5.0)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_stop, "5s"),
        (parse_stop, "5s:for=x"),
        (parse_stop, "for=2s"),
        (parse_pause, "1s:every=0"),
        (parse_pause, "1s:before=3"),
        (parse_slow_start, "3x"),
        (parse_slow_start, "x:requests=1"),
        (parse_slow_start, "0x:for=1s"),
        (parse_slow_start, "3x:for=1s,requests=2"),
    ],
)
def test_what_cannot_be_read_is_refused(parse, text):
    with pytest.raises(ValueError, match=r"."):
        parse(text)


@given(st.text(max_size=30))
def test_no_text_breaks_the_parsers(text):
    for parse in (duration, count, parse_fault, parse_stop, parse_pause, parse_slow_start):
        with suppress(ValueError):
            parse(text)


def test_a_script_with_everything():
    script = build(
        SimScript,
        {
            "ttft": "50ms",
            "itl": "normal:10ms,1ms",
            "tokens": 8,
            "tokens_per_chunk": "1,4,2",
            "first_chunk_tokens": 3,
            "stall": ["1s:for=2s", "9s:for=1s"],
            "error": "429:every=5",
            "done": False,
            "capacity": 4,
        },
        "llm",
    )
    assert script.tokens_per_chunk == (1, 4, 2)
    assert script.stall == (Stop(1.0, 2.0), Stop(9.0, 1.0))
    assert script.error == (InjectedFault("429", every=5),)
    assert not script.done
    assert build(SimScript, {"tokens_per_chunk": [1, 4]}, "llm").tokens_per_chunk == (1, 4)


def test_every_problem_of_a_script_is_reported_at_once():
    values = {"tft": "50ms", "itl": "fast", "usage": "maybe", "done": "no", "capacity": 0}
    with pytest.raises(SpecError) as caught:
        build(SimScript, values, "llm", "sim.yaml")
    told = str(caught.value)
    assert [problem.code for problem in caught.value.problems] == ["unknown-key", *["value"] * 4]
    assert "did you mean ttft?" in told
    assert told.count("sim.yaml") == 5
    assert "'maybe' is not one of auto, always, never" in told


def test_a_server_has_its_own_settings_alone():
    with pytest.raises(SpecError, match="ttft"):
        build(SimScript, {"ttft": "1s"}, "http")
    with pytest.raises(SpecError, match="latency"):
        build(SimScript, {"latency": "1s"}, "llm")


def test_flags_do_not_clash():
    for server in ("llm", "http"):
        flags = [one.flag for one in (*settings_of(ListenOptions, server), *settings_of(SimScript, server))]
        assert len(flags) == len(set(flags))
        assert {"--no-record", "--port", "--error"} <= set(flags)


def test_a_script_file(tmp_path):
    path = tmp_path / "sim.yaml"
    path.write_text("ttft: 50ms\nerror:\n  - 429:every=10\n")
    assert read_file(path) == {"ttft": "50ms", "error": ["429:every=10"]}
    path.write_text("# nothing yet\n")
    assert read_file(path) == {}


@pytest.mark.parametrize(("text", "code"), [("- a\n- b\n", "syntax"), ("a: [", "syntax"), (None, "no-file")])
def test_a_script_file_that_is_none(tmp_path, text, code):
    path = tmp_path / "sim.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SpecError) as caught:
        read_file(path)
    assert caught.value.problem.code == code
