"""Tokens are counted by who knows, a chunk is not a token, and a wrong tokenizer is told apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.run.targets.served.building import Book, Letters, chat, chunk, definition, sse, target

from assay.run.apis import find_api
from assay.run.targets.served.counting import Counter, apportion, disagreement, exact_ends, input_disagreement
from assay.run.targets.served.figures import figures
from assay.run.targets.served.rows import read_rows
from assay.run.workloads import Item

API = find_api(target(), 0)
ITEMS = (Item("a", ("one two three",), output_tokens=4),)
WORDS = [" alpha", " beta", " gamma", " delta"]


def seen(book, counter=None, items=ITEMS):
    recording = book.recording()
    rows = read_rows(recording, API, items, counter)
    return recording, rows, figures(recording, rows, API, definition())


def values(found, name, phase="measure"):
    return next((one.value.tolist() for one in found.samples if (one.metric, one.phase) == (name, phase)), None)


def test_usage_is_believed_first():
    _, rows, found = seen(Book().stream(chat(WORDS, output=4)), Counter(local=Letters()))
    assert rows.output_tokens.tolist() == [4]
    assert found.facts["tokens"]["output"] == {"source": "server usage"}
    assert found.facts["tokens"]["bundled"] is False
    assert "tokenizer_disagrees" not in found.facts["tokens"]


def test_then_the_servers_tokenizer_then_a_local_one():
    server, local = Letters(), Letters(2)
    _, rows, found = seen(Book().stream(chat(WORDS)), Counter(server, local))
    assert (rows.output_tokens.tolist(), rows.input_tokens.tolist()) == ([4], [3])
    assert found.facts["tokens"]["output"] == {"source": "server tokenizer"}
    assert found.facts["tokens"]["tokenizer_disagrees"]["local_tokenizer"] > 4
    _, rows, found = seen(Book().stream(chat(WORDS)), Counter(None, local))
    assert rows.output_tokens.tolist() == [sum(local.count(WORDS))]
    assert found.facts["tokens"]["output"] == {"source": "local tokenizer"}


def test_without_any_count_nothing_is_guessed():
    _, rows, found = seen(Book().stream(chat(WORDS)))
    assert rows.output_tokens.tolist() == [-1]
    for name in ("itl_ms", "tpot_ms", "output_tokens", "user_tokens_per_s"):
        assert values(found, name) is None
        assert "no usage" in found.absent[name]
    assert "not known" in found.absent["output_tokens_per_s"]
    assert values(found, "ttft_ms") == [60.0]  # the role alone is no token
    assert values(found, "chunk_gap_ms") == [10.0] * 3


def test_a_wrong_tokenizer_is_distinguished_with_both_numbers():
    book = Book()
    for _ in range(5):
        book.stream(chat(WORDS, output=4))
    _, rows, found = seen(book, Counter(local=Letters(1)))
    wrong = found.facts["tokens"]["tokenizer_disagrees"]
    assert wrong == {"answers": 5, "used": 20, "local_tokenizer": 5 * sum(Letters(1).count(WORDS))}
    assert rows.output_tokens.tolist() == [4] * 5
    assert found.facts["tokens"]["output"] == {"source": "server usage"}


def test_a_stop_token_is_no_disagreement():
    assert disagreement([(33, 32)] * 50) is None
    assert disagreement([(5, 4)] * 50) is None
    assert disagreement([(32, 32)] * 49 + [(64, 32)]) is None
    assert disagreement([(32, 40)] * 50) is not None
    assert disagreement([]) is None


def test_a_chat_template_is_no_disagreement_but_another_tokenizer_is():
    assert input_disagreement([(150, 128), (1046, 1024), (90, 68)]) is None
    assert input_disagreement([(150, 128), (1400, 1024), (90, 68)]) is not None
    assert input_disagreement([(100, 128)] * 3) is not None
    prompts = [Item(f"p{n}", (" ".join(["word"] * n),)) for n in (5, 50, 100)]
    book = Book()
    for item in prompts:
        book.stream(chat(WORDS, output=4, into=9 + len(item.turns[0].split())))
    _, _, found = seen(book, Counter(local=Letters()), prompts)
    assert "tokenizer_disagrees_on_prompts" not in found.facts["tokens"]
    _, _, found = seen(book, Counter(local=Letters(2)), prompts)
    assert found.facts["tokens"]["tokenizer_disagrees_on_prompts"]["prompts"] == 3


def test_the_stop_token_comes_with_the_event_that_finishes():
    """Five tokens, four of them with a text: the server does not bundle."""
    _, rows, found = seen(Book().stream(chat(WORDS, output=5, finish="stop")))
    assert values(found, "itl_ms") == [10.0] * 4
    assert values(found, "tpot_ms") == [10.0]
    assert found.facts["tokens"]["tokens_per_chunk"]["max"] == 1
    assert found.facts["tokens"]["first_arrival_tokens"] == 1
    assert rows.piece_tokens.sum() == 5


def test_a_token_that_is_half_a_character_comes_with_an_empty_text():
    events = chat(WORDS, output=5, finish="length")
    events.insert(3, sse(chunk({"content": ""})))
    _, rows, found = seen(Book().stream(events))
    assert values(found, "itl_ms") == [10.0] * 4
    assert rows.piece_tokens.tolist() == [0, 1, 1, 1, 1, 1, 0, 0, 0]


def bundles(output=12):
    """Three chunks of four words each, 40 ms apart after the first at 100 ms."""
    return chat([" a b c d", " e f g h", " i j k l"], output=output, role=False)


def test_a_server_that_bundles_is_distinguished_and_tokens_are_spread_by_a_tokenizer():
    events = chat([" a b c d e f", " g h", " i j k l"], output=12, role=False)
    _, rows, found = seen(Book().stream(events, ttft=100, gap=40), Counter(local=Letters()))
    assert rows.piece_tokens[:3].tolist() == [6, 2, 4]
    assert values(found, "itl_ms") == [20.0] * 2 + [10.0] * 4  # those of the first chunk end no gap
    assert values(found, "chunk_gap_ms") == [40.0, 40.0]
    assert values(found, "tpot_ms") == [pytest.approx(80 / 6)]
    assert values(found, "user_tokens_per_s") == [pytest.approx(6 / 0.08)]
    told = found.facts["tokens"]
    assert (told["bundled"], told["tokens_per_chunk"]) == (True, {"mean": 4.0, "max": 6})
    assert (told["first_chunk_tokens"], told["first_arrival_tokens"]) == (6, 6)
    assert "a tokenizer counted" in told["itl_ms_is"]


def test_without_a_tokenizer_bundled_tokens_are_spread_evenly_and_it_is_said():
    _, rows, found = seen(Book().stream(bundles(), ttft=100, gap=40))
    assert rows.piece_tokens[:3].tolist() == [4, 4, 4]
    assert values(found, "itl_ms") == [10.0] * 8
    assert found.facts["tokens"]["bundled"] is True
    assert "evenly" in found.facts["tokens"]["itl_ms_is"]


def test_events_that_arrive_together_are_not_a_server_that_bundles():
    events = chat(WORDS, output=4, role=False)
    book = Book().add([(50, b"".join(events[:2])), (70, b"".join(events[2:]))])
    _, rows, found = seen(book)
    assert rows.piece_tokens.tolist() == [2, 2]
    assert values(found, "itl_ms") == [10.0, 10.0]
    assert found.facts["tokens"]["bundled"] is False
    assert found.facts["tokens"]["first_arrival_tokens"] == 2
    assert values(found, "tpot_ms") == [10.0]


def test_a_servers_tokenizer_is_not_asked_without_end():
    book = Book()
    for _ in range(1000):
        book.stream(bundles())
    server = Letters()
    _, rows, found = seen(book, Counter(server))
    assert len(server.asked) < 4100
    assert 0 < rows.tally.by_tokenizer < 1000
    assert rows.tally.by_tokenizer + rows.tally.evenly == 1000
    assert "spread evenly" in found.facts["tokens"]["itl_ms_is"]


def test_hidden_reasoning_is_distinguished_and_counts_for_no_gap():
    details = {"completion_tokens_details": {"reasoning_tokens": 100}}
    events = [
        *chat(WORDS, role=False, done=False),
        sse({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 104, **details}}),
    ]
    _, rows, found = seen(Book().stream(events))
    assert (rows.output_tokens.tolist(), rows.hidden_tokens.tolist()) == ([104], [100])
    assert values(found, "itl_ms") == [10.0] * 3
    assert values(found, "tpot_ms") == [10.0]
    assert values(found, "output_tokens") == [104.0]
    assert found.facts["reasoning"]["hidden_tokens"] == 100
    assert found.facts["tokens"]["bundled"] is False


def test_an_answer_of_hidden_reasoning_alone_divides_nothing_by_zero():
    details = {"completion_tokens_details": {"reasoning_tokens": 64}}
    events = [*chat([], role=False, done=False), sse({"choices": [], "usage": {"completion_tokens": 64, **details}})]
    _, _, found = seen(Book().stream(events))
    assert values(found, "output_tokens") == [64.0]
    assert values(found, "e2e_ms") == [60.0]
    for name in ("ttft_ms", "itl_ms", "tpot_ms", "user_tokens_per_s", "chunk_gap_ms"):
        assert values(found, name) is None
        assert "reasoning" in found.absent[name]
    assert found.metrics["output_tokens_per_s"] == 0


def test_reasoning_starts_the_clock_and_the_first_answer_has_its_own():
    thinking = [sse(chunk({"reasoning_content": text})) for text in ("hm", " so", " yes")]
    events = [*thinking, *chat(WORDS, role=False, output=7)]
    _, rows, found = seen(Book().stream(events))
    assert values(found, "ttft_ms") == [50.0]
    assert values(found, "first_answer_ms") == [80.0]
    assert values(found, "itl_ms") == [10.0] * 6
    assert found.facts["reasoning"] == {"answers_with_reasoning": 1, "answers_of_reasoning_alone": 0}
    assert rows.reasoned.tolist() == [True]
    plain = seen(Book().stream(chat(WORDS, output=4)))[2]
    assert values(plain, "first_answer_ms") is None
    assert "first_answer_ms" not in plain.absent


def test_reasoning_that_never_reaches_an_answer():
    thinking = [sse(chunk({"reasoning_content": text})) for text in ("hm", " so", " yes")]
    _, _, found = seen(Book().stream([*thinking, *chat([], role=False, output=3)]))
    assert values(found, "ttft_ms") == [50.0]
    assert values(found, "first_answer_ms") is None
    assert found.facts["reasoning"]["answers_of_reasoning_alone"] == 1


def test_tool_calls_are_tokens():
    calls = [sse(chunk({"tool_calls": [{"function": {"arguments": text}}]})) for text in "abc"]
    _, _, found = seen(Book().stream([*calls, *chat([], role=False, output=3, finish="tool_calls")]))
    assert values(found, "itl_ms") == [10.0, 10.0]


def test_blocks_do_not_change_the_counts():
    book = Book()
    for number in range(20):
        book.stream(chat(WORDS[: 1 + number % 4], output=1 + number % 4), due=number * 7.0, head=b"server: x\n")
        book.add(outcome="refused", end=1.0, status=0)
    recording = book.recording()
    whole, parts = read_rows(recording, API, ITEMS), read_rows(recording, API, ITEMS, block=3)
    for name in ("piece_tokens", "piece_events", "output_tokens", "first_ns", "last_ns", "first_tokens"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))


def test_answers_that_did_not_end_have_the_tokens_that_came():
    book = Book().stream(bundles(), ttft=100, gap=40)
    book.add([(100, bundles()[0]), (140, bundles()[1][:20])], outcome="unfinished")
    book.add([(100, bundles()[0])], outcome="truncated")
    _, rows, _ = seen(book)
    assert rows.output_tokens.tolist() == [12, 4, 4]
    assert rows.piece_tokens.tolist() == [4, 4, 4, 0, 0, 0, 4, 0, 4]


@given(st.integers(0, 500), st.lists(st.integers(0, 20), min_size=1, max_size=60).filter(any))
def test_shares_add_up(tokens, weights):
    shares = apportion(tokens, np.array(weights, dtype=np.float64))
    assert shares.sum() == tokens
    assert shares.min() >= 0
    exact = tokens * np.cumsum(weights) / sum(weights)
    assert np.all(np.abs(np.cumsum(shares) - exact) <= 1)


def test_events_are_seen_as_tokens_only_where_they_add_up():
    draft = API.draft(b"".join(chat(WORDS, finish="stop")))
    assert len(exact_ends(draft, 4)) == 4
    assert len(exact_ends(draft, 5)) == 5
    assert exact_ends(draft, 6) is None
    assert exact_ends(draft, 3) is None


def test_embeddings_without_usage_are_counted_by_all_their_texts():
    api = find_api(target(api="openai-embeddings"), 0)
    book = Book().add([(5, b'{"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]}')])
    items = (Item("e", ("one two", "three four five")),)
    rows = read_rows(book.recording(), api, items, Counter(local=Letters()))
    assert rows.input_tokens.tolist() == [5]
