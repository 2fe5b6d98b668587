"""The metrics of services on this machine, passed on under a fixed address.

A service gets its port when a run starts it, and Prometheus takes five seconds to hear of a new target: a short run
would be over. So Prometheus scrapes this relay from the beginning, by the name of the service, and the relay asks
whoever runs under that name now. It also reaches services that listen on the loopback address alone.
"""

from __future__ import annotations

import json
import re
import ssl
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from assay.monitoring.exporter.metrics import CONTENT_TYPE, MetricFamily, render

HAS_METRICS = "assay_service_has_metrics"
"""0 where a service runs and has no metrics at the path that was asked."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MOST_BYTES = 16 * 2**20
_ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=1,*/*;q=0.1"
# A service that says one of these has no such page; everything else is a failure.
_NO_PAGE = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class ScrapeResponse:
    """What the relay says to a scrape."""

    status: int
    body: bytes
    content_type: str = CONTENT_TYPE


def relayed(folder: Path, name: str, timeout_s: float) -> ScrapeResponse:
    """What a service says about itself now."""
    if not _NAME.fullmatch(name):
        return ScrapeResponse(404, b"no such service\n")
    try:
        url = str(json.loads((folder / f"{name}.json").read_bytes())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ScrapeResponse(503, b"the service does not run now\n")
    try:
        status, content_type, body = _get(url, timeout_s)
    except (OSError, HTTPException, ValueError) as problem:
        return ScrapeResponse(502, f"{type(problem).__name__}: {problem}\n".encode())
    if status in _NO_PAGE or (status == 200 and not _is_metrics(content_type, body)):
        return ScrapeResponse(200, _has_metrics(0).encode())
    if status != 200:
        return ScrapeResponse(502, f"the service answers with status {status}\n".encode())
    if "openmetrics" in content_type:  # its last line ends it; nothing can be added
        return ScrapeResponse(200, body, content_type)
    end = b"" if body.endswith(b"\n") else b"\n"
    return ScrapeResponse(200, body + end + _has_metrics(1).encode(), content_type)


def _is_metrics(content_type: str, body: bytes) -> bool:
    """Whether an answer is a page of metrics; some servers show their start page at every path."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("text/plain", "application/openmetrics-text", "") and not body.lstrip().startswith((b"<", b"{"))


def _has_metrics(value: int) -> str:
    return render([MetricFamily(HAS_METRICS, "gauge", "Whether the service has metrics of its own.", (({}, value),))])


def _get(url: str, timeout_s: float) -> tuple[int, str, bytes]:
    parts = urlsplit(url)
    if parts.scheme == "https":
        connection: HTTPConnection = HTTPSConnection(
            parts.hostname or "", parts.port, timeout=timeout_s, context=ssl.create_default_context()
        )
    else:
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers={"Accept": _ACCEPT, "Connection": "close"})
        answer = connection.getresponse()
        body = answer.read(_MOST_BYTES + 1)
    finally:
        connection.close()
    if len(body) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES} bytes")
    return answer.status, answer.getheader("Content-Type") or "", body
