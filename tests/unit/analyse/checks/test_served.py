"""The checks of served targets: the client, the load it delivered, the answers, and which numbers are looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.analyse.judge import judge
from assay.analyse.records import Check, MultiRunJobResult
from assay.run.records import RunOutcome, SampleSet, SingleRunResult, Window

ENDPOINT = {"endpoint": "http://llm.example.com/v1", "api": "openai-chat", "model": "m"}


def answers(run: int, n: int = 800, itl: int = 30, **numbers: Any) -> RunOutcome:
    """One good run against a language model, with any number or fact replaced."""
    rng = np.random.default_rng(run)
    at = (np.arange(n) * 1e7).astype(np.int64)
    ttft = 50 * np.exp(0.05 * rng.standard_normal(n))
    sampled = {
        "ttft_ms": ttft,
        "e2e_ms": ttft + 320,
        "itl_ms": 10 * np.exp(0.1 * rng.standard_normal(n * itl)),
        "input_tokens": rng.integers(10, 1000, n).astype(float) * np.linspace(1, 3, n),
        "output_tokens": np.full(n, 32.0),
        "schedule_delay_ms": np.full(n, 0.1),
    } | numbers.pop("sampled", {})
    metrics = {
        "output_tokens_per_s": 3200.0 + run,
        "error_rate": 0.0,
        "skipped": 0.0,
        "concurrency": 15.9,
        "offered_per_s": 100.0,
        "client_ceiling_pct": 20.0,
        "client_cpu_pct": 30.0,
        "loop_lag_ms": 0.4,
        "goodput_per_s": 99.0,
    } | numbers.pop("metrics", {})
    facts = {
        "tokens": {"input": {"source": "server usage"}, "output": {"source": "server usage"}},
        "errors": {},
        "load": {"stopped": "finished"},
    } | numbers.pop("facts", {})
    result = SingleRunResult(
        run_id=run,
        is_cold_start=run == 0,
        started_at="2026-01-01T00:00:00+00:00",
        completed_at="2026-01-01T00:00:10+00:00",
        duration_seconds=10.0,
        metrics=metrics,
        facts=facts,
        window=Window(8.0, 2.0, 0.1, 0.0, 8, 0),
    )
    sets = tuple(
        SampleSet(name, "measure", at if value.size == n else np.arange(value.size, dtype=np.int64), value)
        for name, value in sampled.items()
    )
    return RunOutcome(replace(result, **numbers), sets)


def judged(job, *, runs: int = 3, **numbers: Any) -> MultiRunJobResult:
    definition = {"target": ENDPOINT, "load": {"concurrency": 16}, **numbers.pop("definition", {})}
    return judge(job(**definition), [answers(run, **dict(numbers)) for run in range(runs)], {})


def check(result: MultiRunJobResult, name: str) -> Check:
    return next(one for one in result.checks if one.name == name)


def test_a_good_result_of_an_endpoint_is_valid(job) -> None:
    found = judged(job)
    assert found.verdict == "valid", [one for one in found.checks if one.passed is False]
    assert "itl" not in check(found, "steady state reached").detail
    assert check(found, "load delivered").passed


def test_drifting_lengths_of_prompts_are_not_a_drifting_service(job) -> None:
    assert check(judged(job), "steady state reached").passed
    slower = np.exp(0.02 * np.random.default_rng(1).standard_normal(800)) * np.linspace(50, 80, 800)
    assert check(judged(job, sampled={"ttft_ms": slower}), "steady state reached").passed is False


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ({"client_ceiling_pct": 71.0}, "71 % of what this client can do"),
        ({"client_cpu_pct": 95.0}, "95 % of its core"),
        ({"loop_lag_ms": 3.0}, "away from the network for 3 ms"),
    ],
)
def test_a_saturated_client_is_reported_by_what_saturates_it(job, metrics, told) -> None:
    found = judged(job, metrics=metrics)
    client = check(found, "client below its own ceiling")
    assert (found.verdict, client.passed) == ("suspect", False)
    assert told in client.detail
    assert [one.name for one in found.checks if one.passed is False] == ["client below its own ceiling"]


def test_lag_is_held_against_the_shortest_time_of_the_headline(job) -> None:
    slow = np.full(24_000, 60.0) * np.exp(0.05 * np.random.default_rng(0).standard_normal(24_000))
    found = judged(job, metrics={"loop_lag_ms": 3.0}, sampled={"itl_ms": slow, "ttft_ms": slow[:800] * 10})
    assert check(found, "client below its own ceiling").passed


@pytest.mark.parametrize(
    ("definition", "numbers", "passed", "told"),
    [
        ({}, {"metrics": {"concurrency": 15.1}}, False, "15.1 of 16"),
        ({"load": {"concurrency": 16, "think": 1.0}}, {"metrics": {"concurrency": 3.0}}, True, ""),
        ({"load": {"rate": 100.0}}, {}, True, "100 requests/s"),
        ({"load": {"rate": 100.0}}, {"metrics": {"offered_per_s": 91.0}}, True, ""),  # Poisson in 8 s
        ({"load": {"rate": 100.0}}, {"metrics": {"offered_per_s": 88.0}}, False, "88 requests/s"),
        ({"load": {"rate": 100.0, "arrivals": "constant"}}, {"metrics": {"offered_per_s": 94.0}}, False, "94"),
        ({}, {"metrics": {"skipped": 12.0}}, False, "12 requests"),
        ({}, {"sampled": {"schedule_delay_ms": np.full(800, 9.0)}}, False, "9 ms after they were due"),
        ({}, {"facts": {"load": {"stopped": "saturated: 400 in flight"}}}, False, "saturated: 400 in flight"),
    ],
)
def test_load_delivered(job, definition, numbers, passed, told) -> None:
    found = check(judged(job, definition=definition, **numbers), "load delivered")
    assert found.passed is passed, found.detail
    assert told in found.detail


@pytest.mark.parametrize(
    ("share", "limit", "verdict"), [(0.0, 0.0, "valid"), (0.02, 0.0, "invalid"), (0.02, 0.05, "valid")]
)
def test_failed_requests_count_as_errors(job, share, limit, verdict) -> None:
    kinds = {"errors": {"timeout": {"count": 12, "first": "late"}, "reset": {"count": 4, "first": ""}}}
    found = judged(job, definition={"measure": {"errors": limit}}, metrics={"error_rate": share}, facts=kinds)
    assert found.verdict == verdict
    if share:
        assert (
            "2.0 % of the requests failed (36 × timeout, 12 × reset)" in check(found, "errors below the limit").detail
        )


@pytest.mark.parametrize(
    ("workload", "got", "passed"),
    [
        ({"task": "synthetic", "output_tokens": 32}, 32.0, True),
        ({"task": "synthetic", "output_tokens": 32}, 20.0, False),
        ({"task": "synthetic", "output_tokens": 32}, 64.0, False),
        ({"task": "wikipedia-summary", "output_tokens": 128}, 60.0, True),
        ({"task": "wikipedia-summary", "output_tokens": 32}, 60.0, False),
        ({"task": "synthetic", "output_tokens": {"mean": 32, "std": 5}}, 32.0, True),
        ({"task": "synthetic", "output_tokens": {"mean": 32, "std": 5}}, 12.0, False),
    ],
)
def test_answers_as_long_as_asked(job, workload, got, passed) -> None:
    found = judged(
        job,
        definition={"workload": workload},
        sampled={"output_tokens": np.full(800, got)},
        facts={"finish_reasons": {"stop": 700, "length": 100}},
    )
    told = check(found, "answers as long as asked")
    assert told.passed is passed
    assert passed or "stop 2,100" in told.detail


BUNDLED = {"bundled": True, "tokens_per_chunk": {"mean": 4.0, "max": 6}}


@pytest.mark.parametrize(
    ("tokens", "passed", "told"),
    [
        ({}, True, "output tokens by server usage"),
        (
            {"tokenizer_disagrees": {"answers": 8, "used": 256, "local_tokenizer": 300}},
            False,
            "256 tokens were counted",
        ),
        ({"tokenizer_disagrees_on_prompts": {"prompts": 8, "used": 9, "local_tokenizer": 3}}, False, "of 8 prompts"),
        (BUNDLED, False, "pieces of 4 tokens each"),
        (
            {**BUNDLED, "chunks_split": {"by_tokenizer": 0, "evenly": 60}},
            False,
            "shared out evenly in 60 of 60 answers",
        ),
        (
            {**BUNDLED, "chunks_split": {"by_tokenizer": 40, "evenly": 20}},
            False,
            "shared out evenly in 20 of 60 answers",
        ),
        (
            {**BUNDLED, "chunks_split": {"by_tokenizer": 60, "evenly": 0}},
            True,
            "a tokenizer counted those of each piece",
        ),
        ({"bundled": False, "tokens_per_chunk": {"mean": 1.0, "max": 1}}, True, ""),
        ({"output": {"source": {"server usage": 790, "local tokenizer": 10}}}, True, "local tokenizer (10)"),
    ],
)
def test_tokens_counted(job, tokens, passed, told) -> None:
    source = {"input": {"source": "server usage"}, "output": {"source": "server usage"}}
    found = judged(job, facts={"tokens": {**source, **tokens}})
    assert check(found, "tokens counted").passed is passed
    assert told in check(found, "tokens counted").detail
    assert found.verdict == ("valid" if passed else "suspect")


@pytest.mark.parametrize(("limit", "verdict"), [(0.2, "valid"), (0.5, "invalid")])
def test_bad_answers_make_a_result_invalid(job, limit, verdict) -> None:
    scores = np.full(800, 0.31)
    scores[::7] = np.nan  # without a reference there is no score
    found = judged(job, definition={"objective": {"rouge_l.mean": limit}}, sampled={"rouge_l": scores})
    assert found.verdict == verdict
    assert check(found, "answers good enough").passed is (verdict == "valid")


def test_an_objective_on_speed_is_no_matter_of_quality(job) -> None:
    found = judged(job, definition={"objective": {"ttft_ms.p99": 1.0}})
    assert "answers good enough" not in [one.name for one in found.checks]
    assert found.gates[0].passed is False


def test_a_load_that_changes_has_no_steady_state(job) -> None:
    stages = {"load": {"stages": ({"rate": 10.0, "duration": 5.0}, {"rate": 90.0, "duration": 5.0})}}
    rising = np.linspace(50, 500, 800)
    found = judged(job, definition=stages, sampled={"ttft_ms": rising})
    assert check(found, "steady state reached").passed is None
    assert check(found, "enough samples").passed is None


@pytest.mark.parametrize(("host", "passed"), [("127.0.0.1:8000", None), ("localhost", None), ("llm.example.com", True)])
def test_an_endpoint_here_cannot_be_decided_from_other_programs(job, host, passed) -> None:
    found = judged(job, definition={"target": {**ENDPOINT, "endpoint": f"http://{host}/v1"}})
    assert check(found, "machine quiet").passed is passed


def test_the_tail_is_that_of_the_scarcest_headline_metric(job) -> None:
    assert "2,400 samples of ttft_ms" in check(judged(job), "tail percentile backed").detail


def test_lengths_are_compared_request_by_request_where_they_were_kept(job) -> None:
    lengths = {"output": {"asked": {"median": 100.0}, "difference": {"median": -30.0}}}
    found = judged(
        job, definition={"workload": {"task": "synthetic", "output_tokens": {"mean": 32}}}, facts={"lengths": lengths}
    )
    told = check(found, "answers as long as asked")
    assert told.passed is False
    assert "70 tokens where 100 were asked for" in told.detail


@pytest.mark.parametrize(
    ("load", "judged_metric"),
    [({"rate": 100.0}, "itl_ms"), ({"concurrency": 16}, "goodput_per_s"), ({"rate": "search"}, "capacity_per_s")],
)
def test_the_spread_between_runs_is_that_of_what_was_requested(job, load, judged_metric) -> None:
    one, two, three = (
        answers(run, metrics={"goodput_per_s": 90.0 + 9 * run, "capacity_per_s": 50.0 + 10 * run}) for run in range(3)
    )
    definition = {"target": ENDPOINT, "load": load, "objective": {"ttft_ms.p99": 900.0}}
    found = check(judge(job(**definition), [one, two, three], {}), "interval narrow enough")
    assert judged_metric in found.detail
    assert found.passed is (judged_metric == "itl_ms")
