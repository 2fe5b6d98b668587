"""Servers with known truth for the tests: started as processes, stopped afterwards.

    with llm_server(ttft_ms=50, itl_ms=10, tokens=32, error=["429:every=10"], no_done=True) as sim:
        ... sim.url, sim.pid
        sim.records().ttft_s

Each setting is a flag of `python -m assay.sim`: `first_chunk_tokens=4` is `--first-chunk-tokens 4`, `ttft_ms=50` is
`--ttft 50ms`, a list repeats the flag, True is a flag without a value.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.sim.record_reader import SimRecord

PATIENCE_S = 120.0


class Simulated:
    """A running server."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self._process, self.url = process, url

    @property
    def pid(self) -> int:
        """The process of the server."""
        return self._process.pid

    @property
    def host(self) -> str:
        """Where it listens."""
        return self.url.partition("://")[2].rpartition(":")[0]

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])

    def records(self) -> SimRecord:
        """What it did: columns of numpy, one row per answer that has ended (see assay.sim.record_reader)."""
        from assay.sim.record_reader import read_records

        return read_records(self._ask("GET", "/sim/records?format=binary"))

    def clear(self) -> None:
        """Forget the records and begin the script anew."""
        self._ask("DELETE", "/sim/records")

    def state(self) -> dict[str, Any]:
        """How many records, answers and stops there are."""
        state: dict[str, Any] = json.loads(self._ask("GET", "/sim/state"))
        return state

    def stall(self, for_s: float, after_s: float = 0.0) -> None:
        """Stop the whole server for a while, now or later."""
        self._ask("POST", "/sim/stall", json.dumps({"for": for_s, "after": after_s}).encode())

    def kill(self) -> None:
        """End it in the middle of what it does."""
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        import ssl

        context = ssl._create_unverified_context() if self.url.startswith("https:") else None
        request = urllib.request.Request(self.url + path, body, method=method)
        # Never through a proxy: it is a server of this machine.
        handlers: list[Any] = [urllib.request.ProxyHandler({})]
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        with urllib.request.build_opener(*handlers).open(request, timeout=PATIENCE_S) as answer:
            content: bytes = answer.read()
        return content


@contextmanager
def llm_server(**settings: object) -> Iterator[Simulated]:
    """A simulated LLM server."""
    with _server([sys.executable, "-m", "assay.sim", "llm", *flags(settings)]) as simulated:
        yield simulated


@contextmanager
def http_server(**settings: object) -> Iterator[Simulated]:
    """A simulated plain JSON API."""
    with _server([sys.executable, "-m", "assay.sim", "http", *flags(settings)]) as simulated:
        yield simulated


@contextmanager
def null_server(**settings: object) -> Iterator[Simulated]:
    """The server that answers as fast as possible, and keeps no record."""
    with _server([sys.executable, "-m", "assay.sim.null", *flags(settings)]) as simulated:
        yield simulated


def flags(settings: dict[str, object]) -> list[str]:
    """Settings as the flags of a command line."""
    words: list[str] = []
    for name, value in settings.items():
        unit = next((unit for unit in ("ms", "s") if name.endswith(f"_{unit}")), "")
        flag = "--" + name.removesuffix(f"_{unit}").replace("_", "-")
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is True:
                words.append(flag)
            elif one is not None and one is not False:
                words += [flag, f"{one}{unit}" if unit and not isinstance(one, str) else str(one)]
    return words


@contextmanager
def _server(command: list[str]) -> Iterator[Simulated]:
    # Its standard input is the lifeline: it ends with this process, however that ends.
    process = subprocess.Popen([*command, "--lifeline"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline().decode()
        assert line.startswith("listening on "), f"{command} said {line!r} and ended with {process.poll()}"
        yield Simulated(process, line.removeprefix("listening on ").strip())
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        process.stdin.close()
        process.stdout.close()
