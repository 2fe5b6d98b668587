"""`wikipedia-summary`: short encyclopaedic articles to summarise, with reference summaries."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from assay.run.tokens import Tokenizer
from assay.run.workloads.facts import workset
from assay.run.workloads.records import Item, Workset
from assay.run.workloads.rows import in_template, pick
from assay.run.workloads.texts.lengths import draw_outputs
from assay.spec.benchmark import Definition

SOURCE = "articles written for assay; no text is taken from Wikipedia"
LICENCE = "CC0-1.0"
_TEMPLATE = "Summarise the following article in one to three sentences.\n\n{text}\n\nSummary:"
_OUTPUT_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Article:
    """One article and what a good summary of it says."""

    id: str
    title: str
    text: str
    summary: str


@cache
def articles() -> tuple[Article, ...]:
    file = files("assay.run.workloads") / "data" / "wikipedia_summary" / "articles.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return tuple(Article(row["id"], row["title"], row["text"], row["summary"]) for row in rows)


def make(definition: Definition, _base: Path, tokenizer: Tokenizer | None) -> Workset:
    """Ask for a summary of each article, or of some that the seed chooses."""
    workload = definition.workload
    around = in_template(workload.prompt or _TEMPLATE)
    everything = articles()
    chosen = pick(everything, workload.items or len(everything), workload.seed, "articles")
    wanted = _OUTPUT_TOKENS if workload.output_tokens is None else workload.output_tokens
    answers = draw_outputs(wanted, len(chosen), workload.seed)
    items = [
        Item(
            article.id,
            (around(f"{article.title}\n\n{article.text}"),),
            reference=article.summary,
            output_tokens=answer,
            data={"title": article.title},
        )
        for article, answer in zip(chosen, answers, strict=True)
    ]
    return workset("wikipedia-summary", items, workload, tokenizer, source=SOURCE, licence=LICENCE, scorers=("rouge",))
