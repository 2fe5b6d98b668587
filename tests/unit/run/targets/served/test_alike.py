"""Answers that are read by what they have in common say exactly what they say event by event."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.run.targets.served.building import Book, Letters, chunk, target, usage

from assay.run.apis import find_api
from assay.run.targets.served.counting import Counter
from assay.run.targets.served.fast_reader import FastReader
from assay.run.targets.served.rows import read_rows
from assay.run.workloads import Item

ITEMS = (Item("a", ("say it",), output_tokens=8),)
ODD = [
    '"',
    "\\",
    '\\"',
    '","',
    "\n\n",
    "data: ",
    '"content":"',
    '"usage":{',
    "}\n\n",
    "é",
    "😀",
    "\x7f",
    "\u2028",
    "[DONE]",
]
TEXT = st.one_of(st.sampled_from(["a", " b", " word"]), st.sampled_from(ODD), st.text(max_size=4))
FINISH = ("length", "stop")


def speak(texts, *, known="chatcmpl-7", created=17, style=0, finish="length", counts=None, escape=False, space=False):
    """An answer in one of the styles of servers: where the role, the last text, the finish and the usage stand."""
    common = {"id": known, "created": created}
    deltas = [text if isinstance(text, dict) else {"content": text} for text in texts]
    events = [] if style == 1 else [chunk({"role": "assistant", "content": ""}, **common)]
    if style == 1 and deltas:  # the role comes with the first text
        events.append(chunk({"role": "assistant", **deltas.pop(0)}, **common))
    last = deltas.pop() if style == 2 and deltas else {}  # the last text comes with the finish reason
    events += [chunk(delta, **common) for delta in deltas]
    given = usage(len(texts)) if counts is None else counts
    closing = chunk(last, finish=finish, **common)
    events += [closing | {"usage": given}] if style == 3 else [closing, chunk(usage=given, **common)]
    separators = (", ", ": ") if space else (",", ":")
    data = [json.dumps(event, ensure_ascii=escape, separators=separators) for event in events]
    return [f"data: {one}\n\n".encode("utf-8", "surrogatepass") for one in [*data, "[DONE]"]]


@st.composite
def loads(draw):
    """A load of answers that are mostly alike, each cut into pieces anywhere."""
    style, escape, space = draw(st.integers(0, 3)), draw(st.booleans()), draw(st.booleans())
    book = Book()
    for finish in FINISH:  # what the others are like
        book.stream(speak(["a", "b", "c", "d", "e"], style=style, finish=finish, escape=escape, space=space))
    for number in range(draw(st.integers(1, 5))):
        texts = draw(
            st.lists(st.sampled_from(["a", " b", " word"]) if draw(st.booleans()) else TEXT, min_size=1, max_size=9)
        )
        if draw(st.integers(0, 5)) == 0:
            texts.insert(0, {"reasoning_content": "hm"})
        if draw(st.integers(0, 7)) == 0:
            texts.append({"content": ["not a string"]})
        more = draw(st.sampled_from([0, 0, 0, 1, 2, -1]))
        kept = draw(st.sampled_from([{}, {}, {"completion_tokens_details": {"reasoning_tokens": 1}}]))
        body = b"".join(
            speak(
                texts,
                known=f"chatcmpl-{number * 7}",
                created=draw(st.sampled_from([9, 10, 17])),
                style=style if draw(st.integers(0, 4)) else 0,
                finish=draw(st.sampled_from(FINISH)),
                counts=usage(max(0, len(texts) + more), into=draw(st.integers(1, 3)), **kept),
                escape=escape,
                space=space,
            )
        )
        cuts = sorted(draw(st.sets(st.integers(1, len(body) - 1), max_size=12)))
        pieces = [body[low:high] for low, high in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        book.stream(pieces, due=10.0 * number, outcome=draw(st.sampled_from(["ok", "ok", "ok", "ok", "unfinished"])))
    return book.recording()


def both(recording, **given):
    """The rows as they are read, and as they are read event by event."""
    quick, slow = find_api(target(), 0), find_api(target(), 0)
    slow.take = None
    return [read_rows(recording, api, ITEMS, Counter(**given)) for api in (quick, slow)]


def same(one, other):
    for field in dataclasses.fields(one):
        got, expected = getattr(one, field.name), getattr(other, field.name)
        if isinstance(got, np.ndarray):
            assert got.dtype == expected.dtype, field.name
            assert got.tolist() == expected.tolist(), field.name
        else:
            assert got == expected, field.name


@settings(max_examples=250)
@given(loads(), st.booleans())
def test_a_load_is_read_the_same_with_and_without_what_its_answers_have_in_common(recording, counted):
    same(*both(recording, **({"local": Letters()} if counted else {})))


STYLES = [{"style": style, "space": space} for style in range(4) for space in (False, True)]


@pytest.mark.parametrize("style", STYLES)
def test_alike_answers_are_not_parsed_event_by_event(style):
    book, parsed = Book(), []
    for number in range(60):
        texts = [f" {word}{number}" for word in ("zero", "one", 'q"', "é", "t\\", "five")]
        finish = FINISH[number % 2]
        counts = usage(6 + number % 2 * (style["style"] != 2), into=number + 1)
        book.stream(speak(texts, known=f"x-{number}", created=17 + number, finish=finish, counts=counts, **style))
    api = find_api(target(), 0)
    whole = api.draft
    api.draft = lambda body: parsed.append(body) or whole(body)
    rows = read_rows(book.recording(), api, ITEMS)
    assert len(parsed) <= 2  # one for each finish reason
    assert rows.input_tokens.tolist() == list(range(1, 61))
    assert rows.piece_tokens.sum() == rows.output_tokens.sum()
    same(*both(book.recording()))


@settings(max_examples=400)
@given(st.data())
def test_a_body_that_was_changed_anywhere_is_never_guessed(data):
    """Either it is read event by event, or what is said of it is what its events say."""
    style = data.draw(st.integers(0, 3))
    api = find_api(target(), 0)
    alike = FastReader(api.take)
    for finish in FINISH:
        body = b"".join(speak(["one", " two", " three", " four", " five"], style=style, finish=finish))
        alike.learn(body, api.draft(body))
    assert alike.read(body) is not None
    for _ in range(data.draw(st.integers(1, 3))):
        at, until = sorted(data.draw(st.integers(0, len(body))) for _ in range(2))
        until = min(until, at + data.draw(st.sampled_from([0, 1, 2, 200])))
        odd = st.sampled_from(
            [b"", b'"', b"\\", b"\n", b"\r", b"\n\n", b"\x00", b"\xc3", b"0", b"x", b"}", b',"x', b"data: "]
        )
        body = body[:at] + data.draw(odd | st.just(body[at:until] * 2)) + body[until:]
    outline = alike.read(body)
    if outline is not None:
        got, expected = outline.draft(), api.draft(body)
        names = ("ends", "blanks", "finish", "finish_end", "done", "usage", "fault", "streamed")
        assert [getattr(got, name) for name in names] == [getattr(expected, name) for name in names]


def test_texts_that_are_not_the_inside_of_one_string_are_not_taken_for_texts():
    api = find_api(target(), 0)
    alike = FastReader(api.take)
    body = b"".join(speak(["one", " two", " three", " four", " five"]))
    alike.learn(body, api.draft(body))
    assert alike.read(body.replace(b" three", b' t\\"\\u00e9\xc3\xa9')) is not None
    for bad in (b"thr\\", b'th"ee', b"th\\xee", b"th\nee", b"th\xc3ee", b"th\\u12", b"th\x01", b""):
        assert alike.read(body.replace(b" three", bad)) is None, bad
    # Halves of one character in two events are no characters.
    assert alike.read(body.replace(b" three", b"\xc3").replace(b" four", b"\xa9")) is None


def test_answers_that_never_are_alike_are_soon_read_event_by_event_alone():
    api = find_api(target(), 0)
    alike = FastReader(api.take)
    body = b"".join(speak(["one", " two", " three", " four", " five"]))
    alike.learn(body, api.draft(body))
    other = body.replace(b"null", b"0")
    for _ in range(200):
        assert alike.read(other) is None
    assert alike.read(body) is None


def learned(style):
    """A reader that knows a style, and a body of it."""
    api = find_api(target(), 0)
    alike = FastReader(api.take)
    for finish in FINISH:
        body = b"".join(speak(["one", " two", " three", " four", " five"], style=style, finish=finish))
        alike.learn(body, api.draft(body))
    assert alike.read(body) is not None
    return api, alike, body


@pytest.mark.parametrize("style", range(4))
def test_what_follows_the_counts_in_their_event_is_not_passed_over(style):
    api, alike, body = learned(style)
    for more in (
        b',"choices":[{"delta":{"content":"!"}}]}\n',
        b',"error":{"message":"no"}}\n',
        b',"usage":null}\n',
        b"}}\n",
    ):
        changed = body.replace(b'"total_tokens":15}}\n', b'"total_tokens":15}' + more)
        assert changed != body
        assert alike.read(changed) is None
        assert api.draft(changed).usage != api.draft(body).usage or more != b',"usage":null}\n'


@pytest.mark.parametrize(("style", "text"), [(1, b"one"), (2, b" five")])
def test_an_empty_text_beside_the_run_is_no_event(style, text):
    api, alike, body = learned(style)
    changed = body.replace(b'"%b"' % text, b'""')
    outline = alike.read(changed)
    assert len(api.draft(changed).ends) == 4
    assert outline is None or outline.draft().ends == api.draft(changed).ends


@pytest.mark.parametrize(("more", "exact"), [(-1, False), (0, True), (1, True), (2, False)])
def test_only_a_token_for_each_event_and_one_for_the_finish_are_exact(more, exact):
    book = Book()
    for _ in range(3):
        book.stream(speak(["a", " b", " c", " d"], counts=usage(4 + more), finish="stop"))
    quick, slow = both(book.recording())
    same(quick, slow)
    assert (quick.tally.evenly == 0) is exact
    assert quick.piece_tokens.sum() == 3 * (4 + more)
