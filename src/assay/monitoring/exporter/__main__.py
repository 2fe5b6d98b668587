"""`python -m assay.monitoring.exporter`: answers scrapes until it is ended."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from assay.monitoring.exporter.metrics import GpuExporter, MetricFamily, machine_families, render
from assay.monitoring.exporter.relay import ScrapeResponse, relayed


def answers(
    families: Callable[[], list[MetricFamily]], relay: Path | None, timeout_s: float
) -> Callable[[str], ScrapeResponse]:
    """A path → what is said there.

    Args:
        relay: folder with the services that run; None where none is relayed.
    """

    def answer(path: str) -> ScrapeResponse:
        page, _, name = path.partition("?")[0].strip("/").partition("/")
        if page == "metrics" and not name:
            return ScrapeResponse(200, render(families()).encode())
        if page == "relay" and relay is not None:
            return relayed(relay, name, timeout_s)
        if not page:
            return ScrapeResponse(200, b"the metrics are at /metrics\n", "text/plain; charset=utf-8")
        return ScrapeResponse(404, b"there is nothing here\n", "text/plain; charset=utf-8")

    return answer


def serving(listen: str, port: int, answer: Callable[[str], ScrapeResponse]) -> ThreadingHTTPServer:
    class _Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            said = answer(self.path)
            self.send_response(said.status)
            self.send_header("Content-Type", said.content_type)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, *_: object) -> None:
            """Say nothing: a line for every scrape would be a line a second."""

    server = ThreadingHTTPServer((listen, port), _Handler)
    server.daemon_threads = True
    return server


def main(words: list[str] | None = None) -> int:
    """Serve until ended."""
    parser = argparse.ArgumentParser(prog="python -m assay.monitoring.exporter", description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1", help="address to answer on")
    parser.add_argument("--port", type=int, default=9100, help="port to answer on")
    parser.add_argument("--relay", type=Path, default=None, help="folder with the services to pass on")
    parser.add_argument("--timeout", type=float, default=0.9, help="longest time for a service, in seconds")
    parser.add_argument("--without", choices=("machine", "gpus", "both"), default="", help="what others export here")
    asked = parser.parse_args(words)
    gpus = None if asked.without in ("gpus", "both") else GpuExporter()
    machine = asked.without not in ("machine", "both")

    def families() -> list[MetricFamily]:
        return [*(machine_families() if machine else ()), *(gpus.families() if gpus is not None else ())]

    with serving(asked.listen, asked.port, answers(families, asked.relay, asked.timeout)) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
