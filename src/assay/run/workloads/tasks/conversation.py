"""`conversation`: several turns with the server's own answers between them, from a file or made to length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.tokens import Tokenizer
from assay.run.workloads.facts import workset
from assay.run.workloads.records import Item, Workset
from assay.run.workloads.rows import in_template, pick, read_rows
from assay.run.workloads.tasks.prompts import items_of
from assay.run.workloads.tasks.synthetic import LICENCE, SOURCE, alike, needed, round_trip, usual_items, words_seed
from assay.run.workloads.texts.exact import Writer
from assay.run.workloads.texts.lengths import draw, draw_outputs
from assay.spec.benchmark import Definition

_USUAL_TURNS = 4


def make(definition: Definition, base: Path, tokenizer: Tokenizer | None) -> Workset:
    if definition.workload.file is not None:
        return _from_file(definition, base, tokenizer)
    return _synthetic(definition, tokenizer)


def _from_file(definition: Definition, base: Path, tokenizer: Tokenizer | None) -> Workset:
    workload = definition.workload
    for key in ("input_tokens", "turns", "shared_prefix"):
        if getattr(workload, key) is not None:
            raise MeasureError(
                f"workload.{key} belongs to conversations that are made, and these come from {workload.file}",
                code="task-key",
                at=f"workload.{key}",
                try_=f"remove workload.{key} or workload.file",
            )
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
        raise MeasureError(
            "a conversation needs workload.file, or workload.input_tokens for the length of each turn",
            code="task-key",
            at="workload.input_tokens",
            try_="give one of them",
        )
    turns = workload.turns or _USUAL_TURNS
    count = workload.items or max(16, usual_items(definition, workload.input_tokens, tokenizer) // turns)
    writer = Writer(needed(tokenizer), words_seed(workload))
    random = np.random.default_rng([workload.seed, 30])
    lengths = [int(one) for one in draw(workload.input_tokens, count * turns, random, "workload.input_tokens")]
    system = None
    if workload.shared_prefix is not None:
        system = writer.write([workload.shared_prefix], at="workload.shared_prefix")[0].text
    # First turns first: they alone follow the shared text directly, and get the beginnings that differ.
    first = writer.write(lengths[:count], around=in_template(workload.prompt))
    later = [one.text for one in writer.write(lengths[count:])]
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
