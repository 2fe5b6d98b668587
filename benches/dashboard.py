"""The dashboard on a store as it is after years: what each question of its pages takes, and each page in a browser."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
import psutil
from tests.support.running_server import ServerProcess

from assay.demo.fill import fill
from assay.demo.keeper import Keeper
from assay.demo.player import DemoSize
from benches.fleet import percentile
from benches.page import Page, Table
from benches.processes import BUILD
from benches.servers import ADMIN, assay_server, opened

API_MS, PAGE_MS = 150, 1000
# Nobody beats for the agents of the demo: no server may call them silent while it is measured.
_PATIENT = ("--silent-after-s", "3600", "--lease-s", "3600")


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    campaigns: int = 10_000
    results: int = 1_000_000
    asked: int = 60
    """How often each question is asked, about another thing each time."""
    loads: int = 5
    """How often each page is opened."""


QUICK = Size(campaigns=400, results=8_000, asked=20, loads=2)


@dataclass(frozen=True, slots=True)
class Question:
    """One route with one kind of parameters."""

    path: str
    what: str
    asked: tuple[str, ...]
    """Addresses that are asked in turn."""


def bench(*, quick: bool = False) -> Page:
    """Fill a store, ask every question of the API, and open every page."""
    size = QUICK if quick else Size()
    folder = filled(size)
    with assay_server(folder, *_PATIENT) as server:
        api = _api_table(server, size)
        pages = _pages_table(server, size)
    if quick:
        shutil.rmtree(folder, ignore_errors=True)
    return Page("dashboard", _TITLE, _ABOUT, [api, pages])


def filled(size: Size) -> Path:
    """A store with demo data; a large one is kept for the next time, as it takes minutes to make."""
    folder = BUILD / f"dashboard-{size.campaigns}-{size.results}"
    ready = folder / "ready"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        with opened(folder) as store:
            fill(store, DemoSize(size.campaigns, results=size.results))
        ready.touch()
    with opened(folder) as store:
        Keeper(store).step(BUILD)  # all agents say that they are there
    return folder


# The API


def _api_table(server: ServerProcess, size: Size) -> Table:
    headers = {"Authorization": f"Bearer {ADMIN}"}
    rows = []
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    with httpx.Client(base_url=f"{server.url}/api/v1", headers=headers, trust_env=False, timeout=120) as client:
        for question in questions(client, size.asked):
            before_s = sum(process.cpu_times()[:2])
            took, longest = _ask(client, question, size.asked)
            cpu_ms = 1000 * (sum(process.cpu_times()[:2]) - before_s) / len(took)
            p95 = percentile(took, 0.95)
            rows.append(
                [
                    f"`{question.path}`",
                    question.what,
                    f"{sorted(took)[len(took) // 2]:.0f}",
                    p95.text(0),
                    f"{max(took):.0f}",
                    f"{cpu_ms:.0f}",
                    f"{longest / 1000:,.0f}",
                    p95.below(API_MS),
                ]
            )
    columns = [
        "route",
        "what",
        "p50, ms",
        "p95, ms",
        "max, ms",
        "server CPU, ms",
        "largest answer, kB",
        f"p95 < {API_MS} ms",
    ]
    notes = [
        (
            f"{size.campaigns:,} campaigns with {size.results:,} results in a SQLite file; one client that asks one "
            "question after the other over one connection, timed from the request to the last byte. Each question is "
            f"asked {size.asked} times, about another campaign, job, series or page of a list each time; the first of "
            "them is counted like the others. The p95 has its 95 % interval."
        ),
        "The processor time is that of the server per answer, its own housekeeping meanwhile included.",
    ]
    return Table("The questions that its pages ask", columns, rows, notes)


def _ask(client: httpx.Client, question: Question, times: int) -> tuple[list[float], int]:
    took, longest = [], 0
    for address in itertools.islice(itertools.cycle(question.asked), times):
        begin = perf_counter()
        answer = client.get(address)
        took.append(1000 * (perf_counter() - begin))
        answer.raise_for_status()
        longest = max(longest, len(answer.content))
    return took, longest


def questions(client: httpx.Client, many: int) -> list[Question]:
    """Every list and page route, with what the pages of the dashboard give it."""
    campaigns, jobs = _walk(client, "/campaigns", many), _walk(client, "/jobs", many)
    found = [*_of_campaigns(client, campaigns), *_of_jobs(client, jobs), *_of_series(client, many)]
    return [*found, *_of_the_rest(client), *_of_comparing(client, campaigns)]


def _walk(client: httpx.Client, path: str, many: int) -> list[dict[str, Any]]:
    """Things of a list from all its ends: the newest, and some of pages far behind."""
    found: list[dict[str, Any]] = []
    cursor = ""
    for _ in range(16):
        page = client.get(f"{path}?limit=500{cursor}").raise_for_status().json()
        found += page["items"][:: max(1, 500 // many)]
        if not page["next"]:
            break
        cursor = f"&cursor={page['next']}"
    return found[:: max(1, len(found) // many)][:many]


def _pages(client: httpx.Client, path: str, limit: int = 50) -> tuple[str, ...]:
    """The addresses of the first pages of a list."""
    joint = "&" if "?" in path else "?"
    addresses, cursor = [], ""
    for _ in range(6):
        addresses.append(f"{path}{joint}limit={limit}{cursor}")
        answer = client.get(addresses[-1]).raise_for_status().json()
        if not answer.get("next"):
            break
        cursor = f"&cursor={answer['next']}"
    return tuple(addresses)


def _list(client: httpx.Client, what: str, path: str, limit: int = 50) -> Question:
    return Question(path.partition("?")[0], what, _pages(client, path, limit))


def _each(path: str, what: str, key: str, ids: Sequence[str], rest: str = "") -> Question:
    return Question(f"{path}/{{{key}}}{rest.partition('?')[0]}", what, tuple(f"{path}/{one}{rest}" for one in ids))


def _of_campaigns(client: httpx.Client, campaigns: list[dict[str, Any]]) -> Iterator[Question]:
    ids = [one["id"] for one in campaigns]
    yield Question("/overview", "all of it", ("/overview",))
    yield _list(client, "newest", "/campaigns")
    for state in ("running", "failed", "partial", "cancelled"):
        yield _list(client, f"state {state}", f"/campaigns?state={state}")
    yield _list(client, "of a benchmark", f"/campaigns?benchmark={campaigns[0]['benchmark']}")
    yield _list(client, "text in many", "/campaigns?text=sweep")
    yield _list(client, "text in none", "/campaigns?text=nowhere")
    yield _each("/campaigns", "one", "campaign", ids)
    yield _each("/campaigns", "one", "campaign", ids[:10], "/placement")
    yield Question("/jobs", "of a campaign, 500", tuple(f"/jobs?campaign={one}&limit=500" for one in ids))
    yield Question("/results", "of a campaign, 50", tuple(f"/results?campaign={one}&limit=50" for one in ids))
    yield Question("/results/matrix", "of a campaign", tuple(f"/results/matrix?campaign={one}" for one in ids))
    yield Question("/benchmarks", "by name", _pages(client, "/benchmarks", 100))
    names = [one["name"] for one in client.get("/benchmarks?limit=100").json()["items"]]
    yield _each("/benchmarks", "one", "name", names)
    yield _each("/benchmarks", "one", "name", names, "/versions")
    asked = "&".join(f"name={name}" for name in names)
    yield Question("/benchmarks/headlines", "of all that are stored", (f"/benchmarks/headlines?{asked}",))


def _of_jobs(client: httpx.Client, jobs: list[dict[str, Any]]) -> Iterator[Question]:
    yield _list(client, "newest", "/jobs")
    for state in ("running", "pending", "failed"):
        yield _list(client, f"state {state}", f"/jobs?state={state}")
    yield _list(client, "verdict suspect", "/jobs?verdict=suspect")
    yield _list(client, "of a benchmark", f"/jobs?benchmark={jobs[-1]['benchmark']}")
    yield _list(client, "of an agent", f"/jobs?agent={jobs[-1]['agent']}")
    yield _list(client, "text in many", "/jobs?text=sweep")
    yield _list(client, "newest", "/results")
    yield _list(client, "of an agent", f"/results?agent={jobs[-1]['agent']}")
    rich = [one["id"] for one in client.get("/jobs?benchmark=demo chat capacity&state=done&limit=40").json()["items"]]
    for ids, what in (([one["id"] for one in jobs], "any"), (rich, "with samples, telemetry and answers")):
        for rest in ("", "/result", "/panels", "/outputs", "/artefacts", "/logs", "/scores"):
            yield _each("/jobs", what, "job", ids, rest)


def _of_series(client: httpx.Client, many: int) -> Iterator[Question]:
    series = [one["id"] for one in _walk(client, "/series", many)]
    yield _list(client, "by name", "/series")
    yield _list(client, "text", "/series?text=chat")
    yield _each("/series", "one", "series", series)
    yield _each("/series", "500", "series", series, "/points?limit=500")
    yield _list(client, "newest", "/findings")
    yield _list(client, "open", "/findings?state=open")
    yield _list(client, "of a benchmark", "/findings?benchmark=demo chat capacity")
    findings = [one["id"] for one in client.get("/findings?limit=50").json()["items"]]
    yield _each("/findings", "one", "finding", findings)


def _of_the_rest(client: httpx.Client) -> Iterator[Question]:
    yield _list(client, "newest", "/alerts")
    yield _each("/alerts", "one", "alert", _ids(client, "/alerts"))
    yield Question("/alert-rules", "all", ("/alert-rules",))
    yield Question("/notices", "newest", ("/notices?limit=100",))
    yield _list(client, "by name", "/schedules")
    schedules = _ids(client, "/schedules")
    yield _each("/schedules", "one", "schedule", schedules)
    yield _each("/schedules", "newest", "schedule", schedules, "/firings?limit=50")
    yield _list(client, "by name", "/agents", 100)
    agents = _ids(client, "/agents")
    yield _each("/agents", "one", "agent", agents)
    yield _each("/agents", "one", "agent", agents, "/hardware")
    for path in ("/channels", "/prices", "/tokens", "/session", "/schema"):
        yield Question(path, "all", (path,))


def _of_comparing(client: httpx.Client, campaigns: list[dict[str, Any]]) -> Iterator[Question]:
    pairs = [
        f"side=campaign:{one['id']}&side=campaign:{other['id']}"
        for one, other in itertools.pairwise(campaigns)
        if one["benchmark"] == other["benchmark"]
    ]
    chat = [one["id"] for one in client.get("/campaigns?benchmark=demo chat capacity&state=done").json()["items"]]
    pairs += [f"side=campaign:{one}&side=campaign:{other}" for one, other in itertools.pairwise(chat)]
    yield Question("/compare", "two campaigns", tuple(f"/compare?{pair}" for pair in pairs))
    agents = "side=agent:demo-h100-01&side=agent:demo-l4-01"
    yield Question("/compare", "two agents", (f"/compare?{agents}",))
    axes = "x=ttft_ms&y=output_tokens_per_s"
    yield Question("/frontier", "two campaigns", tuple(f"/frontier?{pair}&{axes}" for pair in pairs[-10:]))
    yield Question("/frontier", "a label", ("/frontier?side=label:team=chat&side=label:team=vision&" + axes,))


def _ids(client: httpx.Client, path: str) -> list[str]:
    return [str(one["id"]) for one in client.get(f"{path}?limit=50").raise_for_status().json()["items"]]


# The pages


def _pages_table(server: ServerProcess, size: Size) -> Table:
    from benches import dashboard_pages

    columns = [
        "page",
        "address",
        "ready, ms",
        f"< {PAGE_MS} ms",
        "at half the speed, ms",
        f"< {PAGE_MS} ms",
        "longest task, ms",
        "requests",
        "kB",
    ]
    rows, notes = dashboard_pages.rows(server.url, ADMIN, size.loads, PAGE_MS)
    return Table("The pages in a browser", columns, rows, notes)


_TITLE = "The dashboard after years"
_ABOUT = """One `assay serve` process on a store with as much in it as a busy server has after years: every question
that the pages of the dashboard ask, and the pages themselves in a browser."""
