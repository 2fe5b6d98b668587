"""How fast results come in, and how fast lists of them come out; metric ingest beside MLflow's."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
from sqlalchemy import func, select
from tests.support.running_server import ServerProcess

from assay.documents import to_plain
from assay.place.fleet.protocol import Enrolment
from assay.run.records import SampleSet
from assay.store.listing import JobFilter, Listing, to_cursor
from assay.store.store import Store
from assay.store.tables import CampaignRow, JobRow, RunRow
from benches import venvs
from benches.figures import median_of, ratio_of
from benches.filling import RARE, fill
from benches.fleet import benchmark, first_job, small_result
from benches.page import Page, Table
from benches.processes import PeerError, contest, there_and_back
from benches.servers import ADMIN, PROFILE, agent_token, assay_server, opened, postgresql, workspace

INGEST_S, LIST_MS, TIMES = 10.0, 100, 10.0
CONNECTIONS = 4
WAITING = "0" * 64  # in the place of the hash of a sample file
ASKED = 20
MLFLOW_BATCH = 1_000  # the most that log_batch takes


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    results: int = 100
    samples: int = 10_000
    campaigns: int = 10_000
    jobs_each: int = 10
    values: int = 20_000
    rounds: int = 7


QUICK = Size(results=20, campaigns=1_000, values=4_000, rounds=3)


@dataclass(frozen=True, slots=True)
class Place:
    """A server, and the database behind it."""

    name: str
    server: ServerProcess
    folder: Path
    database: str


def bench(*, quick: bool = False) -> Page:
    """Send results to a server on SQLite and on PostgreSQL, then read lists from both."""
    size = QUICK if quick else Size()
    ingested, listed, notes, metric = [], [], [], None
    for name in ("SQLite", "PostgreSQL"):
        with _place(name) as place:
            if place is None:
                notes.append("PostgreSQL: not measured, it is not installed; scripts/postgresql.sh")
                continue
            ingested += _ingest_rows(place, size)
            metric = _metric_table(place, size) if name == "SQLite" else metric
        with _place(name, size) as place:
            listed += _list_rows(place, size) if place is not None else []
    assert metric is not None
    return Page("ingest", _TITLE, _ABOUT, [_ingest_table(ingested, size, notes), _list_table(listed, size), metric])


@contextmanager
def _place(name: str, filled: Size | None = None) -> Iterator[Place | None]:
    with workspace() as folder, postgresql() as server:
        database = "" if name == "SQLite" else server() if server else None
        if database is None:
            yield None
            return
        with assay_server(folder, database=database) as process:
            if filled is not None:
                with opened(folder, database) as store:
                    fill(store, filled.campaigns, filled.jobs_each)
            yield Place(name, process, folder, database)


# A million samples


def _ingest_rows(place: Place, size: Size) -> list[list[str]]:
    answers = [send(place, size.results, size.samples, seed, CONNECTIONS) for seed in range(size.rounds)]
    with opened(place.folder, place.database) as store:
        _check(store, size)
    sent = median_of([one["send_s"] for one in answers])
    encoded = median_of([one["encode_s"] for one in answers])
    share = 1_000_000 / (size.results * size.samples)
    verdict = sent.below(INGEST_S / share)
    return [
        [
            place.name,
            sent.text(2),
            f"{size.results * size.samples / sent.value:,.0f}",
            encoded.text(2),
            f"{answers[0]['bytes'] / 1e6:.1f}",
            verdict,
        ]
    ]


def send(place: Place, results: int, samples: int, seed: int, connections: int) -> dict[str, Any]:
    """Submit jobs, and let a fresh process deliver their results."""
    document = benchmark(f"ingest-{seed}", results)
    headers = {"Authorization": f"Bearer {ADMIN}"}
    url = f"{place.server.url}/api/v1/campaigns"
    httpx.post(url, json={"document": document}, headers=headers, trust_env=False, timeout=60).raise_for_status()
    few = np.arange(50)
    sets = (SampleSet("latency_ms", "measure", few * 10_000_000, 10.0 + 0.01 * few),)
    settings = {
        "url": place.server.url,
        "token": agent_token(place.server.url),
        "results": results,
        "samples": samples,
        "connections": connections,
        "waiting": WAITING,
        "result": small_result(first_job(document), sets, WAITING),
        "enrolment": to_plain(Enrolment("sender", "sender", PROFILE)),
    }
    path = place.folder / "settings.json"
    path.write_text(json.dumps(settings))
    return contest("ingest_http", path, seed)


def _check(store: Store, size: Size) -> None:
    """Read everything back: what is counted must be there."""
    kept = _kept(store)
    with store.engine.connect() as connection:
        done = connection.scalar(select(func.count()).select_from(JobRow).where(JobRow.state == "done"))
    wanted = size.rounds * size.results
    if (done, kept) != (wanted, wanted * size.samples):
        raise PeerError(f"{done} jobs are done and {kept} samples kept, of {wanted} and {wanted * size.samples}")


def _kept(store: Store) -> int:
    """How many samples can be read back."""
    with store.engine.connect() as connection:
        runs = connection.execute(select(RunRow.job_id, RunRow.run_id)).all()
    return sum(len(one.value) for job, run in runs for one in store.samples_of(job, run))


def _ingest_table(rows: list[list[str]], size: Size, more: list[str]) -> Table:
    whole = size.results * size.samples
    columns = ["database", "sent and kept in, s", "samples/s", "encoded before, s", "MB", f"1,000,000 < {INGEST_S:g} s"]
    notes = [
        (
            f"{size.results} results of {size.samples:,} samples each, over {CONNECTIONS} connections of one process: "
            "every sample file is uploaded, then the result that names it is delivered. Median of "
            f"{size.rounds} rounds with its 95 % interval (the range, where rounds are few). Encoding is the agents' "
            "work, and is not counted."
        ),
        "After the last round everything was read back, and all samples were there.",
        *more,
    ]
    return Table(f"{whole:,} samples through HTTP", columns, rows, notes)


# Lists


def _list_rows(place: Place, size: Size) -> list[list[str]]:
    middle = size.campaigns // 2
    headers = {"Authorization": f"Bearer {ADMIN}"}
    rows = []
    with (
        opened(place.folder, place.database) as store,
        httpx.Client(base_url=f"{place.server.url}/api/v1", headers=headers, trust_env=False, timeout=60) as client,
    ):
        gc.collect()
        gc.freeze()  # as the server does when it starts
        listing = Listing(store.engine)
        cursors = _cursors(store, middle, size.jobs_each)
        for noun, what, asked in _questions(cursors):
            for limit in (50, 500):
                direct = _ask_store(listing, noun, asked, limit)
                web = _ask_http(client, noun, asked, limit)
                rows.append([place.name, noun, what, str(limit), *_times(direct), *_times(web), _both(direct, web)])
    return rows


def _questions(cursors: dict[str, str]) -> Iterator[tuple[str, str, dict[str, str]]]:
    yield from (
        ("campaigns", "newest", {}),
        ("campaigns", "from the middle", {"cursor": cursors["campaigns"]}),
        ("campaigns", "state failed", {"state": "failed"}),
        ("campaigns", "text in many", {"text": "model-7"}),
        ("campaigns", "text in one", {"text": RARE[:12]}),
        ("campaigns", "text in none", {"text": "nowhere"}),
        ("jobs", "newest", {}),
        ("jobs", "from the middle", {"cursor": cursors["jobs"]}),
        ("jobs", "state failed", {"state": "failed"}),
        ("jobs", "state pending (none)", {"state": "pending"}),
        ("jobs", "text in many", {"text": "threads 3"}),
        ("jobs", "text in one campaign", {"text": RARE[:12]}),
        ("jobs", "text in none", {"text": "nowhere"}),
        ("jobs", "text and state failed", {"text": "threads 3", "state": "failed"}),
    )


def _cursors(store: Store, middle: int, jobs_each: int) -> dict[str, str]:
    with store.engine.connect() as connection:
        newest = select(CampaignRow.created_at, CampaignRow.id).order_by(CampaignRow.created_at.desc())
        jobs = select(JobRow.submitted_at, JobRow.id).order_by(JobRow.submitted_at.desc(), JobRow.id.desc())
        campaign = connection.execute(newest.offset(middle).limit(1)).one()
        job = connection.execute(jobs.offset(middle * jobs_each).limit(1)).one()
    return {"campaigns": to_cursor(tuple(campaign)), "jobs": to_cursor(tuple(job))}


def _ask_store(listing: Listing, noun: str, asked: dict[str, str], limit: int) -> list[float]:
    wanted = dict(asked)
    cursor = wanted.pop("cursor", None)
    if noun == "campaigns":
        return _timed(lambda: listing.campaigns(**wanted, cursor=cursor, limit=limit))
    return _timed(lambda: listing.jobs(JobFilter(**wanted), cursor=cursor, limit=limit))


def _ask_http(client: httpx.Client, noun: str, asked: dict[str, str], limit: int) -> list[float]:
    path = f"/{noun}?{urlencode({**asked, 'limit': str(limit)})}"
    return _timed(lambda: client.get(path).raise_for_status())


def _timed(ask: Callable[[], object]) -> list[float]:
    """Milliseconds of each of some questions; a first one, which finds nothing warm, is not counted."""
    ask()
    found = []
    for _ in range(ASKED):
        begin = perf_counter()
        ask()
        found.append(1000 * (perf_counter() - begin))
    return found


def _times(found: list[float]) -> tuple[str, str]:
    return f"{np.median(found):.1f}", f"{max(found):.1f}"


def _both(*ways: list[float]) -> str:
    if all(max(found) < LIST_MS for found in ways):
        return "pass"
    return "**fail**" if any(np.median(found) >= LIST_MS for found in ways) else "cannot tell"


def _list_table(rows: list[list[str]], size: Size) -> Table:
    columns = [
        "database",
        "of",
        "asked",
        "page",
        "store p50, ms",
        "store max, ms",
        "HTTP p50, ms",
        "HTTP max, ms",
        f"all < {LIST_MS} ms",
    ]
    notes = [
        (
            f"{size.campaigns:,} campaigns and {size.campaigns * size.jobs_each:,} jobs, each with a result document "
            f"of about 3 kB. Each question {ASKED} times after a first one. `pass`: every single one was faster; "
            "`cannot tell`: the median was, the slowest was not."
        ),
        "The longest way is a text that is nowhere: everything has to be looked at.",
    ]
    return Table(
        f"A page of {size.campaigns:,} campaigns and of {size.campaigns * size.jobs_each:,} jobs", columns, rows, notes
    )


# Beside MLflow


def _metric_table(place: Place, size: Size) -> Table:
    batches = size.values // MLFLOW_BATCH
    with workspace() as folder, opened(place.folder, place.database) as store:
        before = _kept(store)
        plays = _plays(place, folder, size, batches)
        absent = _add_mlflow(plays, folder, batches)
        seconds: dict[str, list[float]] = {name: [] for name in plays}
        for number, name in enumerate(there_and_back(list(plays), size.rounds)):
            seconds[name].append(plays[name](100 + number))
        through_http = size.rounds * sum("HTTP" in name for name in plays) * size.values
        if (kept := _kept(store) - before) != through_http:
            raise PeerError(f"{kept} of {through_http} values that were sent are kept")
    mlflow = next((found for name, found in seconds.items() if name.startswith("mlflow")), None)
    rows = [_metric_row(name, found, size.values, mlflow) for name, found in seconds.items()]
    rows += [["MLflow", f"not measured: {absent}", "", ""]] if absent else []
    notes = [
        (
            f"{size.values:,} values of one metric, median of {size.rounds} rounds with its 95 % interval, each in a "
            "fresh process and in alternating order; ratios are taken round by round. Starting and a first value are "
            "not counted; everything was read back."
        ),
        (
            f"MLflow: `log_batch` of {MLFLOW_BATCH:,}, the most that it takes, into a SQLite file. "
            "Ours: samples are encoded, written and flushed to disk, and a record of the run goes into SQLite; through "
            "HTTP, a server does the last part for each result."
        ),
    ]
    columns = ["where to", "values/s", "× MLflow", f"≥ {TIMES:g}× MLflow"]
    return Table("Values of a metric, beside MLflow", columns, rows, notes)


def _plays(place: Place, folder: Path, size: Size, batches: int) -> dict[str, Callable[[int], float]]:
    def through_http(results: int) -> Callable[[int], float]:
        return lambda seed: _sum(send(place, results, size.values // results, seed, 1))

    def into_store(runs: int) -> Callable[[int], float]:
        return lambda seed: float(contest("ingest_store", folder / "store", runs, size.values // runs, seed)["seconds"])

    return {
        f"**assay** store, {batches} runs of {MLFLOW_BATCH:,}": into_store(batches),
        f"**assay** store, 1 run of {size.values:,}": into_store(1),
        f"**assay** HTTP, {batches} results of {MLFLOW_BATCH:,}": through_http(batches),
        f"**assay** HTTP, 1 result of {size.values:,}": through_http(1),
    }


def _sum(answer: dict[str, Any]) -> float:
    return float(answer["encode_s"] + answer["send_s"])


def _add_mlflow(plays: dict[str, Callable[[int], float]], folder: Path, batches: int) -> str:
    """Add MLflow, if it can be had; else say why not."""
    try:
        python = venvs.mlflow()
        name = f"{venvs.versions(python, 'mlflow-skinny')}, {batches} batches of {MLFLOW_BATCH:,}"
    except PeerError as problem:
        return str(problem)

    def play(seed: int) -> float:
        answer = contest("ingest_mlflow", folder, batches, MLFLOW_BATCH, seed, python=python)
        return float(answer["seconds"])

    plays[name] = play
    return ""


def _metric_row(name: str, seconds: list[float], values: int, mlflow: list[float] | None) -> list[str]:
    rate = median_of([values / one for one in seconds]).text(0)
    if mlflow is None:
        return [name, rate, "", "cannot tell"]
    times = ratio_of(mlflow, seconds)
    verdict = ratio_of(seconds, mlflow).below(1 / TIMES) if "assay" in name else ""
    return [name, rate, times.text(1), verdict]


_TITLE = "Results in, lists out"
_ABOUT = """What a server does for results: it takes samples and result documents in over HTTP, and shows lists of what
it has. One `assay serve` process on SQLite, another on PostgreSQL, which keeps what it acknowledges on disk."""
