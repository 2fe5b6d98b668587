"""The application: every part in its place."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from importlib import import_module
from importlib.util import find_spec

import anyio.to_thread
from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware

from assay.clock import SYSTEM_CLOCK, Clock
from assay.serve.live.loops import ObjectUploader, ScheduleLoop, Ticker
from assay.serve.live.notifications import NoticeSender
from assay.serve.observability import log_failure
from assay.serve.routes import agents, alerts, attempts, benchmarks, campaigns, jobs, series, server
from assay.serve.settings import ServerSettings
from assay.serve.state import ServerState
from assay.serve.web import dashboard, docs
from assay.serve.web.dashboard import BUILT, BuiltFiles
from assay.serve.web.middleware import Durable, Limit, Observe, SizeLimits, ZeroBytes
from assay.serve.web.problems import add_problem_answers

ROUTERS: tuple[APIRouter, ...] = (
    # Those asked most often come first: a request is held against one route after another.
    agents.router,
    attempts.router,
    benchmarks.router,
    campaigns.router,
    jobs.router,
    jobs.compare_router,
    attempts.external_router,
    campaigns.schedules_router,
    alerts.router,
    alerts.rules_router,
    alerts.notices_router,
    alerts.channels_router,
    server.prices_router,
    jobs.scores_router,
    jobs.results_router,
    series.router,
    series.findings_router,
    attempts.artefacts_router,
    server.events_router,
    server.tokens_router,
    server.session_router,
    server.overview_router,
    server.health_router,
    server.metrics_router,
    docs.router,
    # Last: it takes whatever page address no other has.
    dashboard.router,
)

_TAGS = [
    {"name": "benchmarks", "description": "What to measure: stored, with a history."},
    {"name": "campaigns", "description": "One submission of a benchmark: a set of jobs."},
    {"name": "jobs", "description": "One point of a benchmark's matrix, for one machine."},
    {
        "name": "elsewhere",
        "description": "Campaigns that a cluster measures, as the command that follows them reports.",
    },
    {"name": "schedules", "description": "Benchmarks that run by themselves, and the outcome of each due time."},
    {"name": "attempts", "description": "What an agent says about a job that it holds."},
    {"name": "agents", "description": "The programs on devices that take jobs."},
    {"name": "results", "description": "Results across jobs."},
    {"name": "series", "description": "Metrics over time, what changed in them, and why."},
    {"name": "alerts", "description": "What people are notified about, and the rules that decide when."},
    {"name": "prices", "description": "What machines cost, where a result does not say so itself."},
    {"name": "artefacts", "description": "Files by content."},
    {"name": "events", "description": "Live updates."},
    {"name": "overview", "description": "How things stand now."},
    {"name": "session", "description": "Who asks, and what a benchmark file may say."},
    {"name": "tokens", "description": "Who may use the server."},
    {"name": "health", "description": "Whether the server lives and can work."},
]
# Threads for short database work; more would only queue for its connections.
_THREADS = 24


def create_app(settings: ServerSettings, clock: Clock = SYSTEM_CLOCK) -> FastAPI:
    """Make the application of one server; the store is opened when it starts."""
    state = ServerState(settings, clock)
    app = FastAPI(
        title="assay",
        lifespan=_lifespan,
        openapi_tags=_TAGS,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.assay = state
    app.state.notifying = NoticeSender.of(state)
    app.state.dashboard = BuiltFiles(settings.dashboard or BUILT)
    add_problem_answers(app)
    for router in ROUTERS:
        app.include_router(router)
    if find_spec("assay.serve.sark") is not None:  # its surface under /api, where it is part of this installation
        app.include_router(import_module("assay.serve.sark.routes").router)
    docs.describe(app)
    app.add_middleware(ZeroBytes)
    app.add_middleware(Durable, state=state)
    app.add_middleware(Limit, limits=SizeLimits.of(settings))
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["*"],
            allow_headers=["Authorization", "Content-Type", "If-Match", "If-None-Match", "Last-Event-ID"],
            expose_headers=["ETag", "Retry-After"],
        )
    app.add_middleware(Observe, metrics=state.metrics, root_path=settings.root_path)
    return app


def begin_close(app: FastAPI) -> None:
    """Answer what is held open, so that the server can end: long polls with nothing, streams with their end."""
    state: ServerState = app.state.assay
    state.dispatcher.close()
    state.feed.close()


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    state: ServerState = app.state.assay

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            log_failure("background task ended", problem)

    anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
    state.feed.start()
    ticker = Ticker(state)
    await anyio.to_thread.run_sync(ticker.tick)  # opens the store; if it is away, the server starts anyway
    tasks = [
        asyncio.create_task(work)
        for work in (
            ticker.run(),
            state.dispatcher.run(),
            ScheduleLoop(state).run(),
            app.state.notifying.run(),
            ObjectUploader(state).run(),
        )
    ]
    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    finally:
        begin_close(app)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        state.close()
