"""Streamed answers per second of the client's processor time, beside other load generators in the same rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from tests.support.simulated import Simulated, llm_server

from benches import load_clients
from benches.figures import median_of, ratio_of
from benches.load_clients import Ask, Client, cores
from benches.load_play import Turn, play, usable
from benches.page import Page, Table
from benches.processes import PeerError, there_and_back

USERS = 64
FEW, MANY = 32, 512
# Between two tokens of an answer, where they come apart.
PACE_MS = 3
# How many times as fast as each we want to be. wrk times nothing inside an answer.
TARGETS = {"wrk": 0.5, "locust": 2.5, "inference-perf": 15.0, "aiperf": 30.0, "guidellm": 30.0}
# Requests of one turn, by the beginning of the name: enough that several seconds of processor time go into them.
_COUNTS = {"**assay": 40_000, "assay": 20_000, "locust": 8_000, "inference-perf": 2_500, "aiperf": 1_200,
           "guidellm": 1_000}  # fmt: skip
# Where tokens come apart, a turn lasts as long as they take.
_PACED_SHARE = 0.25
_QUICK = {"**assay": 3_000, "assay": 3_000, "locust": 1_000, "inference-perf": 500, "aiperf": 128, "guidellm": 128}
_STARTS = 2
# The client ends them; it needs longer than the answers take.
_LIMIT_S = 400.0

Rates = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Start:
    """A run of hardly any requests, which is taken off the others: what is left is the price of a request."""

    cpu_s: float = 0.0
    answers: float = 0.0

    def rate(self, turn: Turn) -> float:
        """Answers per second of processor time, without those of the start."""
        return (turn.answered - self.answers) / max(1e-6, turn.used.cpu_s - self.cpu_s)

    def bare(self, rate: float) -> Start:
        """The start without its few answers, at what an answer turned out to cost."""
        return Start(max(0.0, self.cpu_s - self.answers / rate), 0.0)


def bench(*, quick: bool = False) -> Page:
    """Play both lengths of answers with all clients in turn, then short ones whose tokens come one by one."""
    clients, absent = _clients(quick=quick)
    with llm_server(cpu=cores()[0], tokens=MANY, no_record=True) as sim:
        trials: dict[str, list[Turn]] = {}

        def trial(client: Client) -> None:
            trials[client.name] = [play(client, _ask(client, sim, FEW, quick=True), sim, limit_s=_LIMIT_S)]

        found, broken = usable(clients, trial)
        absent |= broken
        starts = {} if quick else _starts(found, sim)
        few = trials if quick else _turns(found, sim, absent, FEW, rounds=3)
        rates = _rates(few, starts)
        bare = {name: starts[name].bare(float(np.median(rates[name]))) for name in starts if name in rates}
        for_many = [one for one in found if one.name in few and not (quick and one.slow)]
        many = _turns(for_many, sim, absent, MANY, rounds=1 if quick else 2, quick=quick)
    tables = [
        _table(found, few, rates, bare, absent, FEW, quick=quick),
        _table(for_many, many, _rates(many, bare), bare, absent, MANY, quick=quick),
    ]
    if not quick:
        quickly = [one for one in for_many if not one.slow]
        bounded = [one for one in quickly if _is_ours(one) or one.name.startswith("wrk")]
        tables += [
            _one_by_one(quickly, bare, FEW, _EACH, flush="each"),
            _one_by_one(bounded, bare, MANY, _EACH, flush="each"),
            _one_by_one(quickly, bare, FEW, _APART, _PACED_SHARE, ttft_ms=PACE_MS, itl_ms=PACE_MS),
        ]
    return Page("load_speed", _TITLE, _ABOUT, tables)


def _one_by_one(
    clients: list[Client],
    starts: dict[str, Start],
    tokens: int,
    how: tuple[str, str],
    share: float = 1.0,
    **server: object,
) -> Table:
    """Answers of a server that writes tokens one by one, for those that begin at once."""
    absent: dict[str, str] = {}
    with llm_server(cpu=cores()[0], tokens=MANY, no_record=True, **server) as sim:
        turns = _turns(clients, sim, absent, tokens, rounds=2, share=share)
    table = _table(clients, turns, _rates(turns, starts), starts, absent, tokens, quick=False)
    title, note = how
    return Table(f"{table.title}, {title}", table.columns, table.rows, [note, _short_note(2)])


def _clients(*, quick: bool) -> tuple[list[Client], dict[str, str]]:
    found, absent = load_clients.peers()
    try:
        found.insert(0, load_clients.wrk(2 if quick else 5))
    except PeerError as problem:
        absent["wrk"] = str(problem)
    return [load_clients.ours(), load_clients.loop(), *found], absent


def _ask(client: Client, sim: Simulated, tokens: int, *, quick: bool, share: float = 1.0) -> Ask:
    counts = _QUICK if quick else _COUNTS
    requests = next((count for name, count in counts.items() if client.name.startswith(name)), 1_000)
    requests = round(requests * share)
    # Long answers are fewer, so that a turn takes about as long; never fewer than two for each user.
    scaled = requests if tokens == FEW else max(2 * USERS, requests * FEW // tokens)
    return Ask(sim.url, tokens, scaled, USERS)


def _is_ours(client: Client) -> bool:
    return "assay" in client.name


def _starts(clients: list[Client], sim: Simulated) -> dict[str, Start]:
    """What each uses before and after its requests; wrk is there at once."""
    peers = [one for one in clients if not one.name.startswith("wrk")]
    turns = {
        one.name: [play(one, Ask(sim.url, FEW, USERS, USERS), sim, limit_s=_LIMIT_S) for _ in range(_STARTS)]
        for one in peers
    }
    return {
        name: Start(float(np.median([turn.used.cpu_s for turn in seen])), float(np.median([t.answered for t in seen])))
        for name, seen in turns.items()
    }


def _turns(
    clients: list[Client],
    sim: Simulated,
    absent: dict[str, str],
    tokens: int,
    *,
    rounds: int,
    quick: bool = False,
    share: float = 1.0,
) -> dict[str, list[Turn]]:
    """All rounds; a peer that fails twice in a row is left out, and the others go on."""
    by_name = {one.name: one for one in clients}
    turns: dict[str, list[Turn]] = {name: [] for name in by_name}
    for name in there_and_back(list(by_name), rounds):
        if name in absent:
            continue
        ask = _ask(by_name[name], sim, tokens, quick=quick, share=share)
        once = partial(play, by_name[name], ask, sim, limit_s=_LIMIT_S)
        try:
            turns[name].append(_again(once))
        except PeerError as problem:
            if _is_ours(by_name[name]):
                raise
            absent[name] = str(problem)
    return {name: seen for name, seen in turns.items() if name not in absent}


def _again(once: Callable[[], Turn]) -> Turn:
    try:
        return once()
    except PeerError:
        return once()


def _rates(turns: dict[str, list[Turn]], starts: dict[str, Start]) -> Rates:
    return {name: [starts.get(name, Start()).rate(turn) for turn in seen] for name, seen in turns.items()}


def _table(
    clients: list[Client],
    turns: dict[str, list[Turn]],
    rates: Rates,
    starts: dict[str, Start],
    absent: dict[str, str],
    tokens: int,
    *,
    quick: bool,
) -> Table:
    row = partial(_row, turns=turns, rates=rates, starts=starts, tokens=tokens, quick=quick)
    rows = [row(one) for one in clients if one.name in turns]
    rows += [[name, f"not measured: {reason}", "", "", "", "", "", ""] for name, reason in absent.items()]
    what = "requests" if tokens == FEW else "token events"
    columns = [
        "client",
        "requests in a turn",
        "processor time, s",
        "of it the start, s",
        f"{what} per CPU s, all in",
        f"{what} per CPU s, start taken off",
        "assay run ÷ this, start taken off both",
        "target",
    ]
    rounds = len(next(iter(turns.values())))
    notes = _notes(clients, rounds, starts) if tokens == FEW else [_short_note(rounds)]
    return Table(f"Answers of {tokens} tokens, {USERS} at a time", columns, rows, notes)


def _row(
    client: Client, *, turns: dict[str, list[Turn]], rates: Rates, starts: dict[str, Start], tokens: int, quick: bool
) -> list[str]:
    seen, start = turns[client.name], starts.get(client.name)
    each = 1 if tokens == FEW else tokens
    cells = [
        client.name,
        f"{np.median([turn.answered for turn in seen]):,.0f}",
        median_of([turn.used.cpu_s for turn in seen]).text(2),
        "" if start is None else f"{start.cpu_s:.2f}",
        median_of([each * turn.per_cpu_s for turn in seen]).text(0),
        median_of(np.asarray(rates[client.name]) * each).text(0),
    ]
    our_rates = next((rates[name] for name in rates if name.startswith("**assay")), None)
    if our_rates is None or _is_ours(client):
        return [*cells, "", ""]
    times = ratio_of(our_rates, rates[client.name])
    return [*cells, times.text(2), _verdict(client, our_rates, rates[client.name], tokens, quick=quick)]


def _verdict(client: Client, ours: list[float], theirs: list[float], tokens: int, *, quick: bool) -> str:
    """Long answers have a target beside wrk alone, and runs of few requests are mostly start."""
    wanted = next((times for name, times in TARGETS.items() if client.name.startswith(name)), None)
    if wanted is None or (tokens == MANY and not client.name.startswith("wrk")):
        return ""
    return f"≥ {wanted:g}: {'too short to judge' if quick else ratio_of(theirs, ours).below(1 / wanted)}"


def _notes(clients: list[Client], rounds: int, starts: dict[str, Start]) -> list[str]:
    server, client = cores()
    took = (
        f"The start is what is left at no requests: the median of {_STARTS} runs of {USERS} requests, less what those "
        "requests cost. It is taken off all but wrk, which has next to none, and the ratios are of what remains."
        if starts
        else "Nothing is taken off for the start in a quick run, and few requests are mostly start."
    )
    return [
        (
            "Processor time is user and system time of the client's whole process tree, processes that have ended "
            f"included. The server (`python -m assay.sim llm`) runs on core {server}, the clients on core {client}; "
            "it writes what is due at once in one piece, as fast as it can, so that the client is what is measured."
        ),
        f"{_short_note(rounds)} {took}",
        *(f"{one.name}: {one.how}." for one in clients),
        "All but wrk take the time of every token: it is a bound, not a peer.",
    ]


def _short_note(rounds: int) -> str:
    return (
        f"Median over {rounds} rounds with its 95 % interval (the range, where rounds are few); every second round in "
        "turned order, ratios taken round by round."
    )


_TITLE = "Speed of the load generator"
_ABOUT = """How many streamed chat answers a load generator drives with a second of processor time: that is what it can
do on one core, whatever the neighbours do meanwhile."""
_EACH = (
    "each token in a write of its own",
    (
        "The server writes each token by itself and waits for nothing. Reading costs the kernel more than the client "
        "here, and a client that is slower than the server finds many tokens in one read: a fast one is not spared "
        "that work."
    ),
)
_APART = (
    f"tokens {PACE_MS} ms apart",
    "Nearly every token wakes the client by itself, and waking up costs all of them more than what they then do.",
)
