"""What the harness costs: a no-op in place of the model, beside peers in the same rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benches import venvs
from benches.figures import Figure, median_of, ratio_of
from benches.page import Page, Table
from benches.processes import PeerError, contest, there_and_back

ADDED_US, WALL_US = 0.5, 1.0
CALLS = 1_000_000

Answers = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Contestant:
    """One harness around a no-op."""

    name: str
    play: Callable[[], dict[str, Any]]
    ours: bool = False


def bench(*, quick: bool = False) -> Page:
    """Measure all harnesses, a fresh process each, in alternating order."""
    peers, absent = _peers()
    contestants = [*_ours(), *peers]
    answers = _play(contestants, rounds=3 if quick else 11)
    rows = [_row(one, answers[one.name], answers["bare loop"]) for one in contestants]
    rows += [[name, "not measured", "", "", "", reason] for name, reason in absent.items()]
    columns = ["harness", "added to the reported latency, µs", "wall per call, µs", "wall, × bare", *_targets()]
    table = Table("A no-op in place of the model", columns, rows, _notes(answers))
    return Page("overhead", "Overhead of the harness", _ABOUT, [table])


def _ours() -> list[Contestant]:
    return [
        Contestant("bare loop", partial(contest, "noop_bare", CALLS)),
        Contestant("**assay**, its loop", partial(contest, "noop_assay_loop", CALLS), ours=True),
        Contestant("**assay**, all of `drive`", partial(contest, "noop_assay_drive", CALLS), ours=True),
    ]


def _peers() -> tuple[list[Contestant], dict[str, str]]:
    """Peers that can be measured, and the reasons of those that cannot."""
    try:
        python = venvs.peers()
    except PeerError as problem:
        return [], {"pytest-benchmark": str(problem), "MLCommons LoadGen": str(problem)}
    found, absent = [], {}
    for one in _installed(python):
        try:
            one.play()
        except PeerError as problem:
            absent[one.name] = str(problem)
        else:
            found.append(one)
    return found, absent


def _installed(python: Path) -> list[Contestant]:
    pytest, loadgen = (venvs.versions(python, name) for name in ("pytest-benchmark", "mlcommons-loadgen"))
    return [
        Contestant(
            f"{pytest}, a sample per call", partial(contest, "noop_pytest_benchmark", "one", 100_000, python=python)
        ),
        Contestant(f"{pytest}, default", partial(contest, "noop_pytest_benchmark", "default", 0, python=python)),
        Contestant(f"{loadgen}, SUT", partial(contest, "loadgen", "sut", 200_000, python=python)),
        Contestant(f"{loadgen}, FastSUT", partial(contest, "loadgen", "fast", 200_000, python=python)),
    ]


def _play(contestants: list[Contestant], rounds: int) -> dict[str, Answers]:
    by_name = {one.name: one for one in contestants}
    answers: dict[str, Answers] = {name: [] for name in by_name}
    for name in there_and_back(list(by_name), rounds):
        answers[name].append(by_name[name].play())
    return answers


def _row(one: Contestant, answers: Answers, bare: Answers) -> list[str]:
    added, wall = _figure_us(answers, "reported_ns"), _figure_us(answers, "wall_ns")
    factor = ratio_of(_column(answers, "wall_ns"), _column(bare, "wall_ns"))
    verdicts = [added.below(ADDED_US), wall.below(WALL_US)] if one.ours else ["", ""]
    return [one.name, added.text(3), wall.text(3), factor.text(2), *verdicts]


def _targets() -> list[str]:
    return [f"added < {ADDED_US:g} µs", f"wall < {WALL_US:g} µs"]


def _notes(answers: dict[str, Answers]) -> list[str]:
    drive = answers["**assay**, all of `drive`"]
    rounds = len(drive)
    notes = [
        (
            f"Median over {rounds} rounds with its 95 % interval; each round is a fresh process, and every second "
            "round is in reverse order. The ratio is taken round by round."
        ),
        "“Added” is the median latency that a harness reports for a call that does nothing, that call included.",
        (
            f"All of `drive` with its load, warm-up and statistics, over its {CALLS:,} measured samples: "
            f"{_figure_us(drive, 'whole_ns').text(3)} µs of wall time each. The cost that assay states on every "
            f"result: {_figure_us(drive, 'stated_ns').text(3)} µs."
        ),
    ]
    default = next((seen for name, seen in answers.items() if name.endswith(", default")), None)
    if default:
        notes.append(
            f"pytest-benchmark by default makes each sample of many calls (here {default[-1]['iterations']}): its "
            "cost is spread over them, and the latency of a single call is not seen."
        )
    loadgen = next((seen for name, seen in answers.items() if name.endswith(", SUT")), None)
    if loadgen:
        notes.append(
            "LoadGen's wall per call is its own “QPS w/ loadgen overhead”; with its start and end it is "
            f"{_figure_us(loadgen, 'whole_ns').text(2)} µs (SUT)."
        )
    return notes


def _figure_us(answers: Answers, key: str) -> Figure:
    return median_of([value / 1e3 for value in _column(answers, key)])


def _column(answers: Answers, key: str) -> list[float]:
    return [float(answer[key]) for answer in answers]


_ABOUT = """What a harness adds when the model takes no time: to the latency that it reports, and to the wall time of
each call. Every harness calls the same no-op, single stream, on the same Python."""
