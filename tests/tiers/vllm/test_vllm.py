"""vLLM measured: its counts are ours, lengths are what was asked for, and its own view agrees with the client's."""

import json

import httpx
import numpy as np
import pytest
from tests.tiers.vllm.conftest import CONTEXT, OWN, command
from tests.tiers.vllm.tiny_llama import TEMPLATE_TOKENS

import assay

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]
TOKENS = 24


def run(url, tmp_path, *, load=None, workload=None, options=None, **target):
    document = {
        "benchmark": "vLLM",
        "target": {
            "endpoint": url,
            "api": "openai-chat",
            "model": "tiny",
            "metrics": "/metrics",
            "options": {"ignore_eos": True, **(options or {})},
            **target,
        },
        "workload": {"output_tokens": TOKENS, **(workload or {})},
        "load": load or {"concurrency": 2, "requests": 40},
        "measure": {"runs": 1, "warmup": 4, "timeout": "4m"},
    }
    result = assay.run(document, store=tmp_path / "store")
    (job,) = result.jobs
    return result, job


def samples(result, job, metric):
    (found,) = [one for one in result.samples(job.job, 0) if one.metric == metric and one.phase == "measure"]
    return found.value


def test_every_answer_has_the_length_that_was_requested_and_the_server_counted_it(vllm_url, tmp_path):
    result, job = run(vllm_url, tmp_path)
    assert job.state == "done", job.error
    facts = job.runs[0].facts
    assert facts["errors"] == {}
    assert facts["requests"]["ok"] == 40
    assert set(samples(result, job, "output_tokens")) == {TOKENS}
    assert facts["lengths"]["output"]["as_asked"] == 1.0
    assert facts["finish_reasons"] == {"length": 40}
    assert facts["tokens"]["output"]["source"] == facts["tokens"]["input"]["source"] == "server usage"
    gaps, ttft, e2e = (samples(result, job, metric) for metric in ("itl_ms", "ttft_ms", "e2e_ms"))
    # Tokens that came together with the first have no gap of their own; on an idle machine there are none such.
    assert 0 < len(gaps) <= 40 * (TOKENS - 1), "every gap between tokens is a sample"
    filled = pytest.approx((e2e - ttft).sum(), rel=0.15, abs=200)
    assert gaps.sum() == filled, "the gaps fill the time from the first token on"


def test_a_token_that_is_half_a_character_is_no_bundle(vllm_url, tmp_path):
    """Random weights say many bytes that are no characters; vLLM sends an event without text for each."""
    _, job = run(vllm_url, tmp_path, load={"concurrency": 1, "requests": 40})
    tokens = job.runs[0].facts["tokens"]
    assert tokens["bundled"] is False
    assert tokens["tokens_per_chunk"]["mean"] == pytest.approx(1, abs=0.1)


def test_lengths_that_vary_are_each_as_asked(vllm_url, tmp_path):
    spread = {"mean": 20, "min": 5, "max": 35, "shape": "uniform"}
    result, job = run(vllm_url, tmp_path, workload={"output_tokens": spread, "items": 30})
    facts = job.runs[0].facts
    assert facts["errors"] == {}
    assert facts["lengths"]["output"]["as_asked"] == 1.0
    assert len(set(samples(result, job, "output_tokens"))) > 5


@pytest.mark.parametrize("api", ["openai-chat", "openai-completions"])
@pytest.mark.parametrize("length", [10, 100, 333])
def test_prompts_of_a_length_by_the_servers_tokenizer_are_that_long(vllm_url, tmp_path, api, length):
    result, job = run(
        vllm_url,
        tmp_path,
        api=api,
        load={"concurrency": 2, "requests": 12},
        workload={"input_tokens": length, "output_tokens": 2, "items": 12},
    )
    assert job.state == "done", job.error
    around = TEMPLATE_TOKENS if api == "openai-chat" else 0
    assert set(samples(result, job, "input_tokens")) == {length + around}
    facts = job.runs[0].facts
    assert facts["workload"]["tokenizer"] == "server /tokenize (vLLM)"
    assert "tokenizer_disagrees_on_prompts" not in facts["tokens"]


def test_the_servers_own_view_agrees_with_the_clients(vllm_url, tmp_path):
    result, job = run(vllm_url, tmp_path, load={"concurrency": 4, "duration": "8s"})
    facts = job.runs[0].facts
    assert facts["errors"] == {}
    (view,) = facts["server_view"].values()
    for metric in ("ttft_ms", "itl_ms", "e2e_ms"):
        ours, theirs = float(np.mean(samples(result, job, metric))), view[f"{metric}.mean"]["value"]
        assert view[f"{metric}.mean"]["from"].startswith("vllm:")
        # The server's clock starts later and stops earlier than ours; what lies between is HTTP, its own threads, and
        # on a busy machine the wait of either side for a processor.
        assert theirs < 1.2 * ours, f"{metric}: {theirs} ms at the server, {ours} ms at the client"
        assert ours < 2 * theirs + 50, f"{metric}: {theirs} ms at the server, {ours} ms at the client"
    ours = job.metrics["output_tokens_per_s"].median
    assert view["output_tokens_per_s"]["value"] == pytest.approx(ours, rel=0.2)
    assert 0 < view["concurrency.mean"]["value"] <= 4, "a gauge that was read now and then"
    low, high = view["ttft_ms.p50"]["between"]
    assert low <= np.median(samples(result, job, "ttft_ms")) * 1.1, f"between {low} and {high} at the server"


def test_an_answer_in_one_piece_is_counted_too(vllm_url, tmp_path):
    result, job = run(vllm_url, tmp_path, stream=False, load={"concurrency": 2, "requests": 10})
    assert job.runs[0].facts["errors"] == {}
    assert set(samples(result, job, "output_tokens")) == {TOKENS}
    assert "ttft_ms" not in job.metrics
    assert "ttft_ms" in job.runs[0].absent


def test_conversations_hold_what_the_server_said(vllm_url, tmp_path):
    talk = {"task": "conversation", "turns": 3, "input_tokens": 20, "output_tokens": 8}
    result, job = run(vllm_url, tmp_path, workload=talk, load={"concurrency": 2, "requests": 24})
    facts = job.runs[0].facts
    assert facts["errors"] == {}
    prompts = samples(result, job, "input_tokens")
    assert prompts.min() == 20 + TEMPLATE_TOKENS
    assert prompts.max() > 2 * prompts.min(), "later turns hold the earlier ones"


def test_a_wrong_model_name_ends_with_the_servers_words(vllm_url, tmp_path):
    _, job = run(vllm_url, tmp_path, model="wrong")
    assert job.state == "failed"
    assert job.error.code == "endpoint-status"
    assert "404" in job.error.message
    assert "The model `wrong` does not exist" in job.error.message
    assert "target.model" in job.error.try_


def test_a_context_overflow_ends_with_the_servers_words(vllm_url, tmp_path):
    _, job = run(vllm_url, tmp_path, workload={"input_tokens": CONTEXT + 88, "output_tokens": 8})
    assert job.state == "failed"
    assert "400" in job.error.message
    assert str(CONTEXT) in job.error.message


def test_a_context_overflow_of_some_requests_is_counted_beside_the_good_ones(vllm_url, tmp_path):
    words = httpx.get(f"{vllm_url}/v1/models", trust_env=False).json()["data"][0]
    assert words["max_model_len"] == CONTEXT
    lines = [{"prompt": "word " * (2000 if number % 4 == 0 else 20)} for number in range(8)]
    lines[-1] = {"prompt": "short"}  # the first request of all
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    _, job = run(
        vllm_url,
        tmp_path,
        workload={"task": "prompts", "file": str(tmp_path / "prompts.jsonl")},
        load={"concurrency": 2, "requests": 40},
    )
    facts = job.runs[0].facts
    assert facts["errors"]["status 400"]["count"] == 10
    assert str(CONTEXT) in facts["errors"]["status 400"]["first"]
    assert facts["requests"]["ok"] == 30


def test_started_by_us_its_clocks_are_distinguished(tiny_llama, tmp_path):
    document = {
        "benchmark": "vLLM as a service",
        "services": {
            "llm": {"command": command(tiny_llama, "{port}"), "env": OWN, "ready": {"http": "/health", "within": "5m"}}
        },
        "target": {
            "service": "llm",
            "api": "openai-chat",
            "model": "tiny",
            "metrics": "/metrics",
            "options": {"ignore_eos": True},
        },
        "workload": {"output_tokens": TOKENS},
        "load": {"concurrency": 2, "requests": 20},
        "measure": {"runs": 1, "warmup": "none", "timeout": "5m"},
    }
    result = assay.run(document, store=tmp_path / "store")
    (job,) = result.jobs
    assert job.state == "done", job.error
    metrics, facts = job.metrics, job.runs[0].facts
    assert facts["errors"] == {}
    assert 1 < metrics["start_to_ready_s"].median < metrics["start_to_first_token_s"].median
    processes = facts["telemetry"]["processes"]["service"]
    assert processes["rss_mb_max"] > 500, "with the engine's own process"
    assert {"service-llm.out", "service-llm.err"} <= set(job.runs[0].files)
