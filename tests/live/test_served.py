"""Whole runs against a server whose truth is known: what the result says must be what the server did."""

import json

import numpy as np
import pytest
from tests.support.simulated import http_server, llm_server, null_server

import assay

pytestmark = pytest.mark.live


def run(url, tmp_path, *, load=None, workload=None, runs=1, objective=None, **target):
    document = {
        "benchmark": "known truth",
        "target": {"endpoint": url, "api": "openai-chat", "model": "sim", **target},
        "workload": {"output_tokens": 16, **(workload or {})},
        "load": load or {"concurrency": 2, "requests": 40},
        "measure": {"runs": runs, "warmup": "none", "timeout": "60s"},
        "objective": objective or {},
    }
    return assay.run(document, store=tmp_path / "store")


def job(result):
    (only,) = result.jobs
    return only


def check(result, name):
    return next(one for one in job(result).checks if one.name == name)


def facts(result):
    return job(result).runs[0].facts


def samples(result, metric):
    (found,) = [one for one in result.samples(job(result).job, 0) if one.metric == metric and one.phase == "measure"]
    return found.value


@pytest.mark.quiet
def test_reported_times_are_those_of_the_server(tmp_path):
    with llm_server(ttft_ms=50, itl_ms=10, tokens=16) as sim:
        result = run(sim.url, tmp_path, load={"concurrency": 4, "requests": 60})
        truth = sim.records()
    served = (truth.first_ns - truth.arrival_ns)[-60:] / 1e6
    assert np.median(samples(result, "ttft_ms")) == pytest.approx(np.median(served), abs=6)
    gaps = samples(result, "itl_ms")
    # Every gap between tokens is a sample; only tokens that arrived together with the first one have no gap.
    assert 0.95 * 60 * 15 <= len(gaps) <= 60 * 15
    assert np.median(gaps) == pytest.approx(10, abs=0.5)
    assert np.median(samples(result, "e2e_ms")) == pytest.approx(50 + 15 * 10, abs=6)
    assert job(result).metrics["output_tokens"].median == 16
    assert facts(result)["tokens"]["output"]["source"] == "server usage"
    assert facts(result)["errors"] == {}


@pytest.mark.quiet
def test_a_server_that_bundles_tokens_is_distinguished(tmp_path):
    with llm_server(ttft_ms=20, itl_ms=5, tokens=16, tokens_per_chunk=4) as sim:
        result = run(sim.url, tmp_path)
    assert facts(result)["tokens"]["bundled"] is True
    assert facts(result)["tokens"]["tokens_per_chunk"]["mean"] == pytest.approx(4)
    assert facts(result)["tokens"]["chunks_split"] == {"by_tokenizer": 40, "evenly": 0}
    assert check(result, "tokens counted").passed is True, "the server's tokenizer told the tokens of each chunk"
    assert np.median(samples(result, "itl_ms")) == pytest.approx(5, abs=0.7), "per token, not per chunk"
    assert np.median(samples(result, "chunk_gap_ms")) == pytest.approx(20, abs=2)
    assert job(result).metrics["output_tokens"].median == 16


def test_bundled_tokens_that_nothing_can_split_stay_in_doubt(tmp_path):
    with llm_server(ttft_ms=20, itl_ms=5, tokens=16, tokens_per_chunk=4, no_tokenizer=True) as sim:
        result = run(sim.url, tmp_path)
    assert facts(result)["tokens"]["chunks_split"] == {"by_tokenizer": 0, "evenly": 40}
    assert check(result, "tokens counted").passed is False
    assert "target.tokenizer" in check(result, "tokens counted").detail


@pytest.mark.quiet
def test_reasoning_starts_the_clock_and_the_answer_has_its_own(tmp_path):
    with llm_server(ttft_ms=20, itl_ms=5, tokens=16, reasoning_tokens=8) as sim:
        result = run(sim.url, tmp_path, workload={"output_tokens": 24})
    ttft, answer = np.median(samples(result, "ttft_ms")), np.median(samples(result, "first_answer_ms"))
    assert ttft == pytest.approx(20, abs=4)
    assert answer - ttft == pytest.approx(8 * 5, abs=5)


def test_a_wrong_tokenizer_is_distinguished(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    wrong = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    wrong.pre_tokenizer = pre_tokenizers.Split("", "isolated")  # one token per character
    wrong.save(str(tmp_path / "tokenizer.json"))
    with llm_server(ttft_ms=5, itl_ms=1, tokens=16) as sim:
        result = run(sim.url, tmp_path, tokenizer=str(tmp_path / "tokenizer.json"))
    assert facts(result)["tokens"]["tokenizer_disagrees"]
    assert check(result, "tokens counted").passed is False
    assert job(result).verdict == "suspect"


@pytest.mark.quiet
def test_a_stalled_server_shows_in_the_tail_from_the_due_time(tmp_path):
    with llm_server(ttft_ms=5, itl_ms=0, tokens=1) as sim:
        sim.stall(1.0, after_s=2.5)
        result = run(
            sim.url,
            tmp_path,
            workload={"output_tokens": 1},
            load={"rate": 100.0, "arrivals": "constant", "duration": "5s"},
        )
    waits = np.sort(samples(result, "e2e_ms"))
    # A second of stall at 100 a second: a hundred requests whose waits fall from a second to nothing.
    assert waits.max() == pytest.approx(1000, abs=120)
    assert (waits > 500).sum() == pytest.approx(50, abs=12)


def test_a_saturated_client_is_distinguished(tmp_path):
    # A server that does nothing but answer is quicker than any client.
    with null_server(pieces=64) as null:
        result = run(null.url, tmp_path, load={"concurrency": 64, "duration": "1s"}, workload={"output_tokens": 64})
    assert check(result, "client below its own ceiling").passed is False


def test_errors_are_counted_by_kind_with_the_servers_words(tmp_path):
    with llm_server(ttft_ms=2, itl_ms=1, tokens=8, error=["503:every=5"]) as sim:
        result = run(sim.url, tmp_path, load={"concurrency": 2, "requests": 50})
    found = facts(result)["errors"]
    assert sum(one["count"] for one in found.values()) == pytest.approx(10, abs=1)
    assert any("503" in kind for kind in found)
    assert check(result, "errors below the limit").passed is False
    assert job(result).metrics["error_rate"].median == pytest.approx(0.2, abs=0.03)


# How each is read is tested without a run (tests/unit/run/load/test_http.py, .../served/test_sse.py).
BROKEN = [
    "truncated",
    "error-event",
    *(pytest.param(fault, marks=pytest.mark.nightly) for fault in ("malformed-event", "reset", "reset-inside")),
    "malformed-http",
]


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_streams_are_errors_and_never_fast_answers(tmp_path, fault):
    with llm_server(ttft_ms=2, itl_ms=1, tokens=8, error=[f"{fault}:every=4"]) as sim:
        result = run(sim.url, tmp_path, load={"concurrency": 2, "requests": 40})
    assert facts(result)["requests"]["ok"] == pytest.approx(30, abs=2)
    assert len(samples(result, "e2e_ms")) == facts(result)["requests"]["ok"]


def test_a_stream_without_done_is_an_answer(tmp_path):
    with llm_server(ttft_ms=2, itl_ms=1, tokens=8, no_done=True) as sim:
        result = run(sim.url, tmp_path)
    assert facts(result)["errors"] == {}


def test_a_wrong_model_name_ends_at_once_with_the_servers_words(tmp_path):
    with llm_server(ttft_ms=2, itl_ms=1, tokens=8, model="right") as sim:
        result = run(sim.url, tmp_path, model="wrong", runs=5)
    assert len(job(result).runs) <= 2, "the other runs would only repeat it"
    assert job(result).state == "failed"
    assert "404" in job(result).error.message
    assert "wrong" in job(result).error.message
    assert "target.model" in job(result).error.try_


def test_a_key_is_sent_and_kept_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("SIM_KEY", "sk-very-secret")
    with llm_server(ttft_ms=2, itl_ms=1, tokens=8, api_key="sk-very-secret") as sim:
        result = run(
            sim.url, tmp_path, headers={"Authorization": "Bearer ${env:SIM_KEY}"}, workload={"keep_outputs": True}
        )
    assert job(result).state == "done"
    assert "sk-very-secret" not in result.to_json()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert b"sk-very-secret" not in kept


def test_a_dead_endpoint_says_so(tmp_path):
    result = run("http://127.0.0.1:9", tmp_path)
    assert "failed" in job(result).error.message
    assert job(result).error.code == "endpoint-refused"


def test_a_dead_endpoint_is_not_taken_for_one_without_a_tokenizer(tmp_path):
    result = run("http://127.0.0.1:9/v1", tmp_path, workload={"input_tokens": 20})
    assert job(result).error.code == "endpoint-refused"
    assert "the first request to 127.0.0.1:9 failed" in job(result).error.message
    assert "is the server running" in job(result).error.try_


def test_an_endpoint_without_a_tokenizer_says_so(tmp_path):
    with llm_server(ttft_ms=1, itl_ms=0, tokens=4, no_tokenizer=True) as sim:
        result = run(sim.url, tmp_path, workload={"input_tokens": 20})
    assert job(result).error.code == "no-tokenizer"


@pytest.mark.quiet
def test_a_rate_is_found_that_meets_the_objective(tmp_path):
    # Four answers at once of 100 ms each: 40 a second are the most that this server can do.
    with llm_server(ttft_ms=100, itl_ms=0, tokens=1, capacity=4) as sim:
        result = run(
            sim.url,
            tmp_path,
            workload={"output_tokens": 1},
            objective={"e2e_ms.p90": 250},
            load={
                "rate": "search",
                "search": {"lowest": 4.0, "highest": 200.0, "probe": "4s", "within": "20%", "probes": 8},
            },
        )
    capacity = job(result).metrics["capacity_per_s"].median
    assert 15 <= capacity <= 42
    probes = facts(result)["search"]["probes"]
    rates = {one["rate"] for one in probes}  # a rate that cannot be told is probed again
    assert 3 <= len(rates) <= 8
    assert any(one["meets"] is False for one in probes)


def test_a_search_ends_with_its_first_probe_where_the_objective_cannot_be_judged(tmp_path):
    """A server that sends all tokens together leaves no gap to measure: no rate will ever be shown to be good."""
    with llm_server(ttft_ms=5, itl_ms=0, tokens=8) as sim:
        result = run(
            sim.url,
            tmp_path,
            workload={"output_tokens": 8},
            objective={"itl_ms.p99": 50},
            runs=3,
            load={
                "rate": "search",
                "arrivals": "constant",
                "search": {"lowest": 10.0, "highest": 40.0, "probe": "1s", "probes": 4},
            },
        )
        asked = len(sim.records().number)
    error = job(result).error
    assert job(result).state == "failed"
    assert error.code == "objective"
    assert "itl_ms has no samples after the first probe" in error.message
    assert "every answer came in one arrival" in error.message
    assert "itl_ms.p99" in error.try_
    assert len(job(result).runs) == 1, "the next run would only repeat it"
    assert asked <= 15, "one probe of ten requests, and the request before it"


def test_a_budget_bounds_what_is_sent(tmp_path):
    with llm_server(ttft_ms=1, itl_ms=0, tokens=4) as sim:
        result = run(
            sim.url,
            tmp_path,
            workload={"output_tokens": 100},
            load={"concurrency": 2, "requests": 10_000},
            price={"input": 1.0, "output": 1000.0, "budget": 5.0},
        )
        sent = sim.state()["answers"] if "answers" in sim.state() else len(sim.records().number)
    assert sent <= 51
    assert job(result).metrics["cost"].median <= 5.0
    assert facts(result)["load"]["stopped"].startswith("budget")


def test_conversations_share_their_prefix_and_grow(tmp_path):
    with llm_server(ttft_ms=2, itl_ms=1, tokens=8) as sim:
        result = run(
            sim.url,
            tmp_path,
            load={"concurrency": 3, "requests": 45},
            workload={"task": "conversation", "turns": 3, "input_tokens": 20, "output_tokens": 8},
        )
    prompts = samples(result, "input_tokens")
    assert prompts.max() > 2 * prompts.min(), "later turns hold the earlier ones"
    assert facts(result)["errors"] == {}


def test_prompts_of_a_length_arrive_with_that_length(tmp_path):
    with llm_server(ttft_ms=2, itl_ms=1, tokens=8) as sim:
        result = run(sim.url, tmp_path, workload={"input_tokens": 100, "output_tokens": 8})
    counted = samples(result, "input_tokens")
    assert counted.min() == counted.max()
    assert 100 <= counted.min() <= 110, "a chat template may add a few"


@pytest.mark.parametrize("api", ["openai-completions", "ollama", "openai-embeddings"])
def test_every_protocol_is_spoken(tmp_path, api):
    workload = {"task": "embedding", "output_tokens": None} if api == "openai-embeddings" else {}
    with llm_server(ttft_ms=5, itl_ms=1, tokens=16) as sim:
        document = {
            "benchmark": api,
            "target": {"endpoint": sim.url, "api": api, "model": "sim"},
            "workload": workload or {"output_tokens": 16},
            "load": {"concurrency": 2, "requests": 30},
            "measure": {"runs": 1, "warmup": "none"},
        }
        document["workload"].pop("output_tokens", None) if api == "openai-embeddings" else None
        result = assay.run(document, store=tmp_path / "store")
    assert job(result).state == "done", job(result).error
    assert facts(result)["errors"] == {}
    assert ("latency_ms" if api == "openai-embeddings" else "ttft_ms") in job(result).metrics


@pytest.mark.quiet
def test_any_json_api(tmp_path):
    with http_server(latency_ms=20) as sim:
        document = {
            "benchmark": "plain",
            "target": {"endpoint": sim.url, "api": "http", "path": "/anything", "body": {"text": "$prompt"}},
            "load": {"concurrency": 2, "requests": 40},
            "measure": {"runs": 1, "warmup": "none"},
        }
        result = assay.run(document, store=tmp_path / "store")
        truth = sim.records()
    served = np.median(truth.end_ns - truth.arrival_ns) / 1e6
    assert job(result).metrics["latency_ms"].median == pytest.approx(served, abs=6)


def test_outputs_are_kept_and_can_be_read_again(tmp_path):
    with llm_server(ttft_ms=2, itl_ms=1, tokens=8) as sim:
        result = run(sim.url, tmp_path, workload={"task": "wikipedia-summary", "output_tokens": 8})
    assert "rouge_l" in job(result).metrics
    kept = job(result).runs[0].files
    assert "outputs.jsonl.gz" in kept
    json.dumps(dict(kept))
