"""Whether what a load generator reports is what the server did: token times, a schedule, and a stall."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import sleep

import numpy as np
from numpy.typing import NDArray
from tests.support.simulated import Simulated, llm_server

from assay.sim.record_reader import SimRecord
from benches import load_clients
from benches.figures import Figure, median_of
from benches.load_clients import Ask, Client, cores
from benches.load_play import answered, play
from benches.page import Page, Table
from benches.processes import PeerError

TTFT_MS, ITL_MS = 50, 10
P50_MS, P99_MS = 0.5, 4.0
RATE = 200.0
DELAY_P50_MS, DELAY_P99_BUSY_MS, DELAY_P99_IDLE_MS = 0.1, 4.0, 1.0
STALL_S, STALL_WITHIN = 2.0, 0.02
# A 99th percentile needs 662 samples before it is reported.
_ENOUGH = 700
_NEARLY_ALL = 0.999


@dataclass(frozen=True, slots=True)
class Length:
    """How much each scene asks for."""

    alone: int
    """Requests one after another, of few tokens: they take long."""
    together: int
    open: int
    stall: int
    rounds: int


_FULL = Length(alone=_ENOUGH, together=1_920, open=2_000, stall=2_400, rounds=3)
_QUICK = Length(alone=40, together=128, open=_ENOUGH, stall=_ENOUGH + 300, rounds=1)
_PEERS = Length(alone=100, together=1_280, open=2_000, stall=2_400, rounds=1)


def bench(*, quick: bool = False) -> Page:
    """Ours over rounds, peers once: theirs are shown, not judged."""
    peers, absent = load_clients.peers()
    peers = [one for one in peers if not (quick and one.slow)]
    length, of_peers = (_QUICK, _QUICK) if quick else (_FULL, _PEERS)
    settings = {"cpu": cores()[0], "ttft_ms": TTFT_MS, "itl_ms": ITL_MS, "tokens": 32}
    with llm_server(**settings) as sim:
        tables = [
            _tokens(sim, peers, absent, length, of_peers),
            _schedule(sim, peers, absent, length, of_peers),
            _stalled(sim, peers, absent, length, of_peers),
        ]
    return Page("load_truth", _TITLE, _ABOUT, tables)


# -- token times --------------------------------------------------------------------------------------------------


def _tokens(sim: Simulated, peers: list[Client], absent: dict[str, str], ours: Length, theirs: Length) -> Table:
    rows = []
    for users, tokens in ((1, 4), (64, 32)):
        asked = ours.alone if users == 1 else ours.together
        ask = Ask(sim.url, tokens, asked, users, warmup=2 * users)
        seen = [_against(sim, load_clients.ours(), ask) for _ in range(ours.rounds)]
        rows.append(_token_row("**assay run**", users, seen, judged=True))
        asked = theirs.alone if users == 1 else theirs.together
        for peer in peers:
            try:
                found = [_against(sim, peer, Ask(sim.url, tokens, asked, users))]
            except PeerError as problem:
                rows.append([peer.name, str(users), f"not measured: {problem}", "", "", "", "", ""])
            else:
                rows.append(_token_row(peer.name, users, found))
    rows += [[name, "", f"not measured: {reason}", "", "", "", "", ""] for name, reason in absent.items()]
    columns = [
        "client",
        "at a time",
        "TTFT p50",
        "TTFT p99",
        "ITL p50",
        "ITL p99",
        "gaps between tokens it took",
        f"p50 within {P50_MS:g} ms, p99 within {P99_MS:g} ms",
    ]
    notes = [
        (
            "Each cell is what was reported less what the server's own record says of the same run, in milliseconds. "
            "The record: from the arrival of a request to the first write with a token, and from each write to the "
            "next."
        ),
        (
            f"Ours: {ours.rounds} rounds, of {ours.alone} requests of 4 tokens one at a time and {ours.together:,} of "
            f"32 tokens 64 at a time, after two of each user that open connections and do not count; peers: one run "
            f"each of {theirs.alone} and {theirs.together:,}. An empty cell was not reported."
        ),
        "Peers that report one mean gap per request have as many samples as requests, and a stall hides in the mean.",
    ]
    return Table(f"First token after {TTFT_MS} ms, each further one after {ITL_MS} ms", columns, rows, notes)


def _against(sim: Simulated, client: Client, ask: Ask) -> dict[str, float]:
    """Reported percentiles less those of the server's record."""
    said = play(client, ask, sim).said
    record = _of_load(sim.records(), ask.requests)
    gaps = _gaps(record)
    truth = {"ttft": record.ttft_s * 1e3, "itl": gaps / 1e6}
    errors = {
        f"{name}_{at}": said[f"{name}_{at}"] - float(np.percentile(values, float(at[1:])))
        for name, values in truth.items()
        for at in ("p50", "p99")
        if f"{name}_{at}" in said
    }
    return {**errors, "took": said.get("itl_count", 0), "gaps": float(len(gaps))}


def _of_load(record: SimRecord, requests: int) -> SimRecord:
    """The record without what a client asked before its load: the last requests are those of the load."""
    first = len(record) - requests
    kept = record.number >= first
    if kept.all():
        return record
    lengths = np.diff(record.chunks)
    of_kept = np.repeat(kept, lengths)
    rows = {
        name: getattr(record, name)[kept]
        for name in (
            "number",
            "arrival_ns",
            "start_ns",
            "first_ns",
            "last_ns",
            "end_ns",
            "status",
            "tokens",
            "prompt_tokens",
            "outcome",
            "connection",
        )
    }
    chunks = {name: getattr(record, name)[of_kept] for name in ("chunk_ns", "chunk_due_ns", "chunk_tokens")}
    return replace(record, **rows, **chunks, chunks=np.concatenate([[0], np.cumsum(lengths[kept])]))


def _gaps(record: SimRecord) -> NDArray[np.int64]:
    """From each token to the next of the same answer."""
    gaps = np.diff(record.chunk_ns)
    inside = np.ones(len(gaps), dtype=bool)
    inside[record.chunks[1:-1] - 1] = False
    found: NDArray[np.int64] = gaps[inside]
    return found


def _token_row(name: str, users: int, seen: Sequence[dict[str, float]], *, judged: bool = False) -> list[str]:
    cells, verdicts = [], []
    for key, limit in (("ttft_p50", P50_MS), ("ttft_p99", P99_MS), ("itl_p50", P50_MS), ("itl_p99", P99_MS)):
        errors = [one[key] for one in seen if key in one]
        cells.append(median_of(errors).text(3) if errors else "")
        # One round shows no spread, and an error that is not reported cannot be judged.
        verdicts.append(median_of(np.abs(errors)).below(limit) if errors else "cannot tell")
    took = f"{seen[0]['took']:,.0f} of {seen[0]['gaps']:,.0f}" if seen[0]["took"] else ""
    # A token that arrived together with the first one has no gap of its own.
    if judged and any(one["took"] < _NEARLY_ALL * one["gaps"] for one in seen):
        verdicts.append("**fail**")
    return [name, str(users), *cells, took, _worst(verdicts) if judged else ""]


def _worst(verdicts: Sequence[str]) -> str:
    return next((one for one in ("**fail**", "cannot tell") if one in verdicts), "pass")


# -- a schedule ---------------------------------------------------------------------------------------------------


def _schedule(sim: Simulated, peers: list[Client], absent: dict[str, str], ours: Length, theirs: Length) -> Table:
    rows = []
    for busy in (False, True):
        with _neighbours(busy=busy):
            seen = [_at_rate(sim, load_clients.ours(), ours.open) for _ in range(ours.rounds)]
        rows.append(
            _schedule_row("**assay run**, " + ("both cores busy" if busy else "its core idle"), seen, busy=busy)
        )
    for peer in peers:
        try:
            rows.append(_schedule_row(peer.name, [_at_rate(sim, peer, theirs.open)]))
        except PeerError as problem:
            rows.append([peer.name, f"not measured: {problem}", "", "", "", "", ""])
    rows += [[name, f"not measured: {reason}", "", "", "", "", ""] for name, reason in absent.items()]
    columns = [
        "client",
        "reported delay p50, ms",
        "p99, ms",
        "late at the server p50, ms",
        "p99, ms",
        "reached, 1/s",
        "delay p50 and p99 below the target",
    ]
    notes = [
        (
            f"{RATE:g} requests a second, evenly spaced, 32 tokens each. Late at the server: arrival less the time "
            "that the schedule says, where the schedule begins so that no arrival is early. It holds the network and "
            "the server's own wait for its core too; of a client faster than asked, the beginning counts as late."
        ),
        (
            f"Targets for ours: reported delay p50 < {DELAY_P50_MS:g} ms; p99 < {DELAY_P99_IDLE_MS:g} ms where the "
            f"core is its own, < {DELAY_P99_BUSY_MS:g} ms where a program that never waits runs on every core too."
        ),
        f"Ours: {ours.rounds} rounds of {ours.open:,} requests; peers: one run of {theirs.open:,} on idle cores.",
    ]
    return Table(f"Open loop at {RATE:g} requests a second", columns, rows, notes)


def _at_rate(sim: Simulated, client: Client, requests: int) -> dict[str, float]:
    said = play(client, Ask(sim.url, 32, requests, rate=RATE), sim).said
    arrivals = np.sort(_of_load(sim.records(), requests).arrival_ns)
    late_ms = _late_ns(arrivals) / 1e6
    reached = (len(arrivals) - 1) / ((arrivals[-1] - arrivals[0]) / 1e9)
    p50, p99 = np.percentile(late_ms, (50, 99))
    delays = {name: said[name] for name in ("delay_p50", "delay_p99") if name in said}
    return {**delays, "late_p50": p50, "late_p99": p99, "reached": reached}


def _late_ns(arrivals: NDArray[np.int64]) -> NDArray[np.int64]:
    """How much later than an even schedule requests came, where the schedule begins as early as they allow."""
    due = (np.arange(len(arrivals)) * (1e9 / RATE)).astype(np.int64)
    late = arrivals - due
    found: NDArray[np.int64] = late - late.min()
    return found


def _schedule_row(name: str, seen: Sequence[dict[str, float]], *, busy: bool | None = None) -> list[str]:
    figures: dict[str, Figure] = {
        key: median_of([one[key] for one in seen])
        for key in ("delay_p50", "delay_p99", "late_p50", "late_p99", "reached")
        if all(key in one for one in seen)
    }
    cells = [
        figures[key].text(3 if key != "reached" else 1) if key in figures else ""
        for key in (
            "delay_p50",
            "delay_p99",
            "late_p50",
            "late_p99",
            "reached",
        )
    ]
    verdict = ""
    if busy is not None:
        limit = DELAY_P99_BUSY_MS if busy else DELAY_P99_IDLE_MS
        judged = {"delay_p50": DELAY_P50_MS, "delay_p99": limit}
        verdict = _worst(
            [figures[key].below(most) if key in figures else "cannot tell" for key, most in judged.items()]
        )
    return [name, *cells, verdict]


@contextmanager
def _neighbours(*, busy: bool) -> Iterator[None]:
    """A program on every core that never waits, or none."""
    spin = "while True: pass"
    programs = [
        subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{core}}})\n{spin}"])
        for core in sorted(os.sched_getaffinity(0))
        if busy
    ]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


# -- a stall ------------------------------------------------------------------------------------------------------


def _stalled(sim: Simulated, peers: list[Client], absent: dict[str, str], ours: Length, theirs: Length) -> Table:
    seen = [_with_stall(sim, load_clients.ours(), ours.stall) for _ in range(ours.rounds)]
    rows = [_stall_row("**assay run**", seen, judged=True)]
    for peer in peers:
        try:
            rows.append(_stall_row(peer.name, [_with_stall(sim, peer, theirs.stall)]))
        except PeerError as problem:
            rows.append([peer.name, f"not measured: {problem}", "", "", "", ""])
    rows += [[name, f"not measured: {reason}", "", "", "", ""] for name, reason in absent.items()]
    columns = [
        "client",
        "reported p99 of the whole answer, s",
        "the truth, s",
        "reported ÷ truth",
        "hidden, s",
        f"within {100 * STALL_WITHIN:g} %",
    ]
    notes = [
        (
            f"{RATE:g} requests a second, evenly spaced, 32 tokens each, {ours.stall / RATE:g} s; in the middle the "
            f"whole server stops for {STALL_S:g} s. The truth is the server's end of each answer less the time that "
            "the request was due by the schedule that was asked for, in the same run: a client that cannot keep the "
            "schedule makes its users wait, and should say so."
        ),
        "guidellm reports a second time, from when it had scheduled a request itself; it is shown after the slash.",
    ]
    return Table(f"A stall of {STALL_S:g} s in an open loop", columns, rows, notes)


def _with_stall(sim: Simulated, client: Client, requests: int) -> dict[str, float]:
    begun = answered(sim)
    watcher = threading.Thread(target=_stall_at, args=(sim, begun + requests // 2), daemon=True)
    watcher.start()
    said = play(client, Ask(sim.url, 32, requests, rate=RATE), sim).said
    watcher.join(10)
    record = _of_load(sim.records(), requests)
    order = np.argsort(record.number)
    arrivals, ends = record.arrival_ns[order], record.end_ns[order]
    due = arrivals - _late_ns(arrivals)
    own = {name: said[name] / 1e3 for name in ("e2e_p99", "due_p99") if name in said}
    return {**own, "truth": float(np.percentile((ends - due) / 1e9, 99))}


def _stall_at(sim: Simulated, count: int) -> None:
    """Stop the server once it has given so many answers."""
    while answered(sim) < count:
        sleep(0.05)
    sim.stall(STALL_S)


def _stall_row(name: str, seen: Sequence[dict[str, float]], *, judged: bool = False) -> list[str]:
    truth = median_of([one["truth"] for one in seen])
    if not all("e2e_p99" in one for one in seen):
        return [name, "not reported", truth.text(3), "", "", "cannot tell" if judged else ""]
    reported = median_of([one["e2e_p99"] for one in seen])
    ratio = median_of([one["e2e_p99"] / one["truth"] for one in seen])
    second = f" / {seen[0]['due_p99']:.3f}" if "due_p99" in seen[0] else ""
    hidden = max(0.0, truth.value - reported.value)
    verdict = ratio.within(STALL_WITHIN) if judged else ""
    return [name, reported.text(3) + second, truth.text(3), ratio.text(3), f"{hidden:.2f}", verdict]


_TITLE = "Truth of the load generator"
_ABOUT = """What a load generator reports of streamed answers, against the record of the server that wrote them. The
server and the client share a clock, and each has a core."""
