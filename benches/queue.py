"""Jobs per second through the queue over Redis, beside other queues on the same Redis in the same rounds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.redis_server import RedisServer, program

from benches import venvs
from benches.figures import median_of, ratio_of
from benches.page import Page, Table
from benches.processes import BUILD, PeerError, contest, run, there_and_back

TIMES = 2.0
TASKS, CELERY_TASKS = 5_000, 1_000
BATCH = 100
# The default of two tasks per thread leaves Dramatiq's threads waiting. Of 1, 2 and 8 threads with 100 and 1,000 ahead,
# 1,000 had the higher medians; the threads made no difference that could be told from noise.
THREADS, DEFAULT_AHEAD, AHEAD = 8, 16, 1_000

Answers = list[dict[str, float]]


@dataclass(frozen=True, slots=True)
class Contestant:
    """One queue, one worker process."""

    name: str
    play: Callable[[str], dict[str, Any]]
    promises: str
    judged: bool = False


def bench(*, quick: bool = False) -> Page:
    """Fill a queue and work it off, a fresh process each, in alternating order."""
    found = program()
    if found is None:
        table = Table("No-op tasks", ["queue", "figure"], [["all", "not measured: no redis-server; scripts/redis.sh"]])
        return Page("queue", _TITLE, _ABOUT, [table])
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        server = RedisServer(found, Path(folder))
        try:
            return Page("queue", _TITLE, _ABOUT, [_table(server, found, quick=quick)])
        finally:
            server.stop()


def _table(server: RedisServer, found: str, *, quick: bool) -> Table:
    tasks = 1_000 if quick else TASKS
    peers, absent = _peers(server, tasks, min(tasks, CELERY_TASKS))
    contestants = [*_ours(tasks), *peers]
    answers = _play(server, contestants, rounds=3 if quick else 7)
    dramatiq = next((_seconds(seen) for name, seen in answers.items() if name.startswith("dramatiq")), None)
    rows = [_row(one, answers[one.name], dramatiq) for one in contestants]
    rows += [[name, f"not measured: {reason}", "", "", "", "", ""] for name, reason in absent.items()]
    columns = [
        "queue",
        "promises",
        "enqueued/s",
        "worked off/s",
        "end to end/s",
        "× Dramatiq",
        f"≥ {TIMES:g}× Dramatiq",
    ]
    version = run([found, "--version"], timeout_s=10).split("sha=")[0].strip()
    return Table("No-op tasks, one worker", columns, rows, _notes(answers, tasks, version))


def _ours(tasks: int) -> list[Contestant]:
    promises = "acknowledged, fenced, priority, fair turns"
    return [
        Contestant(f"**assay**, {BATCH} at a time", _script("queue_assay", tasks, BATCH, BATCH), promises, judged=True),
        Contestant(
            f"**assay**, offered by {BATCH}, then one by one", _script("queue_assay", tasks, BATCH, 1), promises
        ),
        Contestant("**assay**, all one by one", _script("queue_assay", tasks, 1, 1), promises),
        Contestant(f"bare stream, {BATCH} at a time", _script("queue_stream", tasks, BATCH), "acknowledged"),
        Contestant("bare stream, one by one", _script("queue_stream", tasks, 1), "acknowledged"),
    ]


def _peers(server: RedisServer, tasks: int, celery_tasks: int) -> tuple[list[Contestant], dict[str, str]]:
    """Peers that can be measured, and the reasons of those that cannot."""
    try:
        python = venvs.queues()
    except PeerError as problem:
        return [], dict.fromkeys(("huey", "Dramatiq", "Celery"), str(problem))
    huey, dramatiq, celery = (venvs.versions(python, name) for name in ("huey", "dramatiq", "celery"))
    installed = [
        Contestant(huey, _script("queue_huey", tasks, python=python), "order of arrival; lost if the worker dies"),
        *(
            Contestant(
                f"{dramatiq}, {ahead:,} ahead",
                _script("queue_dramatiq", tasks, THREADS, ahead, python=python),
                "acknowledged, order of arrival",
            )
            for ahead in (AHEAD, DEFAULT_AHEAD)
        ),
        Contestant(
            celery, _script("queue_celery", celery_tasks, python=python), "acknowledged when begun, order of arrival"
        ),
    ]
    found, absent = [], {}
    for one in installed:
        try:
            one.play(server.fresh())
        except PeerError as problem:
            absent[one.name] = str(problem)
        else:
            found.append(one)
    return found, absent


def _script(script: str, tasks: int, *options: int, python: Path | None = None) -> Callable[[str], dict[str, Any]]:
    return partial(_contest, script, tasks, options, python)


def _contest(script: str, tasks: int, options: tuple[int, ...], python: Path | None, url: str) -> dict[str, Any]:
    return contest(script, url, tasks, *options, python=python)


def _play(server: RedisServer, contestants: list[Contestant], rounds: int) -> dict[str, Answers]:
    by_name = {one.name: one for one in contestants}
    answers: dict[str, Answers] = {name: [] for name in by_name}
    for name in there_and_back(list(by_name), rounds):
        answers[name].append(by_name[name].play(server.fresh()))
    return answers


def _row(one: Contestant, answers: Answers, dramatiq: list[float] | None) -> list[str]:
    seconds = _seconds(answers)
    enqueued, worked, both = (
        median_of([1 / value for value in column]).text(0)
        for column in (_seconds(answers, "enqueue_s"), _seconds(answers, "work_s"), seconds)
    )
    if dramatiq is None:
        return [one.name, one.promises, enqueued, worked, both, "", "cannot tell" if one.judged else ""]
    times = ratio_of(dramatiq, seconds).text(2)
    verdict = ratio_of(seconds, dramatiq).below(1 / TIMES) if one.judged else ""
    return [one.name, one.promises, enqueued, worked, both, times, verdict]


def _seconds(answers: Answers, *keys: str) -> list[float]:
    """Seconds per task in every round."""
    return [sum(answer[key] for key in keys or ("enqueue_s", "work_s")) / answer["tasks"] for answer in answers]


def _notes(answers: dict[str, Answers], tasks: int, version: str) -> list[str]:
    rounds = len(next(iter(answers.values())))
    return [
        (
            f"Median over {rounds} rounds with its 95 % interval (the range, where rounds are few); each round is a "
            "fresh process on an emptied Redis, and every second round is in reverse order. Ratios are taken round by "
            "round."
        ),
        (
            f"{tasks:,} tasks ({min(tasks, CELERY_TASKS):,} for Celery) are enqueued, then worked off, in one process "
            "each; for peers the clock of the second part runs from the first task to the last, so that the start of a "
            f"worker costs them nothing. End to end is both. {version}, nothing written to disk, on the same machine."
        ),
        (
            "Acknowledged: a task whose worker dies is given to another. Fenced: every delivery has a number, and an "
            "acknowledgement under an older one is refused."
        ),
        (
            f"Dramatiq: {THREADS} threads as by default; {DEFAULT_AHEAD} tasks read ahead are its default, {AHEAD:,} "
            "the better setting, which ratios are taken to. huey: one thread, no results. Celery: `solo` pool, no "
            "results, no limit of reading ahead; `threads` and `prefork` with one worker could not be told from it. "
            "Peers are given tasks one by one, as their documentation does; the judged line offers in batches too, so "
            "compare “worked off” where only the worker matters."
        ),
        (
            "One by one, every step is a round trip of its own, and that is the limit, not the queue; Dramatiq reads "
            "ahead, and its threads overlap what is left."
        ),
    ]


_TITLE = "Jobs through the queue"
_ABOUT = """How many tasks that do nothing go through a queue over Redis in a second, with one worker process: put in,
taken out and acknowledged."""
