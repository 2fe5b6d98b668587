"""Every page of the dashboard, with one sentence about it: for tests, screenshots and the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Shown:
    """One page."""

    name: str
    """Its picture is called so."""
    title: str
    address: str
    """Words in braces stand for what a server has: `{campaign}`."""
    says: str


PAGES = (
    Shown("overview", "Overview", "/", "What runs now, what failed, what moved, and how the fleet is."),
    Shown("benchmarks", "Benchmarks", "/benchmarks", "Every stored benchmark with the trend of its headline metric."),
    Shown("benchmark", "Benchmark", "/benchmarks/{benchmark}", "One benchmark: its file, its versions, its campaigns."),
    Shown("new-benchmark", "New benchmark", "/benchmarks/new",
          "A form, the file with completion and errors, and what would happen, before anything runs."),
    Shown("campaigns", "Campaigns", "/campaigns", "Every submission, with its state and progress."),
    Shown("campaign", "Campaign", "/campaigns/{campaign}",
          "The answer first, then its jobs as a table or a grid, pictures, and every doubt once, live."),
    Shown("job", "Job", "/jobs/{job}", "The verdict in plain words, then everything that was measured."),
    Shown("job-llm", "Job of a language model", "/jobs/{llm_job}",
          "First token, gaps between tokens, goodput, and the answers with their scores."),
    Shown("compare", "Compare", "/compare?side=campaign:{campaign}&side=campaign:{other_campaign}",
          "Two or more sides with intervals and three answers: better, worse, cannot tell."),
    Shown("series-list", "Series", "/series", "Every metric over time, and what changed in it."),
    Shown("series", "One series", "/series/{series}", "The trend with its band, its changes and their causes."),
    Shown("fleet", "Fleet", "/fleet", "Every agent: state, device, current job."),
    Shown("agent", "Agent", "/fleet/{agent}", "One agent: profile, labels, fitness, noise and measured hardware."),
    Shown("alerts", "Alerts", "/alerts", "The alerts, and the rules that decide when one opens."),
    Shown("alert", "Alert", "/alerts/{alert}", "One alert with its history, and what you can do with it."),
    Shown("schedules", "Schedules", "/schedules", "Benchmarks that run by themselves, with their next times."),
    Shown("schedule", "Schedule", "/schedules/{schedule}", "One schedule, and the outcome of each due time."),
    Shown("settings", "Settings", "/settings", "Tokens, channels, prices, theme."),
    Shown("not-found", "No such page", "/nowhere", "An address that leads nowhere says so."),
)  # fmt: skip


def names_in(api: httpx.Client) -> dict[str, str]:
    """What the words in braces stand for on a server with demo data.

    Args:
        api: a client of its `/api/v1`.
    """
    several = _items(api, "/campaigns", benchmark="demo image classifier", state="done", limit=2)
    (alert, *_), (series, *_) = _items(api, "/alerts", limit=1), _items(api, "/findings", limit=1)
    return {
        "campaign": several[0]["id"],
        "other_campaign": several[-1]["id"],
        "job": _items(api, "/jobs", campaign=several[0]["id"], limit=1)[0]["id"],
        "llm_job": _job_of(api, "demo chat capacity"),
        "benchmark": "demo image classifier",
        "series": series["series"]["id"],
        "alert": alert["id"],
        "agent": _agent(api, "demo-h100-01"),
        "schedule": _items(api, "/schedules", limit=1)[0]["id"],
    }


def _job_of(api: httpx.Client, benchmark: str) -> str:
    (campaign, *_) = _items(api, "/campaigns", benchmark=benchmark, state="done", limit=1)
    return str(_items(api, "/jobs", campaign=campaign["id"], state="done", limit=1)[0]["id"])


def _agent(api: httpx.Client, name: str) -> str:
    return next(str(one["id"]) for one in _items(api, "/agents", limit=100) if one["name"] == name)


def _items(api: httpx.Client, path: str, **query: Any) -> list[dict[str, Any]]:
    answer = api.get(path, params=query)
    assert answer.status_code == 200, answer.text
    items = list(answer.json()["items"])
    assert items, f"{path} has nothing for {query}"
    return items
