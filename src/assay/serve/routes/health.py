"""Whether the server lives and can work, and its metrics."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Response
from prometheus_client import CONTENT_TYPE_LATEST

from assay.errors import StoreError
from assay.serve.live.queueing import RedisQueue
from assay.serve.state import ServerState
from assay.serve.web.access import MetricsAccess, public
from assay.serve.web.parameters import State
from assay.serve.web.problems import RETRY_AFTER_S, Unavailable
from assay.serve.web.records import Health, Readiness
from assay.version import __version__

router = APIRouter(prefix="/api/v1", tags=["health"])
metrics_router = APIRouter(tags=["health"])


@router.get("/health", dependencies=[public])
async def get_health() -> Health:
    """Say that the process lives."""
    return Health("ok", __version__)


@router.get("/ready", dependencies=[public], responses={503: {"model": Readiness}})
def get_readiness(state: State, response: Response) -> Readiness:
    """Say whether database and queue answer; 503 when they do not."""
    database, queue = _database(state), "away"
    if database == "ok":
        queue = _queue(state)
    ready = database == "ok" and queue != "away"
    if not ready:
        response.status_code = 503
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return Readiness(ready, database, queue)


@metrics_router.get(
    "/metrics",
    dependencies=[Depends(MetricsAccess("reader", "user", "admin"))],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def get_metrics(state: State) -> Response:
    """Numbers about the server, for Prometheus."""
    return Response(state.metrics.render(), media_type=CONTENT_TYPE_LATEST)


def _database(state: ServerState) -> str:
    try:
        state.kept.control.last_event()
    except (StoreError, Unavailable):
        return "away"
    return "ok"


def _queue(state: ServerState) -> str:
    queue = state.kept.queue
    if not isinstance(queue, RedisQueue):
        return "sql"
    try:
        queue.broker.sizes()
    except StoreError:
        return "away"
    return "redis"
