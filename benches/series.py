"""Change points in series with a known truth: false alarms, steps caught, and speed; beside Apache Otava and asv."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.analyse.series import Finding, Series, detect
from benches import venvs
from benches.figures import Figure, median_of
from benches.page import Page, Table
from benches.processes import BUILD, PeerError, contest
from benches.series_laws import (
    AFTER,
    LEVEL,
    LOUD,
    NOISE,
    POINTS,
    QUIET,
    QUIET_PARTS,
    SEVERAL,
    louder,
    noise,
    series,
    several,
)
from benches.series_noises import unchanged

Values = NDArray[np.float64]
SEED = 20_261_120
STEP_AT = POINTS - AFTER
LENGTHS = (30, 100, 300)
# Per cent of unchanged series with a finding, per length, before changes were checked beside other noise.
BEFORE = {
    "normal": (0.27, 0.53, 0.93),
    "t3": (0.87, 0.67, 0.60),
    "AR 0.6": (0.47, 0.60, 0.87),
    "AR 0.9": (1.07, 0.53, 1.00),
    "two levels, 80/20": (3.00, 15.07, 44.40),
    "two levels, 50/50": (1.33, 0.67, 0.20),
    "two levels that stay, 0.7": (5.87, 0.80, 0.40),
    "two levels that stay, 0.9": (48.80, 26.33, 7.80),
    "spread grows from 1 to 4": (4.53, 6.47, 3.80),
    "spread triples half-way": (4.27, 3.33, 1.47),
    "GARCH(0.2, 0.7)": (1.20, 2.93, 4.67),
    "AR 0.6 with t3 innovations": (2.60, 4.53, 6.93),
    "day and night, ±2 σ": (2.33, 0.00, 0.00),
    "long memory, d = 0.3": (1.87, 10.67, 27.40),
    "long memory, d = 0.45": (1.93, 14.80, 44.53),
}
OTHERS = ("AR 0.1", "AR 0.2", "AR 0.3", "AR 0.4", "AR 0.5", "AR 0.7", "AR 0.8", "AR 0.9")


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of series, and the share that may or must be flagged."""

    law: str
    step: float
    most: float | None = None
    least: float | None = None
    series: int = 3_000
    """So many are drawn: as many as it takes to tell the share from its target."""

    @property
    def text(self) -> str:
        noise_ = {"normal": "normal", "t3": "heavy-tailed (t3)"}.get(self.law, f"remembering ({self.law})")
        return f"{noise_}, {f'{self.step:g} σ step' if self.step else 'no change'}"

    @property
    def near(self) -> int:
        """As far from the true step a finding may lie: memory blurs places."""
        return 5 if self.law.startswith("AR") else 3

    @property
    def target(self) -> str:
        if self.most is not None:
            return f"≤ {self.most:.0%}"
        return "" if self.least is None else f"≥ {self.least:.0%}"

    def verdict(self, figure: Figure) -> str:
        if self.most is not None:
            return figure.below(self.most)
        if self.least is None:
            return ""
        turned = Figure(1 - figure.value, 1 - figure.high, 1 - figure.low, figure.rounds)
        return turned.below(1 - self.least)


LINES = (
    Line("normal", 0, most=0.01, series=15_000),
    Line("t3", 0, most=0.01, series=15_000),
    Line("AR 0.6", 0, most=0.01, series=60_000),
    Line("normal", 1, least=0.55),
    Line("normal", 2, least=0.98),
    Line("AR 0.6", 2, least=0.60, series=25_000),
    Line("t3", 1),
    Line("AR 0.3", 2),
)


def bench(*, quick: bool = False) -> Page:
    """Draw series, let everybody look at the same ones, and count."""
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        peers = _Peers(Path(folder))
        tables = [
            _calibration(peers, quick=quick),
            _memories(200 if quick else 3_000),
            _noises(60 if quick else 3_000),
            _errors(100 if quick else 2_000),
            _situations(60 if quick else 1_000),
            _louder(20 if quick else 500),
            _sizes(20 if quick else 300),
            _speed(peers, quick=quick),
        ]
    return Page("series", _TITLE, _ABOUT, tables)


class _Peers:
    """The peers that can be run, and why others cannot."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.names: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        try:
            self._python = venvs.change_points()
        except PeerError as problem:
            self.absent = dict.fromkeys(("Otava", "asv"), str(problem))
            return
        for script, package in (("series_otava", "apache-otava"), ("series_asv", "asv")):
            self.names[script] = venvs.versions(self._python, package)

    def look(self, script: str, rows: Values) -> dict[str, Any] | None:
        """What a peer finds in each row; None where it cannot be run."""
        if script not in self.names:
            return None
        path = self._folder / "rows.npy"
        np.save(path, rows)
        try:
            return contest(script, path, python=self._python, timeout_s=900)
        except PeerError as problem:
            self.absent[self.names.pop(script)] = str(problem)
            return None


def _calibration(peers: _Peers, *, quick: bool) -> Table:
    rows, beside = [], 50 if quick else 500
    for line in LINES:
        drawn = series(np.random.default_rng(SEED), line.law, line.step, 200 if quick else line.series)
        found = [detect(Series(row)).findings for row in drawn]
        flagged = share([bool(one) for one in found])
        covered = share([any(f.range[0] <= STEP_AT <= f.range[1] for f in one) for one in found])
        near = share([any(abs(f.index - STEP_AT) <= line.near for f in one) for one in found])
        cells = [_percent(flagged), line.target, line.verdict(flagged)]
        cells += [_percent(covered), _percent(near)] if line.step else ["", ""]
        rows.append([line.text, f"{len(drawn):,}", *cells, *_beside(peers, drawn[:beside], line)])
    otava, asv = (peers.names.get(script, name) for script, name in (("series_otava", "Otava"), ("series_asv", "asv")))
    columns = [
        f"{POINTS} points, 2 % noise",
        "series",
        "**assay**: flagged",
        "target",
        "",
        "its range holds the step",
        "at most 3 (5) points aside",
        f"{otava}: flagged",
        "aside ≤ 3 (5)",
        f"{asv}: flagged",
        "aside ≤ 3 (5)",
        "on its page of regressions",
    ]
    return Table("False alarms and steps caught", columns, rows, _notes(peers, beside))


def _beside(peers: _Peers, drawn: Values, line: Line) -> list[str]:
    cells = []
    for script, keys in (("series_otava", ("found",)), ("series_asv", ("found", "shown"))):
        answer = peers.look(script, drawn)
        if answer is None:
            cells += ["not measured"] * (len(keys) + 1)
            continue
        cells.append(_percent(share([bool(one) for one in answer["found"]]), 0))
        aside = [any(abs(place - STEP_AT) <= line.near for place in one) for one in answer["found"]]
        cells.append(_percent(share(aside), 0) if line.step else "")
        cells += [_percent(share([bool(one) for one in answer[key]]), 0) for key in keys[1:]]
    return cells


def _memories(count: int) -> Table:
    """False alarms between and beyond the laws that promises are made for, and in a series that grows."""
    rows = []
    for law in OTHERS:
        drawn = series(np.random.default_rng(SEED + 1), law, 0, count)
        rows.append([f"{POINTS} points, {law}", _percent(share([bool(detect(Series(row)).findings) for row in drawn]))])
    for points in (30, 60, 250):
        for law in ("normal", "t3", "AR 0.6"):
            drawn = LEVEL * (1 + NOISE * noise(np.random.default_rng(SEED + 2), law, count // 2, points))
            flagged = share([bool(detect(Series(row)).findings) for row in drawn])
            rows.append([f"{points} points, {law}", _percent(flagged)])
    for law in ("normal", "AR 0.6"):
        drawn = series(np.random.default_rng(SEED + 3), law, 0, count // 10)
        ever = share([_ever(row) for row in drawn])
        rows.append([f"from 20 to {POINTS} points, looked at after each, {law}: ever flagged", _percent(ever)])
    notes = [
        (
            "The limit depends on the memory that a series seems to have, so that every memory keeps about one per "
            "cent, not only the one of the target."
        ),
        (
            "Who looks a hundred times sees more: the last lines count series in which any of the looks found "
            "something, also if the next one took it back."
        ),
    ]
    return Table("False alarms elsewhere", ["no change", "flagged"], rows, notes)


def _noises(count: int) -> Table:
    """False alarms in noise that the scan is not made for, and what they were before it was checked."""
    rows = []
    for law, before in BEFORE.items():
        cells = []
        for points, was in zip(LENGTHS, before, strict=True):
            drawn = unchanged(law, count, points, SEED + 9)
            flagged = share([bool(detect(Series(row)).findings) for row in drawn])
            cells += [f"{was:.1f} %", _percent(flagged, 1), flagged.below(0.05 if "long" in law else 0.01)]
        rows.append([law, *cells])
    columns = ["no change", *(cell for points in LENGTHS for cell in (f"{points} points: before", "now", "target"))]
    notes = [
        f"{count:,} series a cell; before: 1,500 others a cell, commit 64e9f2a5. Target: 1 %, for long memory 5 %.",
        "Levels that stay for ten points are steps in a series of 30 points, and so is a part of a day.",
    ]
    return Table("Noise of real machines", columns, rows, notes)


def _ever(row: Values) -> bool:
    return any(detect(Series(row[: count + 1])).findings for count in range(21, row.size + 1))


def _errors(count: int) -> Table:
    """What standard errors of few runs do: all that differs between results is the error of their runs."""
    rows = []
    for runs in (2, 3, 5):
        drawn = np.random.default_rng(SEED + 6).standard_normal((count, POINTS, runs))
        values, errors = drawn.mean(axis=2), drawn.std(axis=2, ddof=1) / math.sqrt(runs)
        for step in (0, 1):
            values[:, STEP_AT:] += step / math.sqrt(runs)
            without = share([bool(detect(Series(row)).findings) for row in values])
            given = share([bool(detect(Series(a, None, b)).findings) for a, b in zip(values, errors, strict=True)])
            what = f"{step} σ step" if step else "no change"
            rows.append([f"{runs} runs, {what}", _percent(without), _percent(given)])
    return Table(
        "Standard errors of few runs",
        [f"{POINTS} points, normal", "flagged without them", "flagged with them"],
        rows,
        ["A result that has few runs tells its error badly; it is drawn near to what is usual before it counts."],
    )


def _sizes(count: int) -> Table:
    """How often the interval of a size holds it, where a series has many steps."""
    rows = []
    for law in ("normal", "AR 0.3", "AR 0.6"):
        held = [one for row in several(np.random.default_rng(SEED + 7), law, count) for one in sizes_held(row)]
        found = len(held) / count / len(SEVERAL)
        rows.append([law, f"{count * len(SEVERAL):,}", f"{found:.1%}", _percent(share(held), 1)])
    columns = ["365 points, seven steps of 2.5 to 5.5 σ", "steps", "found", "interval (95 %) holds the size, of those"]
    note = "A step that is not found spoils the sizes of its neighbours, which is why memory costs some."
    return Table("Sizes", columns, rows, [note])


def sizes_held(row: Values) -> list[bool]:
    """For each of the seven steps that was found: whether its interval holds its size."""
    findings = [one for one in detect(Series(row)).findings if one.kind == "step"]
    held = []
    for place, size in SEVERAL.items():
        near = [one for one in findings if one.range[0] - 2 <= place <= one.range[1] + 2]
        if near:
            ends = min(near, key=lambda one: abs(one.index - place)).difference_interval
            held.append(ends.low <= LEVEL * NOISE * size <= ends.high)
    return held


def _situations(count: int) -> Table:
    """What is said of series in which something else happens."""
    rows = [
        [name, truth, *_told(np.random.default_rng(SEED + 4), make, right, count)]
        for name, truth, make, right in SITUATIONS
    ]
    columns = ["situation (normal noise, σ = 2 %)", "the truth", "so reported", "nothing", "anything else"]
    return Table("What else happens in a series", columns, rows, [f"{count:,} series each; places within 3 points."])


def _louder(count: int) -> Table:
    """How often a level is found that is higher and also has more noise than what was before."""
    rows = []
    for first in QUIET_PARTS:
        cells = []
        for spread in (10, 15, 20):
            drawn = louder(np.random.default_rng(SEED + 8), first, spread, count)
            near = [
                any(one.kind == "step" and abs(one.index - QUIET) <= 1 for one in detect(Series(row)).findings)
                for row in drawn
            ]
            cells.append(_percent(share(near), 1))
        rows.append([first, *cells])
    columns = [f"the first {QUIET} points (100)", *(f"then {LOUD} points at 160 ± {spread}" for spread in (10, 15, 20))]
    note = f"{count:,} series each; found at most one point aside. Noise of 1 %, with a step or a drift 0.3 %."
    return Table("A level that is also louder", columns, rows, [note])


Right = Callable[[Sequence[Finding]], bool]


def _told(
    rng: np.random.Generator, make: Callable[[Values, np.random.Generator], None], right: Right, count: int
) -> list[str]:
    drawn = rng.standard_normal((count, POINTS))
    outcomes = []
    for row in drawn:
        make(row, rng)
        findings = detect(Series(LEVEL * (1 + NOISE * row))).findings
        outcomes.append("right" if right(findings) else "other" if findings else "nothing")
    return [f"{outcomes.count(word) / count:.1%}" for word in ("right", "nothing", "other")]


def _steps(*places: int) -> Right:
    def right(findings: Sequence[Finding]) -> bool:
        return len(findings) == len(places) and all(
            one.kind == "step" and abs(one.index - place) <= 3 for one, place in zip(findings, places, strict=True)
        )

    return right


def _down_and_up(row: Values, _: np.random.Generator) -> None:
    row[40:70] -= 3


def _high_span(row: Values, _: np.random.Generator) -> None:
    row[:83] = np.nan
    row[109:116] += 20


def _old_and_new(row: Values, _: np.random.Generator) -> None:
    row[30:] += 10
    row[STEP_AT:] += 2


def _outage(row: Values, _: np.random.Generator) -> None:
    row[50:70] = np.nan
    row[70:] += 3


def _drift(row: Values, _: np.random.Generator) -> None:
    row += np.clip((np.arange(POINTS) - 30) / 60, 0, 1) * 5


def _burst(row: Values, _: np.random.Generator) -> None:
    row[60:80] *= 4


def _outliers(row: Values, rng: np.random.Generator) -> None:
    row[rng.choice(POINTS, 4, replace=False)] += 15


def _nothing(findings: Sequence[Finding]) -> bool:
    return not findings


def _one_drift(findings: Sequence[Finding]) -> bool:
    return [one.kind for one in findings] == ["drift"]


SITUATIONS = (
    ("3 σ down at 40, back up at 70", "two steps", _down_and_up, _steps(40, 70)),
    ("37 points, 20 σ up at 26, back down at 33", "two steps", _high_span, _steps(109, 116)),
    ("10 σ up at 30, 2 σ up at 105", "two steps", _old_and_new, _steps(30, STEP_AT)),
    ("20 results missing, 3 σ higher after them", "one step", _outage, _steps(70)),
    ("5 σ up, slowly from 30 to 90", "one drift", _drift, _one_drift),
    ("20 points with 4 times the noise", "nothing", _burst, _nothing),
    ("4 single points 15 σ higher", "nothing", _outliers, _nothing),
)


def _speed(peers: _Peers, *, quick: bool) -> Table:
    rounds = 5 if quick else 41
    rng = np.random.default_rng(SEED + 5)
    long = LEVEL * (1 + NOISE * rng.standard_normal((rounds, 1000)))
    stepped = long.copy()
    stepped[:, 300:] += 4
    stepped[:, 600:] -= 4
    stepped[:, 900:] += 3
    rows = [
        _timed("1,000 points, no change", [_once(lambda row=row: detect(Series(row))) for row in long], 0.010),
        _timed("1,000 points, three steps", [_once(lambda row=row: detect(Series(row))) for row in stepped], 0.010),
        _timed("one point more after 1,000", _appended(long), None),
    ]
    for script, name in peers.names.copy().items():
        answer = peers.look(script, long[: 3 if quick else 9])
        if answer is not None:
            rows.append([f"{name}: 1,000 points, no change", median_of(answer["seconds"]).text(2, 1e3), "", ""])
    many = 500 if quick else 10_000
    drawn = np.concatenate([series(rng, "normal", 0, many * 9 // 10), series(rng, "normal", 2, many // 10)])
    begin = process_time()
    for row in drawn:
        detect(Series(row))
    spent = process_time() - begin
    whole = spent * 10_000 / many
    rows.append(
        [
            f"{many:,} series of {POINTS} points, a tenth with a step, s",
            f"{spent:.1f}",
            "< 60 s for 10,000",
            "pass" if whole < 60 else "**fail**",
        ]
    )
    note = "Wall time in milliseconds, median with its 95 % interval; last line: processor time of one core, in s."
    return Table("Speed", ["what", "ms", "target", ""], rows, [note])


def _once(call: Callable[[], object]) -> float:
    begin = perf_counter()
    call()
    return perf_counter() - begin


def _appended(rows: Values) -> list[float]:
    times = []
    for row in rows[:3]:
        begin = perf_counter()
        for place in range(936, 1000):
            detect(Series(row[: place + 1]))
        times.append((perf_counter() - begin) / 64)
    return times


def _timed(what: str, seconds: Sequence[float], target: float | None) -> list[str]:
    figure = median_of(seconds)
    return [
        what,
        figure.text(2, 1e3),
        f"≤ {1e3 * target:g} ms" if target else "",
        figure.below(target) if target else "",
    ]


def share(events: Sequence[bool]) -> Figure:
    """How often something happened, with its 95 % interval (Wilson)."""
    n, z = len(events), 1.96
    p = sum(events) / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Figure(p, max(0.0, (middle - half) / (1 + z * z / n)), min(1.0, (middle + half) / (1 + z * z / n)), n)


def _percent(figure: Figure, digits: int = 2) -> str:
    return f"{figure.text(digits, 100)} %"


def _notes(peers: _Peers, beside: int) -> list[str]:
    return [
        (
            f"The peers look at the first {beside:,} of our series; their intervals are wider for it. The step comes "
            f"{AFTER} points before the end; σ is the deviation of the noise."
        ),
        (
            "Flagged: anything found anywhere. Otava at its defaults (window 50, p 0.001). asv: all steps of its "
            "detector; its page of regressions shows those up by more than 5 %, which one and two σ of 2 % are not."
        ),
        *(f"{name} was not measured: {reason}" for name, reason in peers.absent.items()),
    ]


_TITLE = "Changes in a series of results"
_ABOUT = """Series with a known truth: how often is something found where nothing changed, and how often is a step
found? All look at the same series, at their default settings."""
