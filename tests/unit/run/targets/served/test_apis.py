"""What goes over the wire, and how the answers of each protocol are read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.unit.run.targets.served.building import target, usage

from assay.errors import MeasureError
from assay.plugins import plugin_names
from assay.run.apis import find_api, wire_path
from assay.run.apis.answers import REASONING, TEXT
from assay.run.targets.served.rows import events_by_piece
from assay.run.workloads import Item
from assay.spec.target import APIS

ITEM = Item("a", ("say hi",), output_tokens=16)
TALK = Item("t", ("one", "two", "three"), system="be brief", output_tokens=8)


def sent(item=ITEM, turn=0, answers=(), *, seed=0, **given) -> dict:
    return json.loads(find_api(target(**given), seed).call(item, turn, list(answers)).body)


def lines(*events) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


@pytest.mark.parametrize(
    ("endpoint", "path", "whole"),
    [
        ("", "/v1/chat/completions", "/v1/chat/completions"),
        ("/", "/v1/chat/completions", "/v1/chat/completions"),
        ("/v1", "/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions", "/v1/chat/completions"),
        ("/proxy", "/v1/chat/completions", "/proxy/v1/chat/completions"),
        ("/proxy/v1", "/v1/chat/completions", "/proxy/v1/chat/completions"),
        ("/v1beta/openai", "/v1/chat/completions", "/v1beta/openai/chat/completions"),
        ("/api/paas/v4", "/v1/chat/completions", "/api/paas/v4/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions", "/v1/chat/completions"),
        ("/v1", "/chat/completions", "/v1/chat/completions"),
        ("/api", "/api/chat", "/api/chat"),
        ("", "/", "/"),
        ("/predict", "/", "/predict"),
        ("/base", "/search?q=a/b", "/base/search?q=a/b"),
        ("", "/models/", "/models/"),
    ],
)
def test_the_path_of_the_url_and_of_the_protocol_meet(endpoint, path, whole):
    assert wire_path(endpoint, path) == whole


def test_a_chat_request_is_greedy_seeded_and_streamed():
    assert sent(seed=7) == {
        "model": "m",
        "messages": [{"role": "user", "content": "say hi"}],
        "temperature": 0,
        "seed": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 16,
    }


def test_no_length_is_requested_where_none_is_given():
    assert "max_tokens" not in sent(Item("a", ("hi",)))


def test_nothing_of_streams_is_sent_where_none_is_wanted():
    for given in ({"stream": False}, {"options": {"stream": False}}):
        body = sent(**given)
        assert "stream_options" not in body
        assert body.get("stream") in (None, False)
        assert not find_api(target(**given), 0).streams


def test_the_users_fields_win_and_null_takes_one_away():
    body = sent(options={"temperature": 0.7, "seed": None, "stream_options": {"chunk": 1}, "ignore_eos": True})
    assert body["temperature"] == 0.7
    assert "seed" not in body
    assert body["stream_options"] == {"include_usage": True, "chunk": 1}
    assert body["ignore_eos"] is True


def test_the_newer_name_of_the_length_takes_the_place_of_the_older():
    body = sent(options={"max_completion_tokens": "$output_tokens", "min_tokens": "$output_tokens"})
    assert (body["max_completion_tokens"], body["min_tokens"]) == (16, 16)
    assert "max_tokens" not in body
    with pytest.raises(MeasureError, match="output_tokens"):
        sent(Item("a", ("hi",)), options={"min_tokens": "$output_tokens"})


def test_a_prompt_that_looks_like_a_placeholder_is_a_prompt():
    assert sent(Item("a", ("$output_tokens",), output_tokens=3))["messages"][0]["content"] == "$output_tokens"


def test_a_conversation_holds_the_servers_own_answers():
    assert sent(TALK, 2, ["1", "2"])["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "three"},
    ]


def test_completions_have_one_text():
    assert sent(TALK, 1, ["1"], api="openai-completions")["prompt"] == "be brief\n\none\n\n1\n\ntwo"
    call = find_api(target(api="openai-completions"), 0).call(ITEM, 0, [])
    assert (call.path, call.headers["Accept"]) == ("/v1/completions", "text/event-stream")


def test_completions_are_read():
    api = find_api(target(api="openai-completions"), 0)

    def event(text, finish=None, **more):
        choice = {"index": 0, "text": text, "finish_reason": finish}
        return f"data: {json.dumps({'id': 'c', 'choices': [choice], **more})}\n\n"

    body = "".join(
        [event("a"), event("b"), event(""), event("c"), event("", "stop", usage=usage(5)), "data: [DONE]\n\n"]
    )
    answer = api.draft(body.encode())
    assert (answer.text, len(answer.ends), len(answer.blanks), answer.finish) == ("abc", 3, 1, "stop")
    assert answer.usage.output == 5
    assert answer.finish_end > 0


@pytest.mark.parametrize("api", [name for name in plugin_names(APIS) if name != "http"])
def test_a_missing_model_is_reported_when_the_request_is_built(api):
    with pytest.raises(MeasureError, match=r"target\.model is missing"):
        find_api(target(api=api, model=None), 0)
    assert find_api(target(api=api, model=None, options={"model": "x"}), 0)


def test_an_unknown_protocol_is_reported_with_those_that_are_known():
    with pytest.raises(MeasureError, match="qdrant") as found:
        find_api(target(api="qdrant"), 0)
    assert "openai-chat" in found.value.problem.try_


def test_headers_of_the_user_win_whatever_their_case():
    headers = (
        find_api(target(headers={"ACCEPT": "x", "Authorization": "Bearer ${env:KEY}"}), 0).call(ITEM, 0, []).headers
    )
    assert headers == {"Content-Type": "application/json", "ACCEPT": "x", "Authorization": "Bearer ${env:KEY}"}


def test_ollama_gets_its_options_where_it_searches_them():
    body = sent(api="ollama", seed=3, options={"num_ctx": 512, "keep_alive": "5m", "options": {"top_k": 1}})
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "say hi"}],
        "stream": True,
        "keep_alive": "5m",
        "options": {"temperature": 0, "seed": 3, "num_predict": 16, "num_ctx": 512, "top_k": 1},
    }
    assert "num_predict" not in sent(Item("a", ("hi",)), api="ollama")["options"]
    assert "seed" not in sent(api="ollama", options={"seed": None})["options"]


def test_ollama_is_read_line_by_line():
    api = find_api(target(api="ollama"), 0)
    says = [{"message": {"role": "assistant", "content": text}, "done": False} for text in ("he", "", "llo")]
    thinks = {"message": {"role": "assistant", "content": "", "thinking": "hm"}, "done": False}
    last = {
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 9,
        "eval_count": 5,
    }
    body = lines(thinks, *says, last)
    for raw in (body, body.replace(b"\n", b"\r\n"), body.rstrip(), b"\n" + body):
        cut = raw.index(b"llo")
        answer = api.draft(raw)
        assert (answer.text, answer.reasoning, answer.finish, answer.fault) == ("hello", "hm", "stop", None)
        assert answer.channels == bytes([REASONING, TEXT, TEXT])
        assert events_by_piece(np.array(answer.ends), np.array([cut, len(raw)])).tolist() == [2, 1]
        assert (answer.usage.input, answer.usage.output, len(answer.blanks)) == (9, 5, 1)


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"", "empty", "no body"),
        (b'{"error":"model \\"x\\" not found"}', "error-event", 'model "x" not found'),
        (b'{"message":{"content":"a"},"done":false}\n', "cut", "before its last line"),
        (b'{"message":{"content":"a"},"done":false}\n{"mess', "malformed", "mess"),
        (b'{"status":"pulling"}\n', "shape", "neither message nor done"),
    ],
)
def test_what_is_wrong_with_lines_is_said(body, kind, words):
    fault = find_api(target(api="ollama"), 0).draft(body).fault
    assert fault.kind == kind
    assert words in fault.words


def test_ollama_without_a_stream():
    api = find_api(target(api="ollama", stream=False), 0)
    whole = {"message": {"content": "hello"}, "done": True, "done_reason": "length", "eval_count": 3}
    answer = api.draft(json.dumps(whole).encode())
    assert (api.streams, answer.streamed, answer.text, answer.usage) == (False, False, "hello", (None, 3, None, None))


def test_embeddings_take_all_texts_of_an_item():
    item = Item("e", ("one", "two"))
    body = sent(item, api="openai-embeddings", options={"dimensions": 2})
    assert body == {"model": "m", "input": ["one", "two"], "dimensions": 2}
    answer = find_api(target(api="openai-embeddings"), 0).draft(
        json.dumps(
            {"data": [{"embedding": [0.1, 0.2]}, {"embedding": [0.3, 0.4]}], "usage": {"prompt_tokens": 4}}
        ).encode()
    )
    assert (answer.vectors, answer.dims, answer.usage.input, answer.fault) == (2, 2, 4, None)


@pytest.mark.parametrize("body", [b'{"data": []}', b'{"data": [{}]}', b'{"object": "list"}', b"[1]", b"oops"])
def test_embeddings_without_a_vector_are_a_fault(body):
    assert find_api(target(api="openai-embeddings"), 0).draft(body).fault is not None


def test_plain_http_fills_its_placeholders():
    body = {"text": "$prompt", "n": "$output_tokens", "note": "up to $output_tokens: $prompt"}
    given = {"api": "http", "model": None, "path": "/predict", "body": {**body, "nested": [{"x": "$prompt"}], "k": 3}}
    item = Item("a", ('say "$output_tokens"',), output_tokens=5)
    call = find_api(target(**given), 0).call(item, 0, [])
    assert (call.method, call.path) == ("POST", "/predict")
    assert json.loads(call.body) == {
        "text": 'say "$output_tokens"',
        "n": 5,
        "note": 'up to 5: say "$output_tokens"',
        "nested": [{"x": 'say "$output_tokens"'}],
        "k": 3,
    }
    assert find_api(target(**given), 0).draft(b"any thing").text == "any thing"


def test_plain_http_can_ask_by_its_path():
    call = find_api(target(api="http", model=None, method="GET", path="/q?text=$prompt"), 0).call(
        Item("a", ("a b&c",)), 0, []
    )
    assert (call.method, call.path, call.body) == ("GET", "/q?text=a%20b%26c", b"")


def test_plain_http_needs_a_body():
    with pytest.raises(MeasureError, match=r"target\.body is missing"):
        find_api(target(api="http"), 0)
    with pytest.raises(MeasureError, match=r"target\.options"):
        find_api(target(api="http", body=["$prompt"], options={"a": 1}), 0)
    with pytest.raises(MeasureError, match="output_tokens"):
        find_api(target(api="http", body={"n": "$output_tokens"}), 0).call(Item("a", ("x",)), 0, [])
