"""Tasks of given texts and what is made of them: prompts, conversations, Wikipedia summaries, embedding."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.tokens import Tokenizer
from assay.run.workloads import Item, Workset, workset
from assay.run.workloads.prompt_text import Writer
from assay.run.workloads.rows import Row, in_template, pick, read_rows
from assay.run.workloads.synthetic import (
    LICENCE,
    SOURCE,
    alike,
    draw,
    draw_outputs,
    needed,
    round_trip,
    usual_items,
    words_seed,
)
from assay.spec.benchmark import Definition
from assay.spec.workload import Workload


def make_prompts(definition: Definition, base: Path, tokenizer: Tokenizer | None) -> Workset:
    workload = definition.workload
    if (name := workload.file) is None:
        message = "the task prompts reads a file, and workload.file is not given"
        try_ = 'name a JSONL file with lines such as {"prompt": "…"}'
        raise MeasureError(message, code="workload-file", at="workload.file", try_=try_)
    rows = read_rows(name, base)
    for row in rows:
        if len(row.turns) > 1:
            message = (
                f"line {row.line} has {len(row.turns)} turns of the user, and the task prompts asks each line once"
            )
            try_ = "use task: conversation"
            raise MeasureError(message, code="workload-file", at=f"{Path(name).name}:{row.line}", try_=try_)
    items = items_of(pick(rows, workload.items, workload.seed, "lines in the file"), workload)
    return workset("prompts", items, workload, tokenizer, source=f"own file {Path(name).name}")


def items_of(rows: Sequence[Row], workload: Workload) -> list[Item]:
    """Items from rows: the template around each first turn, a row's own answer length before the workload's."""
    around = in_template(workload.prompt)
    answers = draw_outputs(workload.output_tokens, len(rows), workload.seed)
    return [
        Item(
            row.id,
            (around(row.turns[0]), *row.turns[1:]),
            row.system,
            row.reference,
            output_tokens=answer if row.output_tokens is None else row.output_tokens,
            data=row.data,
        )
        for row, answer in zip(rows, answers, strict=True)
    ]


_USUAL_TURNS = 4


def make_conversation(definition: Definition, base: Path, tokenizer: Tokenizer | None) -> Workset:
    if definition.workload.file is not None:
        return _from_file(definition, base, tokenizer)
    return _synthetic(definition, tokenizer)


def _from_file(definition: Definition, base: Path, tokenizer: Tokenizer | None) -> Workset:
    workload = definition.workload
    for key in ("input_tokens", "turns", "shared_prefix"):
        if getattr(workload, key) is not None:
            message = f"workload.{key} belongs to conversations that are made, and these come from {workload.file}"
            try_ = f"remove workload.{key} or workload.file"
            raise MeasureError(message, code="task-key", at=f"workload.{key}", try_=try_)
    name = str(workload.file)
    rows = pick(read_rows(name, base), workload.items, workload.seed, "lines in the file")
    more: dict[str, JsonValue] = {
        "turns": sum(len(row.turns) for row in rows),
        "recorded_answers": f"{sum(row.answers for row in rows)}, replaced by the server's own",
    }
    items = items_of(rows, workload)
    return workset("conversation", items, workload, tokenizer, source=f"own file {Path(name).name}", more=more)


def _synthetic(definition: Definition, tokenizer: Tokenizer | None) -> Workset:
    workload = definition.workload
    if workload.input_tokens is None:
        message = "a conversation needs workload.file, or workload.input_tokens for the length of each turn"
        raise MeasureError(message, code="task-key", at="workload.input_tokens", try_="give one of them")
    turns = workload.turns or _USUAL_TURNS
    count = workload.items or max(16, usual_items(definition, workload.input_tokens, tokenizer) // turns)
    writer = Writer(needed(tokenizer), words_seed(workload))
    random = np.random.default_rng([workload.seed, 30])
    lengths = [int(length) for length in draw(workload.input_tokens, count * turns, random, "workload.input_tokens")]
    system = None
    if workload.shared_prefix is not None:
        system = writer.write([workload.shared_prefix], at="workload.shared_prefix")[0].text
    # First turns first: they alone follow the shared text directly, and get the beginnings that differ.
    first = writer.write(lengths[:count], around=in_template(workload.prompt))
    later = [prompt.text for prompt in writer.write(lengths[count:])]
    answers = draw_outputs(workload.output_tokens, count, workload.seed)
    items = [
        Item(
            f"conversation-{number}",
            (first[number].text, *later[number * (turns - 1) : (number + 1) * (turns - 1)]),
            system,
            input_tokens=lengths[number],
            output_tokens=answers[number],
        )
        for number in range(count)
    ]
    more: dict[str, JsonValue] = {
        "turns": count * turns,
        "round_trip": round_trip(writer),
        "system_tokens": workload.shared_prefix or 0,
        "shared_prefix_tokens": alike(first),
    }
    return workset("conversation", items, workload, tokenizer, source=SOURCE, licence=LICENCE, more=more, made=True)


ARTICLES_SOURCE = "articles written for assay; no text is taken from Wikipedia"
ARTICLES_LICENCE = "CC0-1.0"
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


def make_wikipedia_summary(definition: Definition, _base: Path, tokenizer: Tokenizer | None) -> Workset:
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
    return workset(
        "wikipedia-summary",
        items,
        workload,
        tokenizer,
        source=ARTICLES_SOURCE,
        licence=ARTICLES_LICENCE,
        scorers=("rouge",),
    )


# A sentence ends before a capital or a figure; abbreviations are left out of the articles.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")


@dataclass(frozen=True, slots=True)
class _Texts:
    texts: tuple[str, ...]
    source: str
    licence: str | None
    lengths: tuple[int, ...] | None = None  # in tokens, where they were made to length


def make_embedding(definition: Definition, base: Path, tokenizer: Tokenizer | None) -> Workset:
    """Put texts into requests."""
    workload = definition.workload
    batch = workload.batch or 1
    corpus = _texts(definition, base, tokenizer, batch)
    if len(corpus.texts) < batch:
        message = f"workload.batch is {batch}, and there are only {len(corpus.texts)} texts"
        try_ = "use a smaller batch, or a file with more lines"
        raise MeasureError(message, code="too-few-items", at="workload.batch", try_=try_)
    around = in_template(workload.prompt if corpus.lengths is None else None)
    whole = len(corpus.texts) // batch
    items = [
        Item(
            f"request-{number}",
            tuple(around(text) for text in corpus.texts[number * batch : (number + 1) * batch]),
            input_tokens=corpus.lengths[number * batch] if corpus.lengths else None,
        )
        for number in range(whole)
    ]
    made = corpus.lengths is not None
    chosen = pick(items, None if made else workload.items, workload.seed, f"requests of {batch} texts")
    more: dict[str, JsonValue] = {"batch": batch, "texts_left_out": len(corpus.texts) - whole * batch}
    return workset(
        "embedding", chosen, workload, tokenizer, source=corpus.source, licence=corpus.licence, more=more, made=made
    )


def _texts(definition: Definition, base: Path, tokenizer: Tokenizer | None, batch: int) -> _Texts:
    workload = definition.workload
    if workload.file is not None:
        if workload.input_tokens is not None:
            message = f"workload.input_tokens belongs to texts that are made, and these come from {workload.file}"
            raise MeasureError(message, code="task-key", at="workload.input_tokens", try_="remove one of them")
        texts = tuple(text for row in read_rows(workload.file, base) for text in row.turns)
        return _Texts(texts, f"own file {Path(workload.file).name}", None)
    if workload.input_tokens is not None:
        usual = usual_items(definition, workload.input_tokens, tokenizer)
        count = batch * (workload.items or max(1, usual // batch if workload.prompt_seed is None else usual))
        writer = Writer(needed(tokenizer), words_seed(workload))
        random = np.random.default_rng([workload.seed, 30])
        lengths = [int(length) for length in draw(workload.input_tokens, count, random, "workload.input_tokens")]
        written = writer.write(lengths, around=in_template(workload.prompt))
        return _Texts(tuple(prompt.text for prompt in written), SOURCE, LICENCE, tuple(lengths))
    sentences = (
        sentence
        for article in articles()
        for paragraph in article.text.split("\n\n")
        for sentence in _SENTENCE_END.split(paragraph)
    )
    source = f"sentences of {ARTICLES_SOURCE}"
    return _Texts(tuple(dict.fromkeys(sentences)), source, ARTICLES_LICENCE)
