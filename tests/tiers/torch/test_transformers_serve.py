"""`transformers serve` measured over HTTP: it ends its streams without `[DONE]`, and that is an answer all the same."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import httpx
import numpy as np
import pytest

import assay

pytestmark = pytest.mark.live
TOKENS = 12
TEMPLATE_TOKENS = 3  # <|user|>, <|end|> and <|assistant|> around a message
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def serving(llama, tmp_path_factory):
    """URL of the server; `transformers` stands beside the interpreter of these tests."""
    folder = tmp_path_factory.mktemp("serving")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "hub").mkdir()  # without it the list of models is an error
    own = {"HF_HOME": str(folder), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    program = Path(sys.executable).with_name("transformers")
    words = ["serve", str(llama), "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=os.environ | own
        )
    try:
        _await(process, f"http://127.0.0.1:{port}/health", folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(process, health, log):
    until = monotonic() + PATIENCE_S
    while True:
        try:
            if httpx.get(health, timeout=5, trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None or monotonic() > until:
            raise RuntimeError(log.read_text(errors="replace")[-3000:])
        sleep(0.1)


def body(llama, stream=True):
    said = {"model": str(llama), "messages": [{"role": "user", "content": "the quick brown fox"}]}
    return said | {"max_tokens": TOKENS, "temperature": 0, "stream": stream}


def test_it_says_no_done(serving, llama):
    """If this fails, the server has learnt it: the tests below then no longer show what they should."""
    said = httpx.post(f"{serving}/v1/chat/completions", json=body(llama), timeout=60, trust_env=False).text
    assert "data: {" in said
    assert "[DONE]" not in said


def run(url, llama, tmp_path, workload=None, **target):
    document = {
        "benchmark": "transformers serve",
        "target": {"endpoint": url, "api": "openai-chat", "model": str(llama), **target},
        "workload": {"output_tokens": TOKENS, **(workload or {})},
        "load": {"concurrency": 2, "requests": 24},
        "measure": {"runs": 1, "warmup": 2, "timeout": "2m"},
    }
    result = assay.run(document, store=tmp_path / "store")
    (job,) = result.jobs
    return result, job


def measured(result, job, metric):
    (found,) = [one for one in result.samples(job.job, 0) if one.metric == metric and one.phase == "measure"]
    return found.value


def test_its_streams_are_answers_and_their_tokens_are_counted(serving, llama, tmp_path):
    result, job = run(serving, llama, tmp_path)
    assert job.state == "done", job.error
    facts = job.runs[0].facts
    assert facts["errors"] == {}
    assert facts["requests"]["ok"] == 24
    assert facts["tokens"]["output"]["source"] == "server usage"
    assert set(measured(result, job, "output_tokens")) == {TOKENS}
    assert (measured(result, job, "ttft_ms") > 0).all()
    ttft, e2e = measured(result, job, "ttft_ms"), measured(result, job, "e2e_ms")
    assert (ttft <= e2e).all()
    assert np.median(ttft) < np.median(e2e), "tokens came as they were made"
    assert facts["tokens"]["tokens_per_chunk"]["mean"] >= 1


def test_prompts_of_a_length_by_a_local_tokenizer_are_that_long(serving, llama, tmp_path):
    result, job = run(serving, llama, tmp_path, {"input_tokens": 60}, tokenizer=str(llama))
    facts = job.runs[0].facts
    assert facts["errors"] == {}
    assert set(measured(result, job, "input_tokens")) == {60 + TEMPLATE_TOKENS}
    assert facts["tokens"]["input"]["source"] == "server usage"


def test_an_answer_in_one_piece(serving, llama, tmp_path):
    result, job = run(serving, llama, tmp_path, stream=False)
    assert job.runs[0].facts["errors"] == {}
    assert set(measured(result, job, "output_tokens")) == {TOKENS}


def test_a_model_that_it_does_not_have_is_refused_in_its_own_words(serving, tmp_path):
    _, job = run(serving, "no/such-model", tmp_path)
    assert job.state == "failed"
    assert job.error.code == "endpoint-status"
    assert "no/such-model" in job.error.message
