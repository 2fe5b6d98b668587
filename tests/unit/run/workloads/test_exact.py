"""Prompts of N tokens stay N tokens, whatever the tokenizer does to words."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.run.tokens.trained import KINDS, trained
from tests.unit.run.workloads.setups import tokenizer

from assay.errors import MeasureError
from assay.run.workloads.prompt_text import Writer, plain_words


def test_the_words_are_plain_and_many():
    words = plain_words()
    assert len(words) == len(set(words)) >= 1000
    assert all(word.isascii() and word.isalpha() and word.islower() and len(word) >= 3 for word in words)


@settings(max_examples=120)
@given(
    kind=st.sampled_from(KINDS),
    lengths=st.lists(st.integers(2, 260), min_size=1, max_size=5),
    seed=st.integers(0, 2**63 - 1),
)
def test_n_tokens_stay_n_tokens(kind, lengths, seed):
    library = trained(kind)
    writer = Writer(tokenizer(kind), seed)
    for length, written in zip(lengths, writer.write(lengths), strict=True):
        ids = library.encode(written.text, add_special_tokens=False).ids
        assert len(ids) == length
        assert tuple(ids[: len(written.start)]) == written.start
        if writer.stays_checked:
            back = library.decode(ids, skip_special_tokens=False)
            assert len(library.encode(back, add_special_tokens=False).ids) == length


@pytest.mark.parametrize("kind", KINDS)
def test_round_trips_are_checked_wherever_the_tokenizer_gives_words_back(kind):
    assert Writer(tokenizer(kind), 0).stays_checked


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_the_shortest_prompts_can_be_written(kind, length):
    texts = [one.text for one in Writer(tokenizer(kind), 1).write([length] * 4)]
    assert [len(trained(kind).encode(text).ids) for text in texts] == [length] * 4


@settings(max_examples=40)
@given(
    kind=st.sampled_from(KINDS),
    shared=st.integers(1, 60),
    more=st.integers(5, 80),
    template=st.sampled_from(["{text}", "Read this: {text}", "{text}\n\nAnswer:", '{{"text": "{text}"}}', "A{text}B"]),
)
def test_what_stands_before_and_around_is_counted(kind, shared, more, template):
    library, writer = trained(kind), Writer(tokenizer(kind), 3)
    before = writer.write([shared])[0].text
    around = len(library.encode(template.replace("{text}", before)).ids)
    written = writer.write([around + more] * 3, before, lambda text: template.replace("{text}", text))
    assert [len(library.encode(one.text).ids) for one in written] == [around + more] * 3
    assert all(before in one.text for one in written)


@pytest.mark.parametrize("kind", ["byte-level", "metaspace, byte fallback", "unigram"])
def test_prompts_differ_from_the_first_token_on(kind):
    written = Writer(tokenizer(kind), 0).write([40] * 30)
    assert len({one.start[0] for one in written}) == 30


def test_when_first_tokens_run_out_prompts_still_differ_early():
    written = Writer(tokenizer("bytes only"), 0).write([60] * 200)
    firsts = {one.start[0] for one in written}
    assert 30 < len(firsts) < 200  # there are only so many letters
    assert len({one.text for one in written}) == 200
    for one, two in combinations(written, 2):
        same = next((n for n, (a, b) in enumerate(zip(one.start, two.start, strict=True)) if a != b), 60)
        assert same < 30


def test_the_same_seed_gives_the_same_texts_and_another_gives_others():
    first, again, other = (Writer(tokenizer(), seed).write([30, 40]) for seed in (5, 5, 6))
    assert first == again
    assert {one.text for one in first}.isdisjoint(one.text for one in other)


class Odd:
    """Gives every text an even number of tokens, so that odd lengths cannot be had."""

    name = "odd"

    def count(self, texts):
        return [len(self.encode(text)) for text in texts]

    def encode(self, text):
        return [number for number in text.encode() for _ in range(2)]

    def decode(self, ids):
        return bytes(ids[::2]).decode()


def test_a_length_that_cannot_be_had_is_refused_after_some_tries():
    assert len(Odd().encode(Writer(Odd(), 0).write([50])[0].text)) == 50
    with pytest.raises(
        MeasureError, match=r"no plain text of exactly 51 tokens was found for odd in 120 tries"
    ) as caught:
        Writer(Odd(), 0).write([51])
    assert caught.value.problem.code == "prompt-length"
    assert caught.value.problem.at == "workload.input_tokens"


class Deaf(Odd):
    name = "deaf"

    def encode(self, text):
        return []


def test_a_tokenizer_that_knows_no_words_is_refused():
    with pytest.raises(MeasureError, match="deaf gives no tokens for plain words"):
        Writer(Deaf(), 0)


class OneWay:
    """Cannot put tokens together, like some servers; or does so wrongly, like a tokenizer without a decoder."""

    name = "one way"

    def __init__(self, decoded=None):
        self.inner, self.decoded = tokenizer(), decoded

    def count(self, texts):
        return self.inner.count(texts)

    def encode(self, text):
        return self.inner.encode(text)

    def decode(self, ids):
        if self.decoded is None:
            raise MeasureError("no /detokenize")
        return self.decoded


@pytest.mark.parametrize("decoded", [None, "always the same eleven words"])
def test_a_tokenizer_that_does_not_give_words_back_still_counts_them(decoded):
    writer = Writer(OneWay(decoded), 0)
    assert not writer.stays_checked
    assert tokenizer().count([one.text for one in writer.write([70] * 50)]) == [70] * 50


def test_words_that_do_not_come_back_are_not_used():
    """A tokenizer that turns some words into nothing known: they would become other tokens on the way back."""

    class Lossy(OneWay):
        def decode(self, ids):
            text = self.inner.decode(ids)
            return text.replace(" e", " e e") if " e" in text else text

    writer = Writer(Lossy(), 0)
    assert writer.stays_checked
    body = " ".join(one.text.split(" ", 1)[1] for one in writer.write([60] * 20))
    assert " e" not in body
