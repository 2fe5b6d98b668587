"""The HTTP API of Prometheus, as far as it is needed here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlencode, urlsplit

from assay.errors import MeasureError

_ANSWER_S = 30.0
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True)
class Api:
    """One Prometheus by its URL."""

    url: str

    def targets(self) -> list[dict[str, Any]]:
        """What it scrapes now."""
        return list(self._ask("GET", "/api/v1/targets?state=active")["activeTargets"])

    def kinds(self) -> dict[str, str]:
        """Family → its kind, of everything that it scrapes now."""
        told = self._ask("GET", "/api/v1/metadata")
        return {name: str(entries[0].get("type", "")) for name, entries in told.items() if entries}

    def version(self) -> str:
        return str(self._ask("GET", "/api/v1/status/buildinfo").get("version", ""))

    def raw(self, selector: str, length_ms: int, until_ms: int) -> list[dict[str, Any]]:
        """The scrapes themselves in a stretch of time, as they were taken.

        A range query would give a value for every step, also where nothing was scraped for minutes. A range in an
        instant query gives what is there and nothing else.
        """
        form = {"query": f"{selector}[{length_ms}ms]", "time": f"{until_ms / 1e3:.3f}"}
        return list(self._ask("POST", "/api/v1/query", urlencode(form).encode())["result"])

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:  # noqa: ANN401  (JSON has no narrower type)
        parts = urlsplit(self.url)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_ANSWER_S)
        try:
            connection.request(method, path, body, _FORM if body is not None else {})
            answer = connection.getresponse()
            told = json.loads(answer.read())
        except (OSError, HTTPException, ValueError) as problem:
            raise self._failed(f"{type(problem).__name__}: {problem}".rstrip(": ")) from None
        finally:
            connection.close()
        if answer.status != 200 or told.get("status") != "success":
            raise self._failed(f"status {answer.status}: {str(told.get('error', ''))[:300]}")
        return told["data"]

    def _failed(self, why: str) -> MeasureError:
        return MeasureError(
            f"Prometheus does not answer: {why}",
            code="prometheus",
            at=self.url,
            try_="look at its log; was it killed for memory?",
        )
