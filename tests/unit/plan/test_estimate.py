"""How long a job will take, by what its load asks for."""

import json

import pytest

from assay.plan.estimate import estimate
from assay.spec.benchmark import Definition

ENDPOINT = {"endpoint": "http://127.0.0.1:1/v1", "api": "openai-chat", "model": "m"}


def job(load, *, runs=3, warmup="none", **more) -> Definition:
    measure = {"runs": runs, "warmup": warmup, **more.pop("measure", {})}
    document = {"target": ENDPOINT, "load": load, "measure": measure, **more}
    return Definition.model_validate_json(json.dumps(document))  # only JSON may give a list for a tuple


@pytest.mark.parametrize(
    ("load", "seconds"),
    [
        ({"rate": 20.0, "duration": 60.0}, 3 * 60),
        ({"rate": 5.0, "requests": 300}, 3 * 60),
        ({"rate": 5.0, "requests": 300, "duration": 20.0}, 3 * 20),
        ({"concurrency": 4, "duration": 60.0}, 3 * 60),
        ({"concurrency": 4, "duration": 1.0}, 3 * 1),
        ({"concurrency": 4, "duration": 60.0, "ramp": 30.0}, 3 * 90),
        ({"stages": [{"rate": 1.0, "duration": 20.0}, {"rate": 5.0, "to": 9.0, "duration": 100.0}]}, 3 * 120),
        ({"stages": [{"concurrency": 2, "duration": 30.0}]}, 3 * 30),
    ],
)
def test_a_load_takes_as_long_as_it_asks_for(load, seconds):
    found = estimate(job(load), None)
    assert seconds < found.expected_s < seconds + 3 * 2, "each run adds the start of a process"
    assert found.least_s is None
    assert "load" in found.source


def test_a_warm_up_that_is_detected_makes_a_range():
    found = estimate(job({"rate": 20.0, "duration": 60.0}, warmup="auto"), None)
    assert 3 * 60 < found.least_s < 3 * 60 + 6
    assert 3 * 120 < found.expected_s < 3 * 120 + 6
    short = estimate(job({"concurrency": 1, "duration": 1.0}, runs=1, warmup="auto"), None)
    assert 1 < short.least_s < short.expected_s < 4


def test_a_warm_up_of_a_given_length_is_added():
    found = estimate(job({"rate": 20.0, "duration": 60.0}, warmup=30.0), None)
    assert 3 * 90 < found.expected_s < 3 * 90 + 6
    by_count = estimate(job({"rate": 10.0, "duration": 60.0}, warmup=100), None)
    assert 3 * 70 < by_count.expected_s < 3 * 70 + 6


def test_a_closed_loop_of_so_many_requests_is_not_guessed():
    found = estimate(job({"concurrency": 4, "requests": 300}), None)
    assert (found.expected_s, found.least_s) == (None, None)
    assert "300 requests" in found.source
    assert "the server decides" in found.source
    both = estimate(job({"concurrency": 4, "requests": 300, "duration": 60.0}), None)
    assert both.least_s == 0
    assert both.expected_s > 3 * 60


def test_a_search_says_how_long_it_may_take():
    definition = job({"rate": "search"}, runs=5, warmup="auto", objective={"ttft_ms.p99": 500.0})
    found = estimate(definition, None)
    assert found.least_s == 0, "up to"
    assert found.expected_s >= 5 * 3 * 12 * 10
    assert found.expected_s <= found.at_most_s
    assert "search" in found.source


def test_a_trace_takes_as_long_as_it_was_recorded():
    known = estimate(job({"trace": "trace.csv"}), None, trace_s=200.0)
    assert 3 * 200 < known.expected_s < 3 * 200 + 6
    assert estimate(job({"trace": "trace.csv"}), None).expected_s is None
    cut = estimate(job({"trace": "trace.csv", "duration": 50.0}), None, trace_s=200.0)
    assert 3 * 50 < cut.expected_s < 3 * 50 + 6


def test_no_run_is_expected_to_outlast_its_deadline():
    found = estimate(job({"rate": 1.0, "duration": 600.0}, measure={"timeout": 100.0}), None)
    assert found.expected_s == found.at_most_s == 300.0


def test_what_is_known_goes_before():
    assert estimate(job({"rate": "search"}, objective={"ttft_ms.p99": 500.0}), 77.0).expected_s == 77.0
