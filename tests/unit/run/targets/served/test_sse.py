"""Streams are read the same however they were cut, and what is wrong with them is said."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.run.targets.served.building import chat, chunk, sse, target, usage

from assay.run.apis import find_api
from assay.run.apis.answers import REASONING, TEXT, TOOL
from assay.run.apis.readers import frame_at
from assay.run.targets.served.rows import events_by_piece

API = find_api(target(), 0)
TEXTS = st.lists(st.text(min_size=1, max_size=8), max_size=40)


def read(events):
    body = events if isinstance(events, bytes) else b"".join(events)
    return API.draft(body)


def by_piece(answer, cuts):
    return events_by_piece(np.asarray(answer.ends, dtype=np.int64), np.asarray(cuts, dtype=np.int64))


@st.composite
def cut_streams(draw):
    """A stream of any texts, written in any of the ways that are allowed, and places to cut it."""
    texts = draw(TEXTS)
    end = draw(st.sampled_from(["\n\n", "\r\n\r\n", "\r\r"]))
    escape = draw(st.booleans())
    space = draw(st.sampled_from(["", " "]))
    noise = draw(st.sampled_from(["", f": ping{end}", f"id: 7{end[: len(end) // 2]}"]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    events = [chunk({"role": "assistant", "content": ""})]
    events += [
        chunk({draw(st.sampled_from(["content", "reasoning_content"])): text}, created=draw(st.integers(1, 2)))
        for text in texts
    ]
    events += [chunk({}, finish="stop"), chunk(usage=usage(len(texts)))]
    data = [json.dumps(event, ensure_ascii=escape, separators=separators) for event in events]
    if draw(st.booleans()):
        data.append("[DONE]")
    body = "".join(f"{noise if number % 3 == 1 else ''}data:{space}{one}{end}" for number, one in enumerate(data))
    body = body.removesuffix(end) if draw(st.booleans()) else body
    raw = body.encode("utf-8", "surrogatepass")
    cuts = draw(st.lists(st.integers(1, len(raw)), max_size=12, unique=True))
    return events, raw, sorted({*cuts, len(raw)})


@settings(max_examples=300)
@given(cut_streams())
def test_any_split_into_pieces_gives_the_same_answer(case):
    events, raw, cuts = case
    sent = [choice["delta"] for event in events for choice in event["choices"]]
    contents = [delta["content"] for delta in sent if delta.get("content")]
    thoughts = [delta["reasoning_content"] for delta in sent if delta.get("reasoning_content")]
    answer = read(raw)
    pieces = by_piece(answer, cuts)
    assert answer.fault is None
    assert answer.text == "".join(contents)
    assert answer.reasoning == "".join(thoughts)
    assert pieces.sum() == len(answer.ends) == len(contents) + len(thoughts)
    assert len(pieces) == len(cuts)
    assert (answer.usage.input, answer.usage.output, answer.finish) == (10, len(answer.ends), "stop")
    # An event is in the piece that has its last byte.
    for number, (low, high) in enumerate(zip([0, *cuts], cuts, strict=False)):
        assert pieces[number] == sum(low < end <= high for end in answer.ends)
    for end, part in zip(answer.ends, answer.parts, strict=True):
        assert raw[:end].endswith(b"}")
        line = raw[:end].replace(b"\r", b"\n").rpartition(b"\n")[2].partition(b":")[2]
        assert part in json.loads(line)["choices"][0]["delta"].values()


@settings(max_examples=200)
@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_no_bytes_break_the_reader(junk, cuts):
    whole = b"".join(chat(["a", "b", "c"], output=3))
    for body in (junk, whole[: len(whole) // 2] + junk, junk + whole, b"data: " + junk + b"\n\n" + whole):
        answer = read(body)
        cut = sorted({*(min(cut, len(body)) for cut in cuts), len(body)})
        assert by_piece(answer, cut).sum() == len(answer.ends)


@settings(max_examples=200)
@given(st.lists(st.text(alphabet='ab"\\\n{}é😀', min_size=1, max_size=5), min_size=1, max_size=30), st.data())
def test_one_broken_event_in_a_run_is_found(texts, data):
    """Whatever stands between two good events is not read as text."""
    events = chat(texts, output=len(texts))
    bad = data.draw(st.integers(1, len(texts)))
    broken = data.draw(st.sampled_from([b'data: {"id":\n\n', b"data: }\n\n", b"nonsense\n\n", b'data: "x"\n\n']))
    events.insert(bad, broken)
    answer = read(events)
    assert answer.fault is not None
    assert answer.fault.kind in ("malformed", "shape")
    assert answer.text == "".join(texts)


def test_a_string_that_is_cut_inside_an_escape_is_malformed_even_in_a_run():
    events = chat(["one", "two", "three", "four"], output=4)
    events[3] = events[3].replace(b"three", b"thre\\")  # its string never ends
    answer = read(events)
    assert answer.fault.kind == "malformed"
    assert "thre" in answer.fault.words
    assert answer.text == "onetwofour"


def test_a_long_stream_that_changes_its_shape_is_read_whole():
    """The time in each event moves on, as it does in llama.cpp's."""
    events = [sse(chunk({"content": f" {n}"}, created=n // 300)) for n in range(5000)]
    answer = read([*events, *chat([], role=False)])
    assert answer.text == "".join(f" {n}" for n in range(5000))
    assert answer.fault is None
    assert list(answer.ends) == [end - 2 for end in np.cumsum([len(event) for event in events])]


def test_halves_of_a_character_in_two_events_become_whole():
    raw = b"".join(chat(["x", "AA", "BB", "y"], output=4)).replace(b"AA", b"\\ud83d").replace(b"BB", b"\\ude00")
    assert read(raw).text == "x😀y"


def test_events_of_several_lines_and_names():
    body = b'event: message\ndata: {"choices":\ndata: [{"delta": {"content": "hi"}}]}\n\n' + b"".join(chat(["x"]))
    answer = read(body)
    assert (answer.text, answer.fault) == ("hix", None)


def test_the_last_event_needs_no_blank_line():
    assert read(b"".join(chat(["a", "b"], done=False)).rstrip()).finish == "length"


@pytest.mark.parametrize("delta", [{"role": "assistant", "content": ""}, {"role": "assistant"}, {}])
def test_an_empty_delta_carries_no_token(delta):
    answer = read([sse(chunk(delta)), *chat(["a"], role=False, output=1)])
    assert len(answer.ends) == 1


def test_a_stream_without_done_is_whole_if_it_says_why_it_finished():
    """`transformers serve` ends so."""
    assert read(chat(["a", "b"], done=False, output=2)).fault is None


def test_a_stream_that_just_ends_is_not_whole():
    fault = read([sse(chunk({"content": "a"}))]).fault
    assert (fault.kind, fault.words) == ("cut", "the stream ended without a finish reason or [DONE]")


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"", "empty", "no body"),
        (b"data: [DONE]\n\n", "empty", "[DONE]"),
        (b"<html>oops</html>", "malformed", "<html>oops"),
        (b": ping\n\n", "cut", "no event"),
        (sse({"error": {"message": "too long", "code": 400}}), "error-event", "too long"),
        (b'event: error\ndata: {"message": "worker died"}\n\n', "error-event", "worker died"),
        (b"event: error\ndata: worker died\n\n", "error-event", "worker died"),
        (sse("{broken"), "malformed", "{broken"),
        (sse({"object": "list"}), "shape", "neither choices nor usage"),
        (sse({"choices": ["x"]}), "shape", "not what the protocol says"),
        (sse({"choices": [{"delta": {"content": 5}}]}), "shape", "not what the protocol says"),
        (b'{"error": {"message": "no such model"}}', "error-event", "no such model"),
        (b'{"broken', "malformed", "broken"),
    ],
)
def test_what_is_wrong_is_said(body, kind, words):
    fault = read(body).fault
    assert fault.kind == kind
    assert words in fault.words
    assert len(fault.words) <= 300


def test_an_error_inside_a_stream_ends_it_badly_and_keeps_what_came():
    events = chat(["a", "b", "c"], output=3)
    answer = read(
        [*events[:3], sse({"error": {"message": "out of memory", "type": "server_error"}}), b"data: [DONE]\n\n"]
    )
    assert (answer.fault.kind, answer.fault.words) == ("error-event", "out of memory")
    assert answer.text == "ab"


def test_reasoning_comes_in_its_own_channel():
    for key in ("reasoning_content", "reasoning"):
        thinking = [sse(chunk({key: text})) for text in ("hm", " so")]
        answer = read([*thinking, *chat(["yes", "!"], role=False, output=4)])
        assert (answer.reasoning, answer.text) == ("hm so", "yes!")
        assert answer.channels == bytes([REASONING, REASONING, TEXT, TEXT])


def test_reasoning_under_two_names_is_said_once():
    events = [sse(chunk({"reasoning": text, "reasoning_content": text})) for text in "abc"]
    answer = read([*events, *chat(["x"], role=False)])
    assert (answer.reasoning, len(answer.ends)) == ("abc", 4)


def test_an_event_with_reasoning_and_answer_is_one_event_of_the_answer():
    answer = read([sse(chunk({"reasoning_content": "so", "content": "yes"})), *chat([], role=False)])
    assert (answer.reasoning, answer.text, answer.channels) == ("so", "yes", bytes([TEXT]))


def test_tool_calls_carry_tokens():
    def call(**function):
        return sse(chunk({"tool_calls": [{"index": 0, "function": function}]}))

    answer = read(
        [call(name="find", arguments=""), call(arguments='{"q"'), call(arguments=":1}"), *chat([], role=False)]
    )
    assert (answer.tools, answer.text) == ('find{"q":1}', "")
    assert answer.channels == bytes([TOOL] * 3)


def test_content_in_typed_parts():
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]
    answer = read([sse(chunk({"content": parts})), *chat([], role=False)])
    assert (answer.reasoning, answer.text) == ("hm", "yes")


def test_a_usage_only_chunk_and_null_usages():
    events = [sse(chunk({"content": "a"}) | {"usage": None}), *chat(["b"], role=False, output=2)]
    assert read(events).usage.output == 2


def test_texts_that_look_like_events_are_text():
    nasty = ['data: {"choices":[]}\n\n', '"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n', '\\"', '","', "\\"]
    answer = read(chat(nasty, output=5))
    assert (answer.text, answer.fault, list(answer.parts)) == ("".join(nasty), None, nasty)


def test_logprobs_do_not_count_as_text():
    events = []
    for text in "abc":
        event = chunk({"content": text})
        event["choices"][0]["logprobs"] = {"content": [{"token": text, "logprob": -0.5, "top_logprobs": []}]}
        events.append(sse(event))
    answer = read([*events, *chat([], role=False, output=3)])
    assert (answer.text, len(answer.ends)) == ("abc", 3)


def test_an_answer_that_was_not_streamed():
    message = {"role": "assistant", "content": "hello", "reasoning": "hm"}
    counts = usage(3, completion_tokens_details={"reasoning_tokens": 2})
    whole = {"id": "x-1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": counts}
    answer = read(json.dumps(whole).encode())
    assert (answer.streamed, answer.text, answer.reasoning, answer.finish) == (False, "hello", "hm", "stop")
    assert (answer.usage.output, answer.usage.reasoning, answer.id) == (3, 2, "x-1")


def test_frames_skip_comments_and_a_byte_order_mark():
    body = b"\xef\xbb\xbf: hi\n\n\ndata: 1\n\n: bye\n"
    frame = frame_at(body, 0)
    assert (frame.data, body[: frame.end].endswith(b"1")) == (b"1", True)
    assert frame_at(body, frame.next) is None
