"""`synthetic`: prompts of exactly as many tokens as asked for, or a few plain questions where no length is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.tokens import Tokenizer, is_remote
from assay.run.workloads.lengths import draw, draw_outputs
from assay.run.workloads.prompt_text import ExactText, Writer, plain_words
from assay.run.workloads.records import Item, Workset
from assay.run.workloads.rows import in_template, pick
from assay.run.workloads.worksets import requests_needed, workset
from assay.spec.benchmark import Definition
from assay.spec.workload import Tokens, Workload

SOURCE = "plain words in random order, made from the seed"
LICENCE = "CC0-1.0"
# How many prompts are made by default: enough that few repeat, few enough to be made quickly.
_USUAL, _MOST, _MOST_TOKENS = 512, 4096, 2_000_000
# New prompts are made for every request, as far as that takes seconds and not minutes: through a server's own tokenizer
# a prompt costs about 5 ms, with one of this machine a tenth of that.
_MOST_NEW, _MOST_NEW_TOKENS = 20_000, 5_000_000
# Words that open a built-in question, so that it is a new one.
_OPENING = 4


def make_synthetic(definition: Definition, _base: Path, tokenizer: Tokenizer | None) -> Workset:
    workload = definition.workload
    if workload.input_tokens is None:
        return _questions(definition, tokenizer)
    count = workload.items or usual_items(definition, workload.input_tokens, tokenizer)
    lengths = draw(workload.input_tokens, count, np.random.default_rng([workload.seed, 30]), "workload.input_tokens")
    items, more = exact_items(workload, [int(one) for one in lengths], tokenizer)
    answers = draw_outputs(workload.output_tokens, count, workload.seed)
    asked = [replace(item, output_tokens=answer) for item, answer in zip(items, answers, strict=True)]
    return workset("synthetic", asked, workload, tokenizer, source=SOURCE, licence=LICENCE, more=more, made=True)


def words_seed(workload: Workload) -> int:
    """The seed of the words of made prompts; lengths and choices always come from `seed`, so that runs are alike."""
    return workload.seed if workload.prompt_seed is None else workload.prompt_seed


def exact_items(
    workload: Workload, lengths: Sequence[int], tokenizer: Tokenizer | None
) -> tuple[list[Item], dict[str, JsonValue]]:
    """Prompts of these lengths, and what is to be said about them.

    Raises:
        MeasureError: without a tokenizer, or when a length cannot be met.
    """
    writer = Writer(needed(tokenizer), words_seed(workload))
    shared = ""
    if workload.shared_prefix is not None:
        _check_room(workload.shared_prefix, min(lengths))
        shared = writer.write([workload.shared_prefix], at="workload.shared_prefix")[0].text
    written = writer.write(lengths, shared, in_template(workload.prompt))
    items = [
        Item(f"synthetic-{number}", (one.text,), input_tokens=length)
        for number, (one, length) in enumerate(zip(written, lengths, strict=True))
    ]
    return items, {
        "round_trip": round_trip(writer),
        "different_prompts": len({one.text for one in written}),
        "shared_prefix_tokens": {"asked": workload.shared_prefix or 0, **alike(written)},
    }


def usual_items(definition: Definition, lengths: int | Tokens, tokenizer: Tokenizer | None) -> int:
    """How many different prompts to make by default: one for each request where every run asks new ones."""
    mean = lengths if isinstance(lengths, int) else lengths.mean
    requests = definition.load.requests
    if definition.workload.prompt_seed is not None:
        slow = tokenizer is not None and is_remote(tokenizer)
        most, tokens = (_MOST, _MOST_TOKENS) if slow else (_MOST_NEW, _MOST_NEW_TOKENS)
        return max(16, math.ceil(min(requests_needed(definition), most, tokens / mean)))
    # Twice the requests: those of the warm-up are further ones.
    wanted = _USUAL if requests is None else 2 * requests + 16
    return max(16, min(wanted, _MOST, int(_MOST_TOKENS / mean)))


def needed(tokenizer: Tokenizer | None, at: str = "workload.input_tokens") -> Tokenizer:
    """The tokenizer, without which no prompt has a length in tokens."""
    if tokenizer is None:
        raise MeasureError(
            "prompts of a length in tokens need the model's tokenizer, and there is none: words are not tokens",
            code="no-tokenizer",
            at=at,
            try_="give target.tokenizer (a tokenizer.json, its folder or a GGUF file), "
            "or use a server with /tokenize such as vLLM or llama.cpp",
        )
    return tokenizer


def round_trip(writer: Writer) -> str:
    """What was checked about every prompt."""
    if writer.stays_checked:
        return "every prompt has its length again after it became tokens and text"
    return "not checked: this tokenizer does not turn the tokens of these texts back into them"


def alike(written: Sequence[ExactText]) -> dict[str, JsonValue]:
    """How many tokens at the start two of the texts have in common, at least and at most."""
    starts = sorted(one.start for one in written)
    if len(starts) < 2:
        return {"least": None, "most": None}
    # In sorted order those that share most lie beside each other, and those that share least at the ends.
    return {"least": _shared(starts[0], starts[-1]), "most": max(_shared(one, two) for one, two in pairwise(starts))}


def _shared(one: Sequence[int], two: Sequence[int]) -> int:
    return next((place for place, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def _check_room(shared: int, shortest: int) -> None:
    if shared >= shortest:
        raise MeasureError(
            f"workload.shared_prefix is {shared} tokens, and the shortest prompt has only {shortest}",
            code="shared-prefix",
            at="workload.shared_prefix",
            try_="make the prefix shorter than workload.input_tokens, or give input_tokens a higher min",
        )


@cache
def questions() -> tuple[str, ...]:
    """The shipped questions, one per line."""
    text = (files("assay.run.workloads") / "data" / "questions.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line.strip())


def _questions(definition: Definition, tokenizer: Tokenizer | None) -> Workset:
    """No length is asked for, so no tokenizer is needed."""
    workload = definition.workload
    if workload.shared_prefix is not None:
        raise MeasureError(
            "workload.shared_prefix is given without workload.input_tokens",
            code="shared-prefix",
            at="workload.shared_prefix",
            try_="say how long the whole prompts are",
        )
    around = in_template(workload.prompt)
    chosen = pick(list(enumerate(questions())), workload.items, workload.seed, "built-in questions")
    asked = [(f"question-{number}", text) for number, text in chosen]
    source = "built-in questions, because workload.input_tokens is not given"
    if workload.prompt_seed is not None:
        needed = min(requests_needed(definition), _MOST_NEW)
        asked = _opened(asked, len(asked) if workload.items else math.ceil(needed), workload.prompt_seed)
        source += "; random words before each make it new"
    answers = draw_outputs(workload.output_tokens, len(asked), workload.seed)
    items = [
        Item(name, (around(text),), output_tokens=answer) for (name, text), answer in zip(asked, answers, strict=True)
    ]
    return workset("synthetic", items, workload, tokenizer, source=source, licence=LICENCE, made=True)


def _opened(asked: Sequence[tuple[str, str]], count: int, seed: int) -> list[tuple[str, str]]:
    """`count` questions in turn, each with words before it that no other has."""
    random = np.random.default_rng([seed, 21])
    known = plain_words()
    openings: dict[str, None] = {}  # a set that keeps its order
    while len(openings) < count:
        drawn = random.integers(len(known), size=(count - len(openings), _OPENING))
        openings |= dict.fromkeys(" ".join(known[one] for one in row).capitalize() for row in drawn.tolist())
    found = []
    for place, opening in enumerate(openings):
        turn, (name, text) = place // len(asked), asked[place % len(asked)]
        found.append((f"{name}-{turn}" if turn else name, f"{opening}: ignore these words. {text}"))
    return found
