"""`synthetic`: prompts of exactly as many tokens as asked for, or a few plain questions where no length is.

Lengths are drawn from a spread that keeps its mean also where its ends are cut off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.tokens import Tokenizer, is_remote
from assay.run.workloads import Item, Workset, mean_length, requests_needed, workset
from assay.run.workloads.prompt_text import ExactText, Writer, plain_words
from assay.run.workloads.rows import in_template, pick
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
    items, more = exact_items(workload, [int(length) for length in lengths], tokenizer)
    answers = draw_outputs(workload.output_tokens, count, workload.seed)
    asked = [replace(item, output_tokens=answer) for item, answer in zip(items, answers, strict=True)]
    return workset("synthetic", asked, workload, tokenizer, source=SOURCE, licence=LICENCE, more=more, made=True)


def words_seed(workload: Workload) -> int:
    """The seed of the words of made prompts; lengths and choices always come from `seed`, so that runs are alike."""
    return workload.seed if workload.prompt_seed is None else workload.prompt_seed


def exact_items(
    workload: Workload, lengths: Sequence[int], tokenizer: Tokenizer | None
) -> tuple[list[Item], dict[str, JsonValue]]:
    """Prompts of these lengths, and the facts about them."""
    writer = Writer(needed(tokenizer), words_seed(workload))
    shared = ""
    if workload.shared_prefix is not None:
        if workload.shared_prefix >= min(lengths):
            message = (
                f"workload.shared_prefix is {workload.shared_prefix} tokens, "
                f"and the shortest prompt has only {min(lengths)}"
            )
            try_ = "make the prefix shorter than workload.input_tokens, or give input_tokens a higher min"
            raise MeasureError(message, code="shared-prefix", at="workload.shared_prefix", try_=try_)
        shared = writer.write([workload.shared_prefix], at="workload.shared_prefix")[0].text
    written = writer.write(lengths, shared, in_template(workload.prompt))
    items = [
        Item(f"synthetic-{number}", (prompt.text,), input_tokens=length)
        for number, (prompt, length) in enumerate(zip(written, lengths, strict=True))
    ]
    return items, {
        "round_trip": round_trip(writer),
        "different_prompts": len({prompt.text for prompt in written}),
        "shared_prefix_tokens": {"asked": workload.shared_prefix or 0, **alike(written)},
    }


def usual_items(definition: Definition, lengths: int | Tokens, tokenizer: Tokenizer | None) -> int:
    """How many different prompts to make by default: one for each request where every run asks new ones."""
    mean = mean_length(lengths)
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
        message = "prompts of a length in tokens need the model's tokenizer, and there is none: words are not tokens"
        try_ = (
            "give target.tokenizer (a tokenizer.json, its folder or a GGUF file), "
            "or use a server with /tokenize such as vLLM or llama.cpp"
        )
        raise MeasureError(message, code="no-tokenizer", at=at, try_=try_)
    return tokenizer


def round_trip(writer: Writer) -> str:
    """What was checked about every prompt."""
    if writer.stays_checked:
        return "every prompt has its length again after it became tokens and text"
    return "not checked: this tokenizer does not turn the tokens of these texts back into them"


def alike(written: Sequence[ExactText]) -> dict[str, JsonValue]:
    """How many tokens at the start two of the texts have in common, at least and at most."""
    starts = sorted(prompt.start for prompt in written)
    if len(starts) < 2:
        return {"least": None, "most": None}
    # In sorted order those that share most lie beside each other, and those that share least at the ends.
    return {"least": _shared(starts[0], starts[-1]), "most": max(_shared(one, two) for one, two in pairwise(starts))}


def _shared(left: Sequence[int], right: Sequence[int]) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
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
        message = "workload.shared_prefix is given without workload.input_tokens"
        try_ = "say how long the whole prompts are"
        raise MeasureError(message, code="shared-prefix", at="workload.shared_prefix", try_=try_)
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
    vocabulary = plain_words()
    openings: dict[str, None] = {}  # a set that keeps its order
    while len(openings) < count:
        drawn = random.integers(len(vocabulary), size=(count - len(openings), _OPENING))
        openings |= dict.fromkeys(" ".join(vocabulary[index] for index in row).capitalize() for row in drawn.tolist())
    questions = []
    for place, opening in enumerate(openings):
        turn, (name, text) = place // len(asked), asked[place % len(asked)]
        questions.append((f"{name}-{turn}" if turn else name, f"{opening}: ignore these words. {text}"))
    return questions


_UNIT = NormalDist()
# So far out (in standard deviations) the part of a curve that is left is too thin to draw from.
_FURTHEST = 6.0
_HALVINGS = 80


def draw(asked: int | Tokens, count: int, random: np.random.Generator, at: str) -> NDArray[np.int64]:
    if isinstance(asked, int):
        return np.full(count, asked, dtype=np.int64)
    high = math.inf if asked.max is None else float(asked.max)
    shares = _shares(count, random)
    if asked.shape == "uniform":
        drawn = asked.min + np.floor(shares * (high - asked.min + 1))
    elif asked.std == 0:
        _check_inside(asked, high, at, strictly=False)
        drawn = np.full(count, asked.mean)
    else:
        _check_inside(asked, high, at, strictly=True)
        drawn = _lognormal(asked, high, shares, at) if asked.shape == "lognormal" else _normal(asked, high, shares, at)
    return np.clip(np.floor(drawn + 0.5), asked.min, high).astype(np.int64)


def draw_outputs(asked: int | Tokens | None, count: int, seed: int) -> list[int | None]:
    """The answer lengths to ask for, one per item; the server's own default where none is asked for."""
    if asked is None:
        return [None] * count
    return [int(length) for length in draw(asked, count, np.random.default_rng([seed, 31]), "workload.output_tokens")]


def _shares(count: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Shares of the way through a spread, one from each of `count` equal parts: few draws, yet the whole shape."""
    return (random.permutation(count) + random.random(count)) / max(count, 1)


def _normal(asked: Tokens, high: float, shares: NDArray[np.float64], at: str) -> NDArray[np.float64]:
    std, low = asked.std, float(asked.min)

    def mean(middle: float) -> float:
        below, above = (low - middle) / std, (high - middle) / std
        return middle + std * (_density(below) - _density(above)) / _between(below, above)

    middle = _solve(mean, asked.mean, low - _FURTHEST * std, min(high, asked.mean) + _FURTHEST * std)
    if middle is None:
        raise _unreachable(asked, at)
    return middle + std * _quantiles((low - middle) / std, (high - middle) / std, shares)


def _lognormal(asked: Tokens, high: float, shares: NDArray[np.float64], at: str) -> NDArray[np.float64]:
    spread = math.sqrt(math.log1p((asked.std / asked.mean) ** 2))
    low, top = math.log(asked.min), math.log(high) if math.isfinite(high) else math.inf

    def mean(middle: float) -> float:
        below, above = (low - middle) / spread, (top - middle) / spread
        share = _between(below - spread, above - spread) / _between(below, above)
        return math.exp(middle + spread**2 / 2) * share

    end = min(top, math.log(asked.mean)) + _FURTHEST * spread
    middle = _solve(mean, asked.mean, low - _FURTHEST * spread, end)
    if middle is None:
        raise _unreachable(asked, at)
    return np.exp(middle + spread * _quantiles((low - middle) / spread, (top - middle) / spread, shares))


def _solve(mean: Callable[[float], float], wanted: float, low: float, high: float) -> float | None:
    """Where a rising function has a value; None when it does not within the ends."""
    if not mean(low) <= wanted <= mean(high):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < wanted else (low, middle)
    return (low + high) / 2


def _quantiles(below: float, above: float, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where shares of the normal curve between two ends lie."""
    if below > 0:  # the upper half of the curve is computed on the lower one, where small shares keep their digits
        return -_quantiles(-above, -below, 1 - shares)
    first, last = _UNIT.cdf(below), _UNIT.cdf(above)
    inside = np.clip(first + shares * (last - first), 1e-300, 1 - 1e-16)
    return np.fromiter((_UNIT.inv_cdf(share) for share in inside.tolist()), dtype=np.float64, count=len(shares))


def _between(below: float, above: float) -> float:
    return _UNIT.cdf(-below) - _UNIT.cdf(-above) if below > 0 else _UNIT.cdf(above) - _UNIT.cdf(below)


def _density(at: float) -> float:
    return 0.0 if math.isinf(at) else _UNIT.pdf(at)


def _check_inside(asked: Tokens, high: float, at: str, *, strictly: bool) -> None:
    inside = asked.min < asked.mean < high if strictly else asked.min <= asked.mean <= high
    if not inside:
        message = f"the mean length {asked.mean:g} does not lie between min ({asked.min}) and max ({asked.max})"
        raise MeasureError(message, code="token-lengths", at=at, try_="move the bounds apart, or the mean between them")


def _unreachable(asked: Tokens, at: str) -> MeasureError:
    bounds = f"min {asked.min}" if asked.max is None else f"min {asked.min} and max {asked.max}"
    message = f"no {asked.shape} spread with std {asked.std:g} has the mean {asked.mean:g} within {bounds}"
    try_ = "use a smaller std, other bounds, or shape: lognormal for lengths that vary more than their mean"
    return MeasureError(message, code="token-lengths", at=at, try_=try_)
