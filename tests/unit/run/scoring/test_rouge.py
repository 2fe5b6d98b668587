"""ROUGE against values counted by hand, against the library itself, and where it has nothing to say."""

import math
import random
import socket
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from assay.errors import MeasureError
from assay.run.scoring import Output, score, scored, sentences


def rouge(text, reference):
    found = score([Output("a", 0, 0, text, reference)], ["rouge"])
    return {metric: values[0] for metric, values in found.items()}


def f1(hits, answer, reference):
    return 2 * hits / (answer + reference)


def test_values_counted_by_hand():
    """`the cat was found under the bed` (7 words) against `the cat was under the bed` (6): all 6 words are in it,
    4 of 5 and 6 pairs are shared (the cat, cat was, under the, the bed), and the 6 words stand in order."""
    found = rouge("the cat was found under the bed", "the cat was under the bed")
    assert found["rouge_1"] == pytest.approx(f1(6, 7, 6))
    assert found["rouge_2"] == pytest.approx(f1(4, 6, 5))
    assert found["rouge_l"] == pytest.approx(f1(6, 7, 6))
    assert found["rouge_lsum"] == pytest.approx(f1(6, 7, 6))


def test_order_matters_to_l_and_not_to_1():
    found = rouge("bed the under cat the", "the cat under the bed")
    assert found["rouge_1"] == 1.0
    assert found["rouge_l"] == pytest.approx(f1(3, 5, 5))  # the … under … the
    assert found["rouge_2"] == 0.0  # no pair is shared


def test_sentences_count_for_lsum_alone():
    """Two sentences in another order: by sentence all 8 words are found, as one text only 4 stand in order."""
    found = rouge("Dogs bark very loudly. Cats sleep all day.", "Cats sleep all day. Dogs bark very loudly.")
    assert found["rouge_lsum"] == 1.0
    assert found["rouge_l"] == pytest.approx(f1(4, 8, 8))


def test_case_and_punctuation_do_not_count_and_words_are_not_stemmed():
    assert rouge("THE CAT, sat!", "the cat sat")["rouge_1"] == 1.0
    assert rouge("cats", "cat")["rouge_1"] == 0.0


def test_an_empty_answer_scores_zero_and_is_counted():
    outputs = [Output("a", 0, 0, text, "the cat") for text in ("", "  \n", "the cat")]
    found = scored(outputs, ["rouge"])
    assert found.values["rouge_1"].tolist() == [0.0, 0.0, 1.0]
    assert found.facts["rouge"]["empty"] == 2
    assert found.facts["rouge"]["scored"] == 3
    assert found.absent == {}


def test_where_there_is_nothing_to_compare_with_there_is_no_score():
    outputs = [Output("a", 0, 0, "x"), Output("b", 1, 0, "猫がいる", "猫がいる"), Output("c", 2, 0, "x", "x")]
    found = scored(outputs, ["rouge"])
    assert [math.isnan(value) for value in found.values["rouge_l"]] == [True, True, False]
    assert found.absent["rouge"] == (
        "of 3 requests 1 have nothing to be compared with and 1 have a reference or answer that this scorer "
        "cannot judge"
    )


WORDS = ("cat", "dog", "sat", "the", "Dr.", "ran.", "Why?", "mat", "U.S.", "2024", "Übung", "e.g.")


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=25), st.lists(st.sampled_from(WORDS), max_size=25))
def test_the_library_says_the_same(reference, answer):
    reference, answer = "the " + " ".join(reference), " ".join(answer)
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"])
    theirs = scorer.score(reference, answer)
    ours = rouge(answer, reference)
    for metric, name in (("rouge_1", "rouge1"), ("rouge_2", "rouge2"), ("rouge_l", "rougeL")):
        assert ours[metric] == theirs[name].fmeasure
    split = scorer.score("\n".join(sentences(reference)), "\n".join(sentences(answer)))
    assert ours["rouge_lsum"] == split["rougeLsum"].fmeasure


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three? Four…", ["One.", "Two!", "Three?", "Four…"]),
        ("Dr. A. B. Smith, e.g. the U.S. Army, left. It was 3.5 m.",
         ["Dr. A. B. Smith, e.g. the U.S. Army, left.", "It was 3.5 m."]),
        ('He said "Stop!" Then he left.', ['He said "Stop!"', "Then he left."]),
        ("a list\nof lines\n\nwithout marks", ["a list", "of lines", "without marks"]),
        ("no capital follows. so it goes on", ["no capital follows. so it goes on"]),
        ("Ende. Übung macht den Meister.", ["Ende.", "Übung macht den Meister."]),
        ("", []),
        (" \n ", []),
    ],
)  # fmt: skip
def test_sentences(text, parts):
    assert sentences(text) == parts


@given(st.text())
def test_sentences_lose_nothing(text):
    squeezed = "".join(text.replace("\0", "").split())
    assert "".join("".join(one.split()) for one in sentences(text.replace("\0", ""))) == squeezed


def test_nothing_is_fetched(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("something was asked of the network")

    monkeypatch.setattr(socket, "socket", refuse)
    assert rouge("One. Two. Three.", "One. Three.")["rouge_lsum"] > 0


def test_without_the_library_the_load_is_not_lost(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("rouge_score")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    outputs = [Output("a", 0, 0, "x", "x")]
    with pytest.raises(MeasureError, match="rouge-score") as caught:
        score(outputs, ["rouge"])
    assert "assay-bench[llm]" in caught.value.problem.try_
    found = scored(outputs, ["rouge", "length"])
    assert "assay-bench[llm]" in found.absent["rouge"]
    assert found.values["answer_chars"].tolist() == [1.0]


def test_equal_answers_are_judged_once(monkeypatch):
    from assay.run import scoring as module

    calls = []
    real = module._score
    monkeypatch.setattr(module, "_score", lambda *words: calls.append(1) or real(*words))
    texts = [random.Random(number % 3).choice("abc") * 3 for number in range(30)]
    score([Output("a", number, 0, text, "aaa bbb") for number, text in enumerate(texts)], ["rouge"])
    assert len(calls) == len(set(texts))
