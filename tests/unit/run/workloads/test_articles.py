"""The shipped articles are well formed, and the task asks for summaries of them."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import pytest
from tests.unit.run.workloads.setups import refusal, tokenizer, workset

from assay.run.workloads.tasks import articles

DATA = files("assay.run.workloads") / "data" / "wikipedia_summary"
LONGEST_RUN = 6  # words that a summary may have in common with its article, one after another


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def test_there_are_enough_articles_of_clearly_varied_length():
    lengths = sorted(len(article.text.split()) for article in articles())
    assert len(lengths) >= 32
    assert 75 <= lengths[0] <= 95
    assert 850 <= lengths[-1] <= 950
    assert sum(length < 150 for length in lengths) >= 8
    assert sum(200 <= length <= 450 for length in lengths) >= 14
    assert sum(length >= 500 for length in lengths) >= 10


def test_every_line_has_the_four_keys_and_no_other():
    lines = (DATA / "articles.jsonl").read_text(encoding="utf-8").splitlines()
    assert all(set(json.loads(line)) == {"id", "title", "text", "summary"} for line in lines)
    assert len({json.loads(line)["id"] for line in lines}) == len(lines) == len(articles())


@pytest.mark.parametrize("article", articles(), ids=lambda article: article.id)
def test_an_article_is_clean(article):
    assert re.fullmatch(r"[a-z0-9-]+", article.id)
    assert article.title == article.title.strip() != ""
    for text in (article.text, article.summary):
        assert text == text.strip()
        assert text.endswith(".")
        assert not re.search(r" {2}|\t|\n{3}|[\"“”\[\]<>{}#*_]| \n|\n ", text)
    assert all(paragraph.endswith((".", "?")) for paragraph in article.text.split("\n\n"))
    assert "\n" not in article.summary


@pytest.mark.parametrize("article", articles(), ids=lambda article: article.id)
def test_a_summary_is_short_and_in_its_own_words(article):
    text, summary = words(article.text), words(article.summary)
    assert 12 <= len(summary) < len(text) / 4
    assert 1 <= len(re.findall(r"[.?!](?= [A-Z]|$)", article.summary)) <= 3
    runs = {tuple(text[at : at + LONGEST_RUN]) for at in range(len(text))}
    copied = [summary[at : at + LONGEST_RUN] for at in range(len(summary) - LONGEST_RUN + 1)]
    assert not [run for run in copied if tuple(run) in runs]
    # It is about the same thing: some of its longer words are in the article, in some form.
    assert len({word[:5] for word in summary if len(word) > 4} & {word[:5] for word in text}) >= 3


def test_source_and_licence_lie_beside_the_articles():
    readme, licence = ((DATA / name).read_text(encoding="utf-8") for name in ("README.md", "LICENSE"))
    assert "No text is taken from Wikipedia" in readme
    assert f"holds {len(articles())} short" in readme
    assert licence.startswith("CC0 1.0 Universal")
    lengths = sorted(len(article.text.split()) for article in articles())
    assert all(str(end) in readme for end in (lengths[0], lengths[-1]))


def test_every_article_is_requested_once():
    made = workset(tokens=tokenizer(), task="wikipedia-summary")
    assert {item.id for item in made.items} == {article.id for article in articles()}
    by_id = {article.id: article for article in articles()}
    for item in made.items:
        article = by_id[item.id]
        assert item.turns[0].startswith("Summarise ")
        assert article.title in item.turns[0]
        assert article.text in item.turns[0]
        assert article.summary not in item.turns[0]
        assert (item.reference, item.output_tokens, item.data) == (article.summary, 128, {"title": article.title})
    assert made.scorers == ("rouge",)
    assert "no text is taken from Wikipedia" in made.facts["source"]
    assert made.facts["licence"] == "CC0-1.0"
    spread = made.facts["prompt_tokens"]["delivered"]
    assert spread["max"] > 5 * spread["min"]


def test_some_are_chosen_by_the_seed_and_fewer_are_among_more():
    def chosen(items, seed):
        return [item.id for item in workset(task="wikipedia-summary", items=items, seed=seed).items]

    assert chosen(6, 0) == chosen(20, 0)[:6]
    assert chosen(6, 0) != chosen(6, 1)
    assert chosen(6, 0) == [item.id for item in workset(task="wikipedia-summary").items][:6]
    assert "there are only 33 articles" in refusal(task="wikipedia-summary", items=34).message


def test_length_and_template_can_be_changed():
    item = workset(task="wikipedia-summary", output_tokens=64, prompt="TL;DR {text}", items=1).items[0]
    assert item.output_tokens == 64
    assert item.turns[0].startswith("TL;DR ")
