"""The first bad commit, or the first bad value of a setting: measured where it decides, with the noise allowed for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from assay.analyse.ab import ABDecision, MetricSelection, Pair, decide, headline_in
from assay.analyse.ab.evidence import centre_of
from assay.analyse.ab.pairs import Scale, differences, direction_in, scale_of
from assay.analyse.bisect import (
    BisectState,
    Levels,
    answer_of,
    is_between,
    levels_of,
    pooled_spread,
    standing,
    weight_of,
)
from assay.analyse.intervals import LEVEL, t_quantile
from assay.analyse.records import Interval
from assay.analyse.text import count, listed, percent
from assay.clock import SYSTEM_CLOCK, Clock
from assay.errors import MeasureError, UsageError
from assay.exec.machine import surroundings
from assay.experiments.ab import refuse_absent
from assay.experiments.candidates import BisectItem, BisectItems, UnbuiltError
from assay.experiments.interleave import (
    PAIRS_OF_A_BLOCK,
    Experiment,
    ExperimentPart,
    ExperimentSession,
    experiment_session,
    job_pair,
    pairs_in,
    parts_of,
)
from assay.metrics import Better
from assay.plan.job import Job, content_hash
from assay.report.live import SilentView, View
from assay.run.inputs import plan_of

# Labels of the campaigns of a search.
BISECT, ITEM = "bisect", "bisect_item"
Values = NDArray[np.float64]
# Runs that fail one after another, from the first on, after which an item is taken for one that cannot be measured.
_HOPELESS = 2


BisectAnswer = Literal["good", "bad", "cannot tell", "skipped"]


@dataclass(frozen=True, slots=True)
class BisectSearch:
    """What is looked for, and how much may be measured."""

    wanted: MetricSelection | None = None
    """The number that decides; the first headline metric when left out."""
    worse_than: float | None = None
    """An item is bad if it is worse than good by more than this; by half of what bad is worse, when left out."""
    smallest: float = 0.01
    """Ends that differ by less are alike."""
    pairs: int = 40
    """Of one item with the good one, at most."""
    seconds: float | None = None
    level: float = LEVEL
    """How sure the answer must be."""


@dataclass(frozen=True, slots=True)
class BisectRow:
    """What is known about one item that was measured, or could not be."""

    index: int
    name: str
    key: str
    answer: BisectAnswer
    pairs: int = 0
    change: float | None = None
    """Relative, against the good end."""
    interval: Interval | None = None
    weight: float | None = None
    """Log odds that it is bad."""
    why: str = ""
    reused: int = 0
    """Pairs that an earlier search had measured."""


@dataclass(frozen=True, slots=True)
class BisectResult:
    """What came of a search."""

    name: str
    metric: str
    items: int
    found: bool
    candidates: tuple[str, ...]
    """All that may be it: one, unless some cannot be measured or the search has not ended."""
    confidence: float
    because: tuple[str, ...]
    ends: ABDecision
    rows: tuple[BisectRow, ...]
    measured: int
    """Pairs of this search alone."""
    seconds: float


def bisect(
    items: BisectItems,
    search: BisectSearch,
    *,
    build: str = "",
    store: str | Path | None = None,
    view: View | None = None,
    clock: Clock = SYSTEM_CLOCK,
    lock: str | None = None,
    control: bool = True,
) -> BisectResult:
    benchmark, view = items.benchmark, view or SilentView()
    plan = plan_of(benchmark)
    if len(plan.jobs) != 1:
        remedy = "--set matrix={}, and the values with --set"
        message = f"its matrix gives {len(plan.jobs)} jobs, and bisect follows one"
        raise UsageError(message, code="matrix", at=benchmark.source.name, try_=remedy)
    # The runs of an item are compared with those of the good one, so these two say what may be used again.
    name = f"bs{content_hash([benchmark.source.document, items.items[0].key, build, surroundings()])[:12]}"
    purpose = f"bisect of {plan.benchmark}"
    with experiment_session(
        plan.jobs, purpose, store=store, view=view, clock=clock, lock=lock, control=control
    ) as session:
        bisection = _Bisection(items, search, session, plan.jobs[0], name)
        view.note(f"{name}: {count(len(items.items), 'item')} from good to bad")
        ends = bisection.ends()
        bisection.search()
        return bisection.result(ends)


class _Bisection:
    def __init__(
        self, items: BisectItems, search: BisectSearch, session: ExperimentSession, job: Job, name: str
    ) -> None:
        self.items, self.wants, self.session, self.job, self.name = items, search, session, job, name
        self.began_s = session.clock.monotonic_s()
        self.last = len(items.items) - 1
        self.skipped: dict[int, str] = {}
        self.closed: set[int] = set()
        self.late = False
        self.wanted, self.unit, self.better = search.wanted, "", cast("Better | None", None)
        self.parts = self._known()
        self.reused = {index: _made(parts) for index, parts in self.parts.items()}
        for index in self.parts:
            self._learn(index)

    def _known(self) -> dict[int, tuple[ExperimentPart, ...]]:
        """What earlier searches have measured, by item."""
        numbers = {item.key: index for index, item in enumerate(self.items.items)}
        parts_by_item: dict[int, tuple[ExperimentPart, ...]] = {}
        for part in parts_of(self.session.store, {BISECT: self.name}):
            index = numbers.get(part.labels.get(ITEM, ""))
            # Two concurrent searches may have measured an item twice; an experiment is continued as one.
            if index is not None and (index not in parts_by_item or parts_by_item[index][0].name == part.name):
                parts_by_item[index] = (*parts_by_item.get(index, ()), part)
        return parts_by_item

    def _learn(self, index: int) -> None:
        """Learn from the runs of an item which number decides, and in which direction."""
        runs = [run for part in self.parts[index] for side in part.readings for run in side if not run.failure]
        if self.wanted is None:
            self.wanted = next((MetricSelection(name) for run in runs for name in headline_in(self.job, run)), None)
        if self.wanted is not None and self.better is None:
            self.unit, self.better = direction_in(self.wanted, tuple(runs))
            if self.better is None and any(self.wanted.metric in run.stats for run in runs):
                remedy = "say `better: lower` or `better: higher` for it in the file, or name another --metric"
                message = f"which direction of {self.wanted} is better was not declared"
                raise UsageError(message, code="direction", try_=remedy)

    # What is known

    def pairs(self, index: int) -> tuple[Pair, ...]:
        return pairs_in(self.parts.get(index, ()), self.wanted) if self.wanted else ()

    def scale(self) -> Scale:
        return scale_of([pair for index in self.parts for pair in self.pairs(index) if pair.complete])

    @property
    def sign(self) -> float:
        """Minus one where higher is better, so that positive always means worse."""
        return -1.0 if self.better == "higher" else 1.0

    def blocks(self, index: int) -> Values:
        """How much worse an item is than the good one, by block, on the scale of the comparison."""
        changes: Values = self.sign * differences(self.pairs(index), self.scale())
        return changes

    def levels(self) -> Levels:
        """What good and bad mean; the spread comes from all that was measured."""
        others = [self.blocks(index) for index in self.parts if index != self.last]
        return levels_of([self.blocks(self.last), *others], self.boundary())

    def boundary(self) -> float | None:
        """From which difference on an item is bad; None for half-way between the ends."""
        worse = self.wants.worse_than
        return None if worse is None else self.sign * self.scale().difference(self.sign * worse)

    def weight(self, index: int) -> float:
        return weight_of(self.blocks(index), self.levels())

    def standing(self) -> BisectState:
        blocks = {index: values for index in self.parts if (values := self.blocks(index)).size}
        begun = (index for index in blocks if 0 < index < self.last and index not in self.closed)
        return standing(
            blocks,
            self.last + 1,
            boundary=self.boundary(),
            skipped=self.skipped,
            closed=self.closed,
            stay=next((index for index in begun if not self.is_decided(index)), None),
            level=self.wants.level,
        )

    def ends_decision(self) -> ABDecision | None:
        """What the ends say; None before anything was measured."""
        if self.wanted is None or not self.parts.get(self.last):
            return None
        smallest = self.wants.smallest if self.wants.worse_than is None else self.wants.worse_than
        return decide(str(self.wanted), self.unit, self.better, self.pairs(self.last), smallest=smallest)

    def is_decided(self, index: int) -> bool:
        return index in self.skipped or answer_of(self.weight(index)) != "cannot tell"

    # Measuring

    def ends(self) -> ABDecision:
        """Measure both ends until they can be distinguished."""

        def enough() -> bool:
            verdict = self.ends_decision()
            return verdict is not None and verdict.is_final

        if not enough() and _made(self.parts.get(self.last, ())) < self.wants.pairs:
            self._measure(self.last, enough)
        decision = self.ends_decision()
        if self.last in self.skipped or decision is None:
            why = self.skipped.get(self.last, "no run gave a number")
            raise _unmeasured("bad", self.items.items[self.last], why, "unbuilt", "name another one as bad")
        _refuse_alike(decision, self.wants)
        return decision

    def search(self) -> None:
        """Measure item after item until the first bad one is known well enough, or nothing more can be measured."""
        while not self.late and (index := self.standing().next) is not None:
            self._measure(index, partial(self.is_decided, index))
            row = self.row(index)
            change = f", {percent(row.change, signed=True)} against good" if row.change is not None else ""
            self.session.view.note(f"{row.name}: {row.answer}{change}{f': {row.why}' if row.why else ''}")

    def _measure(self, index: int, enough: Callable[[], bool]) -> None:
        """Compare an item with the good one: one block at least, then until enough is known or its share is used up."""
        both = (self.items.items[0], self.items.items[index])
        try:
            good = self.items.loaded(0)
        except UnbuiltError as problem:
            remedy = "name another commit as good, or fix the build"
            raise _unmeasured("good", both[0], str(problem), "unbuilt", remedy) from None
        try:
            sides = (good, self.items.loaded(index))
        except UnbuiltError as problem:
            self.skipped[index] = str(problem)
            return
        try:
            pair = job_pair(sides, [item.name for item in both])
            labels = {BISECT: self.name, ITEM: both[1].key}
            planned = self.wants.pairs * PAIRS_OF_A_BLOCK
            with Experiment(
                pair, self.session, labels=labels, parts=self.parts.get(index, ()), planned=planned
            ) as experiment:
                experiment.begin()
                self.session.view.job(experiment.name, both[1].name, index, self.last + 1)
                self._blocks(index, experiment, enough)
        finally:
            self.items.let_go(index)

    def _blocks(self, index: int, experiment: Experiment, enough: Callable[[], bool]) -> None:
        while True:
            going = experiment.block()
            self.parts[index] = experiment.parts
            self._learn(index)
            if self._cannot_be_measured(index, going=going):
                return
            if _made(experiment.parts) >= self.wants.pairs:
                self.closed.add(index)
                return
            if enough():
                return
            spent_s = self.session.clock.monotonic_s() - self.began_s
            if self.wants.seconds is not None and spent_s > self.wants.seconds:
                self.late = True
                return

    def _cannot_be_measured(self, index: int, *, going: bool) -> bool:
        """Whether an item fails for good; it is skipped then, as one that does not build."""
        a, b = ([run for part in self.parts[index] for run in part.readings[side]] for side in (0, 1))
        if index == self.last and self.wanted is not None:
            refuse_absent(self.wanted, [run for run in (*a, *b) if not run.failure])
        whole = any(pair.complete for pair in self.pairs(index))
        if whole and going:
            return False
        if a and all(run.failure for run in a) and (not going or len(a) >= _HOPELESS):
            remedy = "name another one as good"
            raise _unmeasured("good", self.items.items[0], a[-1].failure, "unmeasured", remedy)
        if going and len(b) < 2 * _HOPELESS:
            return False
        wanted = self.wanted or MetricSelection("duration_s")
        self.skipped[index] = next((why for run in reversed(b) if (why := run.why_absent(wanted))), "it gave no number")
        return True

    # What came of it

    def row(self, index: int) -> BisectRow:
        item = self.items.items[index]
        pairs = sum(pair.complete for pair in self.pairs(index))
        end: BisectAnswer = "good" if index == 0 else "bad"
        blank = BisectRow(index, item.name, item.key, end, pairs, reused=self.reused.get(index, 0))
        if index in self.skipped:
            return replace(blank, answer="skipped", why=self.skipped[index])
        blocks = self.blocks(index)
        if not blocks.size:
            return blank
        levels, scale = self.levels(), self.scale()
        weight = weight_of(blocks, levels)
        between = is_between(blocks, levels) and index != self.last
        return replace(
            blank,
            answer="bad" if index == self.last else answer_of(weight),
            change=scale.relative(self.sign * centre_of(blocks)),
            interval=self._interval(blocks, scale),
            weight=weight,
            why="it lies between good and bad, so there may be more than one step" if between else "",
        )

    def _interval(self, blocks: Values, scale: Scale) -> Interval | None:
        """Where the difference of one item lies, from the spread of all blocks."""
        groups = [values for index in self.parts if (values := self.blocks(index)).size]
        freedom = sum(group.size - 1 for group in groups)
        if freedom < 1:
            return None
        half = t_quantile(LEVEL, freedom) * pooled_spread(groups) / math.sqrt(blocks.size)
        ends = sorted(scale.relative(self.sign * (float(blocks.mean()) + side * half)) for side in (-1.0, 1.0))
        return Interval(ends[0], ends[1], LEVEL, f"Student's t, {freedom} degrees of freedom between blocks")

    def result(self, ends: ABDecision) -> BisectResult:
        now = self.standing()
        guess, found = now.guess, now.is_clear
        sure = guess.confidence >= self.wants.level
        likely = range(guess.first, guess.last + 1) if sure else _likely(now.chances, self.wants.level)
        rows = tuple(self.row(index) for index in sorted({0, self.last, *self.parts, *self.skipped}))
        pairs = sum(map(_made, self.parts.values()))
        return BisectResult(
            name=self.name,
            metric=str(self.wanted),
            items=self.last + 1,
            found=found,
            candidates=tuple(self.items.items[index].name for index in likely),
            confidence=guess.confidence if sure else float(now.chances[list(likely)].sum()),
            because=self._because(rows, found=found, apart=found or not sure),
            ends=ends,
            rows=rows,
            measured=pairs - sum(self.reused.values()),
            seconds=self.session.clock.monotonic_s() - self.began_s,
        )

    def _because(self, rows: Sequence[BisectRow], *, found: bool, apart: bool) -> tuple[str, ...]:
        reasons = [f"{row.name}: {row.why}" for row in rows if row.why and row.answer != "skipped"]
        if found:
            return tuple(reasons)
        if not apart:
            reasons.append("no two neighbours are clearly apart there, so it may be more than one step")
        open_ = [row.name for row in rows if row.answer == "cannot tell"]
        if open_:
            reasons.append(f"noise hides whether {listed(open_)} is good or bad; more pairs or a quieter machine help")
        if self.late:
            reasons.append("its time was used up; the same command continues it")
        decided = [row for row in rows if row.answer in ("good", "bad")]
        if any(earlier.answer == "bad" and other.answer == "good" for earlier, other in pairwise(decided)):
            reasons.append("a good one comes after a bad one, so there is more than one step")
        return tuple(reasons)


def _unmeasured(end: str, item: BisectItem, why: str, code: str, remedy: str) -> MeasureError:
    return MeasureError(f"{end} ({item.name}) cannot be measured: {why}", code=code, try_=remedy)


def _made(parts: Sequence[ExperimentPart]) -> int:
    """How many pairs were measured, the failed ones too."""
    return sum(min(map(len, part.readings)) for part in parts)


def _likely(chances: Values, level: float) -> list[int]:
    """The fewest places that hold the first bad item with that chance, in order."""
    ranked = sorted(range(1, chances.size), key=lambda index: -float(chances[index]))
    masses = accumulate(float(chances[index]) for index in ranked)
    enough = next((count for count, mass in enumerate(masses, 1) if mass >= level), len(ranked))
    return sorted(ranked[:enough])


def _refuse_alike(ends: ABDecision, search: BisectSearch) -> None:
    """Refuse to look for a step between ends that do not differ, or that are the wrong way round."""
    both = () if ends.interval is None else (ends.interval.low, ends.interval.high)
    shown = " to ".join(percent(end, signed=True) for end in both) or "unknown"
    if ends.alike and both:
        most = max(map(abs, both))
        message = f"good and bad are alike: ±{percent(most)} at most in {ends.metric}, {ends.pairs} pairs"
        raise MeasureError(message, code="alike", try_="check the two ends, or name another --metric")
    if ends.answer == "cannot tell":
        message = f"good and bad cannot be distinguished in {ends.metric}: {'; '.join(ends.because)}"
        raise MeasureError(message, code="alike", try_="more --pairs; what was measured is kept")
    if ends.answer == "better":
        remedy = "exchange --good and --bad, or give the values from good to bad"
        raise UsageError(f"bad is better than good: {ends.metric} by {shown}", code="commits", try_=remedy)
    if search.worse_than is not None and abs(ends.change or 0.0) <= search.worse_than:
        message = f"bad is worse than good by {shown}, not more than {percent(search.worse_than)}"
        raise MeasureError(message, code="alike", try_="a smaller --worse-than")
