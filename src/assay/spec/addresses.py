"""Where services listen, put into their texts: `{port}` and `{host}`, `{port:llm}` and `{host:llm}` for another one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from assay.errors import MeasureError

LOOPBACK = "127.0.0.1"
_PLACE = re.compile(r"\{(port|host)(?::([^{}]+))?\}")
_PLACES = ("port", "host")
_BRACES = re.compile(r"\{(\w+)(?::[^{}]*)?\}")


class Ports:
    """Where this service and those started before it listen, put in for `{port}`, `{host}` and `{port:NAME}`."""

    def __init__(
        self, own: int, others: Mapping[str, int], at: str, host: str = LOOPBACK, hosts: Mapping[str, str] | None = None
    ) -> None:
        self.own, self.host = own, host
        self._others, self._hosts, self._at = others, hosts or {}, at

    def fill(self, text: str) -> str:
        """A text with ports and hosts put in; other braces stay as they are, unless they are a slip of the pen.

        Raises:
            MeasureError: for a service that was not started before, and for a misspelt `port` or `host`.
        """
        for slip in _BRACES.findall(text):
            if slip not in _PLACES and (near := difflib.get_close_matches(slip.lower(), _PLACES, 1, cutoff=0.7)):
                raise MeasureError(
                    f"{{{slip}}} stands for nothing",
                    code="service-reference",
                    at=self._at,
                    try_=f"did you mean {{{near[0]}}}?",
                )
        return _PLACE.sub(self._place, text)

    def _place(self, match: re.Match[str]) -> str:
        what, name = match[1], match[2]
        if name is None:
            return str(self.own) if what == "port" else self.host
        if name not in self._others:
            known = ", ".join(self._others) or "none"
            raise MeasureError(
                f"{match[0]} names no service that was started before (started: {known})",
                code="service-reference",
                at=self._at,
                try_="a service can only name those above it in the file, and one that all runs share cannot name one "
                "that each run starts anew",
            )
        return str(self._others[name]) if what == "port" else self._hosts.get(name, LOOPBACK)


def services_in(texts: Iterable[str]) -> frozenset[str]:
    """The other services that texts name by `{port:NAME}` or `{host:NAME}`."""
    return frozenset(match[2] for text in texts for match in _PLACE.finditer(text) if match[2] is not None)
