"""From tokens to chunks and their moments, and the tokenizer."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.sim.apis.schedule import _spans, offsets_ns
from assay.sim.apis.text import MADE, WordTokenizer, made_word, vector
from assay.sim.faults import InjectedPause
from assay.sim.script import SimScript, build

patterns = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(st.integers(1, 200), patterns, st.none() | st.integers(1, 50), st.integers(0, 220))
def test_chunks_hold_every_token_once_and_never_mix_reasoning_with_answer(tokens, pattern, first, reasoning):
    script = build(SimScript, {"tokens_per_chunk": pattern, "reasoning_tokens": reasoning}, "llm")
    if first is not None:
        script = build(
            SimScript, {"tokens_per_chunk": pattern, "reasoning_tokens": reasoning, "first_chunk_tokens": first}, "llm"
        )
    spans = _spans(script, tokens)
    assert [token for begin, end in spans for token in range(begin, end)] == list(range(tokens))
    assert all(end <= reasoning or begin >= reasoning for begin, end in spans)


def test_a_pattern_repeats_and_the_first_chunk_stands_before_it():
    script = build(SimScript, {"tokens_per_chunk": "1,4,2", "first_chunk_tokens": 3}, "llm")
    assert [end - begin for begin, end in _spans(script, 20)] == [3, 1, 4, 2, 1, 4, 2, 1, 2]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=50))
def test_whatever_travels_together_the_time_per_token_is_itl(carried):
    script = build(SimScript, {"ttft": "50ms", "itl": "10ms"}, "llm")
    offsets = offsets_ns(script, carried, None)
    assert offsets[0] == 50_000_000
    assert offsets[-1] - offsets[0] == (sum(carried) - carried[0]) * 10_000_000


def test_drawn_moments_depend_on_the_seed_alone_and_grow():
    script = build(SimScript, {"ttft": "lognormal:50ms,0.5", "itl": "exponential:10ms"}, "llm")
    one = offsets_ns(script, [1] * 30, Random(7))
    assert one == offsets_ns(script, [1] * 30, Random(7))
    assert one != offsets_ns(script, [1] * 30, Random(8))
    assert one == sorted(one)


def test_a_slow_start_and_a_pause():
    script = build(SimScript, {"ttft": "50ms", "itl": "10ms"}, "llm")
    assert offsets_ns(script, [1, 1], None, 3.0) == [150_000_000, 180_000_000]
    paused = offsets_ns(script, [1, 2, 1], None, 1.0, InjectedPause(1.0, 1, 3))
    assert paused == [50_000_000, 70_000_000, 1_080_000_000]


def test_made_words_are_distinct():
    assert len({made_word(number) for number in range(MADE)}) == MADE


@given(st.text())
def test_one_word_is_one_token_and_comes_back(text):
    words = WordTokenizer()
    tokens = words.encode(text)
    assert len(tokens) == len(text.split())
    assert words.decode(tokens) == " ".join(text.split())
    assert words.encode(text) == tokens


@pytest.mark.parametrize("tokens", [[-1], [MADE], ["a"], [1.5]])
def test_a_number_without_a_word_is_refused(tokens):
    with pytest.raises(IndexError):
        WordTokenizer().decode(tokens)


def test_vectors_have_length_one_and_depend_on_the_words_alone():
    one = vector("red green", 16)
    assert sum(part * part for part in one) == pytest.approx(1, abs=1e-5)
    assert one == vector("green  red", 16)
    near = sum(a * b for a, b in zip(one, vector("red green blue", 16), strict=True))
    far = sum(a * b for a, b in zip(one, vector("quite other words", 16), strict=True))
    assert near > far
