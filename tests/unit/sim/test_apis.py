"""What is said: OpenAI, Ollama, the tokenizer, the metrics."""

from __future__ import annotations

import base64
import re
import struct

import pytest
from tests.support.simulated import llm_server
from tests.unit.sim.raw import CHAT, ask, chat, fetch

pytestmark = pytest.mark.live

TEXT = "/v1/completions"
USAGE = {"stream_options": {"include_usage": True}}


@pytest.fixture(scope="module")
def sim():
    with llm_server(tokens=6, context_limit=50) as server:
        yield server


def texts(events, part="delta", key="content"):
    return "".join(choice[part].get(key, "") for event in events if event != "[DONE]" for choice in event["choices"])


def test_a_chat_in_a_stream(sim):
    answer = ask(sim, CHAT, chat("one two"))
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, last, done = answer.events
    assert done == "[DONE]"
    assert len(answer.chunks) == 8  # each event travels in a chunk of its own
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert len(texts(events).split()) == 6
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert all("usage" not in event for event in (*events, last))
    assert {event["id"] for event in (*events, last)} == {answer.headers["x-request-id"].replace("sim-", "chatcmpl-")}


def test_counts_are_reported_when_they_are_requested(sim):
    last = ask(sim, CHAT, chat("one two", **USAGE)).events[-2]
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 2, "completion_tokens": 6, "total_tokens": 8}


def test_a_chat_in_one_piece_says_the_same(sim):
    whole = ask(sim, CHAT, chat("one two", stream=False)).json
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0]["message"]["content"] == texts(ask(sim, CHAT, chat()).events)
    assert whole["usage"]["total_tokens"] == 8


@pytest.mark.parametrize(
    ("more", "tokens", "reason"),
    [
        ({"max_tokens": 4}, 4, "length"),
        ({"max_completion_tokens": 4, "max_tokens": 9}, 4, "length"),
        ({"max_tokens": 6}, 6, "length"),
        ({"max_tokens": 9}, 6, "stop"),
        ({"max_tokens": 9, "ignore_eos": True}, 9, "length"),
        ({"max_tokens": 9, "min_tokens": 9}, 9, "length"),
        ({"min_tokens": 8}, 8, "stop"),
        ({}, 6, "stop"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_the_request_bounds_the_answer(sim, more, tokens, reason, stream):
    answer = ask(sim, CHAT, chat(stream=stream, **more, **USAGE))
    told = answer.events[-2] if stream else answer.json
    assert told["usage"]["completion_tokens"] == tokens
    ended = (answer.events[-3] if stream else told)["choices"][0]["finish_reason"]
    assert ended == reason
    if stream:
        assert len(texts(answer.events).split()) == tokens


def test_a_completion(sim):
    answer = ask(sim, TEXT, {"prompt": "a b c", "stream": True, **USAGE})
    assert len("".join(event["choices"][0]["text"] for event in answer.events[:-2]).split()) == 6
    assert answer.events[-2]["usage"]["prompt_tokens"] == 3
    whole = ask(sim, TEXT, {"prompt": [1, 2, 3, 4], "max_tokens": 2}).json
    assert whole["usage"] == {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
    assert ask(sim, TEXT, {"prompt": ["a b"]}).json["usage"]["prompt_tokens"] == 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, chat(max_tokens=0)),
        (CHAT, chat(max_tokens="5")),
        (CHAT, chat(stream="yes")),
        (CHAT, {"messages": []}),
        (CHAT, {"messages": ["hello"]}),
        (CHAT, {"messages": [{"role": "user", "content": 5}]}),
        (TEXT, {"prompt": ["a", "b"]}),
        (TEXT, {"prompt": 5}),
        (TEXT, {}),
        ("/v1/embeddings", {"input": 5}),
        ("/v1/embeddings", {"input": []}),
        ("/v1/embeddings", {"input": [99_999_999]}),
        ("/api/generate", {"prompt": "a", "options": {"num_predict": 0}}),
    ],
)
def test_requests_that_are_wrong(sim, path, body):
    answer = ask(sim, path, body)
    assert answer.status == 400
    assert answer.json["error"]


def test_parts_of_a_message(sim):
    content = [{"type": "text", "text": "a b"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "c"}]
    told = ask(sim, CHAT, {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": None}]})
    assert told.json["usage"]["prompt_tokens"] == 3


def test_a_prompt_that_is_too_long(sim):
    assert ask(sim, CHAT, chat("w " * 50)).status == 200
    answer = ask(sim, CHAT, chat("w " * 51))
    assert answer.status == 400
    assert answer.json["error"]["code"] == "context_length_exceeded"
    assert "51 input tokens" in answer.json["error"]["message"]
    assert ask(sim, "/v1/embeddings", {"input": "w " * 51}).status == 400


def test_embeddings(sim):
    told = ask(sim, "/v1/embeddings", {"input": ["a b", "c"], "dimensions": 5}).json
    assert [row["index"] for row in told["data"]] == [0, 1]
    assert len(told["data"][0]["embedding"]) == 5
    assert told["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    packed = ask(sim, "/v1/embeddings", {"input": "a b", "encoding_format": "base64", "dimensions": 5}).json
    numbers = struct.unpack("<5f", base64.b64decode(packed["data"][0]["embedding"]))
    assert numbers == pytest.approx(told["data"][0]["embedding"])
    assert ask(sim, "/api/embed", {"input": "a b"}).json["prompt_eval_count"] == 2
    assert len(ask(sim, "/api/embed", {"input": ["a", "b"]}).json["embeddings"]) == 2


def test_ollama(sim):
    answer = ask(sim, "/api/chat", {"messages": [{"role": "user", "content": "a b"}], "options": {"num_predict": 3}})
    assert answer.headers["content-type"] == "application/x-ndjson"
    *lines, last = answer.lines
    assert len("".join(line["message"]["content"] for line in lines).split()) == 3
    assert not any(line["done"] for line in lines)
    assert (last["done"], last["done_reason"], last["eval_count"], last["prompt_eval_count"]) == (True, "length", 3, 2)
    whole = ask(sim, "/api/generate", {"prompt": "a b c", "system": "d", "stream": False}).json
    assert len(whole["response"].split()) == whole["eval_count"] == 6
    assert whole["prompt_eval_count"] == 4
    assert fetch(sim, "/api/tags").json["models"][0]["name"] == "sim"


@pytest.mark.quiet
def test_ollama_s_times_are_those_of_the_record():
    with llm_server(ttft_ms=30, itl_ms=5, tokens=5) as sim:
        for stream in (True, False):
            last = ask(sim, "/api/generate", {"prompt": "a", "stream": stream}).lines[-1]
            records = sim.records()
            assert last["total_duration"] == pytest.approx(records.last_ns[-1] - records.arrival_ns[-1], abs=5e6)
            assert last["prompt_eval_duration"] >= (30e6 if stream else 50e6)


def test_models(sim):
    assert fetch(sim, "/v1/models").json["data"][0]["id"] == "sim"


def test_the_tokenizer_as_vllm_has_it(sim):
    told = ask(sim, "/tokenize", {"model": "sim", "prompt": "some words  here"}).json
    assert (told["count"], told["max_model_len"], len(told["tokens"])) == (3, 50, 3)
    assert ask(sim, "/detokenize", {"tokens": told["tokens"]}).json["prompt"] == "some words here"
    assert ask(sim, "/tokenize", {"messages": [{"role": "user", "content": "a b"}]}).json["count"] == 2


def test_the_tokenizer_as_llama_cpp_has_it(sim):
    told = ask(sim, "/tokenize", {"content": "some words"}).json
    assert list(told) == ["tokens"]
    assert ask(sim, "/detokenize", {"tokens": told["tokens"]}).json["content"] == "some words"


def test_the_tokenizer_agrees_with_the_counts(sim):
    text = texts(ask(sim, CHAT, chat()).events)
    assert ask(sim, "/tokenize", {"prompt": text}).json["count"] == 6


@pytest.mark.parametrize("body", [{}, {"prompt": 5}, {"content": None}])
def test_nothing_to_tokenize(sim, body):
    assert ask(sim, "/tokenize", body).status == 400


@pytest.mark.parametrize("tokens", [None, "5", [10**9], ["a"]])
def test_nothing_to_detokenize(sim, tokens):
    assert ask(sim, "/detokenize", {"tokens": tokens}).status == 400


def test_settings_of_the_api():
    with llm_server(tokens=4, model="tiny", api_key="s3cret", no_tokenizer=True, no_done=True, usage="always") as sim:
        key = "authorization: Bearer s3cret\r\n"
        ok = ask(sim, CHAT, {**chat(), "model": "tiny"}, key)
        assert ok.events[-1]["usage"]["completion_tokens"] == 4  # counts without being asked, and no [DONE]
        missing = ask(sim, CHAT, {**chat(), "model": "other"}, key)
        assert (missing.status, missing.json["error"]["code"]) == (404, "model_not_found")
        for more in ("", "authorization: Bearer wrong\r\n"):
            refused = ask(sim, CHAT, {**chat(), "model": "tiny"}, more)
            assert (refused.status, refused.json["error"]["code"]) == (401, "invalid_api_key")
            assert fetch(sim, "/v1/models", more=more).status == 401
        assert fetch(sim, "/v1/models", more=key).json["data"][0]["id"] == "tiny"
        assert ask(sim, "/tokenize", {"prompt": "a"}).status == 404
        records = sim.records()
        assert [records.outcomes[code] for code in records.outcome] == ["ok", "refused", "refused", "refused"]
        assert records.status.tolist() == [200, 404, 401, 401]


def test_no_counts_at_all():
    with llm_server(usage="never") as sim:
        assert b"usage" not in ask(sim, CHAT, chat(**USAGE)).body
        assert "usage" not in ask(sim, CHAT, chat(stream=False)).json
        assert b"eval_count" not in ask(sim, "/api/generate", {"prompt": "a"}).body


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_comes_first_in_its_own_field(field):
    with llm_server(tokens=10, reasoning_tokens=4, reasoning_field=field, tokens_per_chunk=3) as sim:
        answer = ask(sim, CHAT, chat(**USAGE))
        deltas = [event["choices"][0]["delta"] for event in answer.events[:-3]]
        assert [len(delta.get(field, "").split()) for delta in deltas] == [3, 1, 0, 0, 0]
        assert [len(delta.get("content", "").split()) for delta in deltas] == [0, 0, 2, 3, 1]
        assert answer.events[-2]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 4}
        whole = ask(sim, CHAT, chat(stream=False)).json["choices"][0]["message"]
        assert (len(whole[field].split()), len(whole["content"].split())) == (4, 6)
        line = ask(sim, "/api/chat", {**chat(), "stream": True}).lines[0]
        assert len(line["message"]["thinking"].split()) == 3


@pytest.mark.parametrize("role", ["apart", "early"])
def test_a_role_without_text(role):
    with llm_server(tokens=3, role=role, ttft_ms=80) as sim:
        answer = ask(sim, CHAT, chat())
        assert answer.events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert len(texts(answer.events).split()) == 3
        assert sim.records().chunk_tokens.tolist() == [1, 1, 1]  # it is no token


def test_a_given_answer_and_a_template():
    with llm_server(tokens=5, answer="to be or", template_tokens=3) as sim:
        answer = ask(sim, CHAT, chat("a b", **USAGE))
        assert texts(answer.events) == "to be or to be"
        assert answer.events[-2]["usage"]["prompt_tokens"] == 5


def test_lengths_that_are_drawn_depend_on_the_number_of_the_request():
    with llm_server(tokens="uniform:5,50", seed=3) as sim:
        first = [ask(sim, CHAT, chat(stream=False)).json["usage"]["completion_tokens"] for _ in range(8)]
        sim.clear()
        again = [ask(sim, CHAT, chat(stream=False)).json["usage"]["completion_tokens"] for _ in range(8)]
    assert first == again
    assert len(set(first)) > 3
    assert all(5 <= tokens <= 50 for tokens in first)


def test_metrics_are_what_was_done():
    with llm_server(tokens=5, error=["500:number=2"]) as sim:
        for _ in range(3):
            ask(sim, CHAT, chat("a b c", max_tokens=4))
        ask(sim, CHAT, chat())
        ask(sim, CHAT, {})
        text = fetch(sim, "/metrics").body.decode()
    values = dict(re.findall(r"^([a-z_:]+(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE))
    assert values['vllm:generation_tokens_total{model_name="sim"}'] == "13"
    assert values['vllm:prompt_tokens_total{model_name="sim"}'] == "12"
    assert values['vllm:request_success_total{model_name="sim",finished_reason="length"}'] == "2"
    assert values['vllm:request_success_total{model_name="sim",finished_reason="stop"}'] == "1"
    assert values['vllm:num_requests_running{model_name="sim"}'] == "0"
    assert values['sim_faults_total{model_name="sim"}'] == "1"
    assert values['sim_refused_total{model_name="sim"}'] == "1"
    assert values['vllm:time_to_first_token_seconds_count{model_name="sim"}'] == "3"
    assert float(values["process_cpu_seconds_total"]) > 0
    assert float(values["process_resident_memory_bytes"]) > 1e6
