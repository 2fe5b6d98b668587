"""`embedding`: texts to turn into vectors, one or several in a request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.tokens import Tokenizer
from assay.run.workloads.facts import workset
from assay.run.workloads.records import Item, Workset
from assay.run.workloads.rows import in_template, pick, read_rows
from assay.run.workloads.tasks import synthetic, wikipedia_summary
from assay.run.workloads.texts.exact import Writer
from assay.run.workloads.texts.lengths import draw
from assay.spec.benchmark import Definition

# A sentence ends before a capital or a figure; abbreviations are left out of the articles.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")


@dataclass(frozen=True, slots=True)
class _Texts:
    texts: tuple[str, ...]
    source: str
    licence: str | None
    lengths: tuple[int, ...] | None = None  # in tokens, where they were made to length


def make(definition: Definition, base: Path, tokenizer: Tokenizer | None) -> Workset:
    """Put texts into requests."""
    workload = definition.workload
    batch = workload.batch or 1
    found = _texts(definition, base, tokenizer, batch)
    if len(found.texts) < batch:
        raise MeasureError(
            f"workload.batch is {batch}, and there are only {len(found.texts)} texts",
            code="too-few-items",
            at="workload.batch",
            try_="use a smaller batch, or a file with more lines",
        )
    around = in_template(workload.prompt if found.lengths is None else None)
    whole = len(found.texts) // batch
    items = [
        Item(
            f"request-{number}",
            tuple(around(text) for text in found.texts[number * batch : (number + 1) * batch]),
            input_tokens=found.lengths[number * batch] if found.lengths else None,
        )
        for number in range(whole)
    ]
    made = found.lengths is not None
    chosen = pick(items, None if made else workload.items, workload.seed, f"requests of {batch} texts")
    more: dict[str, JsonValue] = {"batch": batch, "texts_left_out": len(found.texts) - whole * batch}
    return workset(
        "embedding", chosen, workload, tokenizer, source=found.source, licence=found.licence, more=more, made=made
    )


def _texts(definition: Definition, base: Path, tokenizer: Tokenizer | None, batch: int) -> _Texts:
    workload = definition.workload
    if workload.file is not None:
        if workload.input_tokens is not None:
            raise MeasureError(
                f"workload.input_tokens belongs to texts that are made, and these come from {workload.file}",
                code="task-key",
                at="workload.input_tokens",
                try_="remove one of them",
            )
        texts = tuple(text for row in read_rows(workload.file, base) for text in row.turns)
        return _Texts(texts, f"own file {Path(workload.file).name}", None)
    if workload.input_tokens is not None:
        usual = synthetic.usual_items(definition, workload.input_tokens, tokenizer)
        count = batch * (workload.items or max(1, usual // batch if workload.prompt_seed is None else usual))
        writer = Writer(synthetic.needed(tokenizer), synthetic.words_seed(workload))
        random = np.random.default_rng([workload.seed, 30])
        lengths = [int(one) for one in draw(workload.input_tokens, count, random, "workload.input_tokens")]
        written = writer.write(lengths, around=in_template(workload.prompt))
        return _Texts(tuple(one.text for one in written), synthetic.SOURCE, synthetic.LICENCE, tuple(lengths))
    sentences = (
        sentence
        for article in wikipedia_summary.articles()
        for paragraph in article.text.split("\n\n")
        for sentence in _SENTENCE_END.split(paragraph)
    )
    source = f"sentences of {wikipedia_summary.SOURCE}"
    return _Texts(tuple(dict.fromkeys(sentences)), source, wikipedia_summary.LICENCE)
