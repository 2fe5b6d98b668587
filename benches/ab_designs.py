"""`assay ab` with looks planned ahead and without: false answers, power, sizes at the stop; simulated, truth known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyse.ab import PairPlan, bets
from assay.analyse.ab.evidence import centre_of
from assay.analyse.ab.planned import PlannedLook, blocks_to_plan, look_at
from benches.page import Page, Table

Values = NDArray[np.float64]
_Noise = Callable[[np.random.Generator, int], Values]
# Forty pairs.
_BLOCKS = 20
# Of the fraction by which runs differ.
_SPREAD = 0.02
_SEED = 41_017
_FALSE, _COVERED, _FOUND = 0.05, 0.94, 0.45


def bench(*, quick: bool = False) -> Page:
    """Equal sides under nine noises, then true differences."""
    many, some, few = (60, 60, 20) if quick else (4_000, 1_000, 300)
    tables = [_equal(many), _power(some), _sizes(few), _planned(few)]
    return Page("ab_designs", "`assay ab`: looks planned ahead, and looks at any time", _ABOUT, tables)


def _remembering(rng: np.random.Generator, runs: int) -> Values:
    values = rng.normal(0, 1, runs)
    for index in range(1, runs):
        values[index] += 0.9 * values[index - 1]
    return values


_NOISES: dict[str, _Noise] = {
    "normal": lambda rng, runs: rng.normal(0, 1, runs),
    "t, 2 degrees of freedom": lambda rng, runs: rng.standard_t(2, runs),
    "each run remembers the one before (0.9)": _remembering,
    "trend, half a spread a run": lambda rng, runs: rng.normal(0, 1, runs) + np.arange(runs) / 2,
    "accelerating": lambda rng, runs: rng.normal(0, 1, runs) + np.arange(runs) ** 2 / 100,
    "two levels, five spreads apart": lambda rng, runs: rng.normal(0, 0.1, runs) + 5.0 * (rng.random(runs) < 0.5),
    "one run in twenty takes twice the time": lambda rng, runs: (
        rng.normal(0, 1, runs) + (rng.random(runs) < 0.05) * math.log(2) / _SPREAD
    ),
    "period of four runs": lambda rng, runs: rng.normal(0, 0.1, runs) + np.resize([3.0, 0.0, 0.0, 3.0], runs),
    "steps of a clock (ties)": lambda rng, runs: np.round(rng.normal(0, 0.7, runs)),
}


def _blocks(rng: np.random.Generator, noise: _Noise, effect: float, blocks: int = _BLOCKS) -> Values:
    """The difference of each block, in spreads of a run: the coin gives its sign."""
    four = noise(rng, 4 * blocks).reshape(-1, 4)
    inner = (four[:, 1] + four[:, 2] - four[:, 0] - four[:, 3]) / 2
    return np.asarray(rng.choice([-1.0, 1.0], blocks) * inner + effect)


def _looks(found: Values) -> Iterator[PlannedLook]:
    plan = PairPlan(found.size)
    for blocks in plan.looks:
        look = look_at(found[:blocks], plan)
        if look is not None:
            yield look


def _ended(found: Values) -> tuple[bool, PlannedLook]:
    """Whether a planned experiment can tell, and the look that ends it."""
    look = None
    for look in _looks(found):
        if look.excludes():
            return True, look
    assert look is not None
    return False, look


def _open_ended(found: Values) -> int | None:
    """After how many blocks the bets can tell."""
    hits = np.flatnonzero(bets.winnings(found) >= bets.threshold())
    return int(hits[0]) + 1 if hits.size else None


def _shares(noise: _Noise, effect: float, rounds: int, seed: int) -> tuple[float, float]:
    """How often the bets and the planned looks call the sides different."""
    rng, told = np.random.default_rng(seed), [0, 0]
    for _ in range(rounds):
        found = _blocks(rng, noise, effect)
        told[0] += _open_ended(found) is not None
        told[1] += _ended(found)[0]
    return told[0] / rounds, told[1] / rounds


def _equal(rounds: int) -> Table:
    rows = []
    for number, (name, noise) in enumerate(_NOISES.items()):
        before, now = _shares(noise, 0.0, rounds, _SEED + number)
        # The promise is exact; what is measured of it is a draw.
        most = _FALSE + 3 * math.sqrt(_FALSE * (1 - _FALSE) / rounds)
        rows.append([name, f"{before:.1%}", f"{now:.1%}", "≤ 5%", "pass" if now <= most else "**fail**"])
    notes = [f"{rounds:,} experiments a row of {2 * _BLOCKS} pairs; passed within three standard errors."]
    columns = ["noise", "before: looks at any time", "now: looks planned ahead", "promise", "kept"]
    return Table("Equal sides called different", columns, rows, notes)


def _power(rounds: int) -> Table:
    rows = []
    for name in ("normal", "t, 2 degrees of freedom", "one run in twenty takes twice the time"):
        for number, effect in enumerate((0.25, 0.5, 1.0, 1.5, 2.5)):
            before, now = _shares(_NOISES[name], effect, rounds, _SEED + 100 + number)
            asked = name == "normal" and effect == 0.5
            kept = "" if not asked else "pass" if now >= _FOUND else "**fail**"
            rows.append([name, f"+{effect * _SPREAD:.1%}", f"{before:.0%}", f"{now:.0%}", kept])
    notes = [
        f"{rounds:,} experiments a row of {2 * _BLOCKS} pairs, runs that differ by {_SPREAD:.0%}.",
        "Asked for: about half of all differences of +1 % under normal noise.",
    ]
    columns = ["noise", "true difference", "before", "now", "kept"]
    return Table("True differences found", columns, rows, notes)


@dataclass(frozen=True, slots=True)
class _Sizes:
    told: Values
    estimates: Values
    covered: Values

    def row(self, effect: float) -> list[str]:
        told = self.told.astype(bool)
        ratio = f"{np.median(self.estimates[told]) / effect:.2f}" if told.any() else ""
        above = float((self.estimates > effect).mean())
        inside = f"{self.covered[told].mean():.1%}" if told.any() else ""
        return [
            f"{np.median(self.estimates) / effect:.2f}",
            f"{above:.0%}",
            ratio,
            f"{self.covered.mean():.1%}",
            inside,
        ]


def _sizes(rounds: int) -> Table:
    rows = []
    for name in ("normal", "t, 2 degrees of freedom", "one run in twenty takes twice the time"):
        for number, effect in enumerate((0.25, 0.5, 1.0, 1.5)):
            for design, measure in (("before", _before), ("now", _now)):
                rng = np.random.default_rng(_SEED + 200 + number)
                sizes = measure([_blocks(rng, _NOISES[name], effect) for _ in range(rounds)], effect)
                kept = "" if design == "before" else "pass" if sizes.covered.mean() >= _COVERED else "**fail**"
                rows.append([name, f"+{effect * _SPREAD:.1%}", design, *sizes.row(effect), kept])
    notes = [
        f"{rounds:,} experiments a row of {2 * _BLOCKS} pairs, each ended by the first look that can tell.",
        "Over all experiments the estimate is meant to be too large as often as too small.",
        "Those that could tell are the ones that luck helped, most where few can tell: no estimate is free of that.",
    ]
    columns = [
        "noise", "true difference", "design", "estimate ÷ truth, median", "too large", "the same, where it could tell",
        "interval holds the truth", "the same, where it could tell", "kept (≥ 94%)",
    ]  # fmt: skip
    return Table("Sizes at the stop", columns, rows, notes)


def _before(experiments: list[Values], effect: float) -> _Sizes:
    told, estimates, covered = [], [], []
    for found in experiments:
        blocks = _open_ended(found)
        ends = bets.interval(found[:blocks])
        told.append(blocks is not None)
        estimates.append(centre_of(found[:blocks]))
        covered.append(ends is not None and ends[0] <= effect <= ends[1])
    return _Sizes(np.array(told), np.array(estimates), np.array(covered))


def _now(experiments: list[Values], effect: float) -> _Sizes:
    told, estimates, covered = [], [], []
    for found in experiments:
        differs, look = _ended(found)
        concluded = look.evidence()
        told.append(differs)
        estimates.append(concluded.centre)
        covered.append(concluded.ends is not None and concluded.ends[0] <= effect <= concluded.ends[1])
    return _Sizes(np.array(told), np.array(estimates), np.array(covered))


def _planned(rounds: int) -> Table:
    """Whether an experiment with the number of pairs that is named finds the difference four times in five."""
    rows, rng = [], np.random.default_rng(_SEED + 300)
    for effect in (0.3, 0.5, 0.8, 1.2):
        blocks = blocks_to_plan(effect, 1.0) or 0
        told, used = 0, []
        for _ in range(rounds):
            differs, look = _ended(rng.normal(effect, 1, blocks))
            told += differs
            used.append(look.blocks)
        rows.append([f"{effect:g}", str(2 * blocks), f"{told / rounds:.0%}", f"{2 * np.mean(used):.0f}"])
    notes = [f"{rounds:,} experiments a row; the difference is in spreads between blocks of two pairs. Meant: 80 %."]
    columns = ["true difference", "pairs to plan", "found", "pairs used, mean"]
    return Table("The number of pairs that a new experiment should plan", columns, rows, notes)


_ABOUT = (
    "Looks that are planned for a declared number of pairs, beside bets that may be looked at after every block (the "
    "only design before, now `--open-ended`). All experiments are simulated, so the truth is known."
)
