"""Every page of the dashboard in a headless browser: when it is ready to be used, and what it costs to get there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from benches.figures import median_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# The processor as it is, and half as fast.
_SLOWER = (1, 2)
_PATIENCE_MS = 60_000
# Ready: there is a heading, nothing says that it loads, and the main thread came to rest.
_READY = """() => document.querySelector('main h1') !== null
    && ![...document.querySelectorAll('main [role=status].loading')].some((one) => one.offsetParent !== null)"""
_LONG_TASKS = """() => { window.__tasks = []; new PerformanceObserver((list) => {
    for (const one of list.getEntries()) window.__tasks.push(one.duration) }).observe({ entryTypes: ['longtask'] }) }"""
_REST = "() => new Promise((done) => requestIdleCallback(() => done(performance.now()), { timeout: 5000 }))"


@dataclass(frozen=True, slots=True)
class Opened:
    """One page, opened once in a browser that knows nothing yet."""

    ready_ms: float
    longest_ms: float
    requests: int
    kilobytes: float


def rows(url: str, token: str, loads: int, limit_ms: float) -> tuple[list[list[str]], list[str]]:
    """Open every page some times; rows of the table, and notes."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        return [_unmeasured("there is no chromium")], []
    if "<html" not in httpx.get(url, headers={"Accept": "text/html"}, trust_env=False).text.lower():
        return [_unmeasured("the dashboard was not built (make web)")], []
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for name, address in addresses(url, token).items():
            found.append([name, f"`{address}`", *_figures(chromium, url, address, token, loads, limit_ms)])
        chromium.close()
    return found, [
        (
            f"Each page is opened {loads} times by a browser with an empty cache, and {loads} times with its processor "
            f"slowed down {_SLOWER[1]} times; the median with its range. Ready means: its heading and its content are "
            "there, nothing says that it loads, and the main thread has come to rest. Browser and server share the "
            "machine, and a time includes that of the program that watches."
        ),
        "kB is what came over the wire, scripts and styles included, as the browser counts it.",
    ]


def _unmeasured(why: str) -> list[str]:
    return ["all", "", f"not measured: {why}", "", "", "", "", "", ""]


def _figures(chromium: Browser, url: str, address: str, token: str, loads: int, limit_ms: float) -> list[str]:
    """One page: when it is ready at either speed, and what it took."""
    cells, opened = [], []
    for slower in _SLOWER:
        once = [_open(chromium, url, address, token, slower) for _ in range(loads)]
        ready = median_of([one.ready_ms for one in once])
        cells += [ready.text(0), ready.below(limit_ms)]
        opened += once
    longest = max(one.longest_ms for one in opened[:loads])
    requests, kilobytes = max(one.requests for one in opened), max(one.kilobytes for one in opened)
    return [*cells, f"{longest:.0f}", str(requests), f"{kilobytes:,.0f}"]


def addresses(url: str, token: str) -> dict[str, str]:
    """Every page, about something that is there."""
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{url}/api/v1", headers=headers, trust_env=False, timeout=60) as client:

        def first(path: str, key: str = "id") -> str:
            items: Sequence[dict[str, Any]] = client.get(path).raise_for_status().json()["items"]
            return quote(str(items[0][key])) if items else ""

        chat = "benchmark=demo chat capacity&state=done"
        campaigns = [one["id"] for one in client.get(f"/campaigns?{chat}&limit=2").json()["items"]]
        sides = "&".join(f"side={quote(f'campaign:{one}')}" for one in campaigns)
        large = first("/campaigns?text=sweep&limit=1")
        return {
            "Overview": "/",
            "Benchmarks": "/benchmarks",
            "New benchmark": "/benchmarks/new",
            "Benchmark": f"/benchmarks/{quote('demo chat capacity')}",
            "Campaigns": "/campaigns",
            "Campaign": f"/campaigns/{campaigns[0]}",
            "Campaign, 100 jobs": f"/campaigns/{large}",
            "Job": f"/jobs/{first(f'/jobs?{chat}&limit=1')}",
            "Compare": f"/compare?{sides}",
            "Series list": "/series",
            "Series": f"/series/{first('/series?text=chat&limit=1')}",
            "Fleet": "/fleet",
            "Agent": f"/fleet/{first('/agents?limit=1')}",
            "Alerts": "/alerts",
            "Alert": f"/alerts/{first('/alerts?limit=1')}",
            "Schedules": "/schedules",
            "Schedule": f"/schedules/{first('/schedules?limit=1')}",
            "Settings": "/settings",
        }


def _open(chromium: Browser, url: str, address: str, token: str, slower: int) -> Opened:
    context = chromium.new_context(viewport={"width": 1366, "height": 768})
    try:
        page = context.new_page()
        _sign_in(page, token)
        page.add_init_script(f"({_LONG_TASKS})()")
        session = context.new_cdp_session(page)
        session.send("Emulation.setCPUThrottlingRate", {"rate": slower})
        session.send("Network.enable")
        came: list[float] = []
        session.on("Network.loadingFinished", lambda event: came.append(float(event["encodedDataLength"])))
        begin = perf_counter()
        page.goto(f"{url}{address}", wait_until="commit")
        page.wait_for_function(_READY, timeout=_PATIENCE_MS)
        page.evaluate(_REST)
        ready = 1000 * (perf_counter() - begin)
        tasks: list[float] = page.evaluate("() => window.__tasks")
        return Opened(ready, max(tasks, default=0.0), len(came), sum(came) / 1000)
    finally:
        context.close()


def _sign_in(page: Page, token: str) -> None:
    """Give the page the token, as if somebody had signed in in this tab."""
    page.add_init_script(f"sessionStorage.setItem('assay.token', {json.dumps(token)})")
