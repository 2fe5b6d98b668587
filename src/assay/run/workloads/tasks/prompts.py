"""`prompts`: a user's own prompts from a JSONL file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from assay.errors import MeasureError
from assay.run.tokens import Tokenizer
from assay.run.workloads.facts import workset
from assay.run.workloads.records import Item, Workset
from assay.run.workloads.rows import Row, in_template, pick, read_rows
from assay.run.workloads.texts.lengths import draw_outputs
from assay.spec.benchmark import Definition
from assay.spec.workload import Workload


def make(definition: Definition, base: Path, tokenizer: Tokenizer | None) -> Workset:
    workload = definition.workload
    name = needed_file(workload, "prompts")
    rows = read_rows(name, base)
    _check_single(rows, name)
    items = items_of(pick(rows, workload.items, workload.seed, "lines in the file"), workload)
    return workset("prompts", items, workload, tokenizer, source=f"own file {Path(name).name}")


def needed_file(workload: Workload, task: str) -> str:
    if workload.file is None:
        raise MeasureError(
            f"the task {task} reads a file, and workload.file is not given",
            code="workload-file",
            at="workload.file",
            try_='name a JSONL file with lines such as {"prompt": "…"}',
        )
    return workload.file


def items_of(rows: Sequence[Row], workload: Workload) -> list[Item]:
    """Items from rows: the template around each first turn, a row's own answer length before the workload's."""
    around: Callable[[str], str] = in_template(workload.prompt)
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


def _check_single(rows: Sequence[Row], name: str) -> None:
    for row in rows:
        if len(row.turns) > 1:
            raise MeasureError(
                f"line {row.line} has {len(row.turns)} turns of the user, and the task prompts asks each line once",
                code="workload-file",
                at=f"{Path(name).name}:{row.line}",
                try_="use task: conversation",
            )
