"""What texts of a benchmark file refer to: secrets, `${env:NAME}`, and where services listen, `{port}`, `{host:llm}`.

Secrets stay references in every record; they are resolved where they are used and nowhere else.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from assay.errors import MeasureError

if TYPE_CHECKING:
    from pydantic import JsonValue

REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
HIDDEN = "***"
# Set by an agent for its jobs: the variables that its owner gives them. Not set where a person measures by himself.
VARIABLE = "ASSAY_JOB_ENV"


def references(value: object) -> Iterator[str]:
    """The names of all environment variables that a tree of values refers to."""
    if isinstance(value, str):
        yield from REFERENCE.findall(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, Iterable):
        for item in value:
            yield from references(item)


def resolve_secrets(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Put the values of the environment in place of their references."""
    variables = os.environ if environ is None else environ
    listed = variables.get(VARIABLE)

    def value(match: re.Match[str]) -> str:
        if listed is not None and match[1] not in listed.split(","):
            raise MeasureError(
                f"the environment variable {match[1]} is not for jobs of this agent",
                code="secret",
                at=match[0],
                try_=f"if you trust those who submit, start the agent with --allow-env {match[1]}",
            )
        if match[1] not in variables:
            raise MeasureError(
                f"the environment variable {match[1]} is not set",
                code="secret",
                at=match[0],
                try_=f"export {match[1]}=… before running",
            )
        return variables[match[1]]

    return REFERENCE.sub(value, text)


def redact(text: str, names: Iterable[str], environ: Mapping[str, str] | None = None) -> str:
    """Hide the values of the named variables in a text that will be kept, in whatever case their letters are there."""
    variables = os.environ if environ is None else environ
    for name in names:
        if len(secret := variables.get(name, "")) >= 4:  # shorter ones would garble ordinary words
            text = re.sub(re.escape(secret), HIDDEN, text, flags=re.IGNORECASE)
    return text


def redacted(value: JsonValue, names: Sequence[str], environ: Mapping[str, str] | None = None) -> JsonValue:
    """The same tree of values with the values of the named variables hidden wherever they appear."""
    if isinstance(value, str):
        return redact(value, names, environ)
    if isinstance(value, dict):
        return {redact(key, names, environ): redacted(item, names, environ) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, names, environ) for item in value]
    return value


LOOPBACK = "127.0.0.1"
_PLACE = re.compile(r"\{(port|host)(?::([^{}]+))?\}")
_PLACES = ("port", "host")
_BRACES = re.compile(r"\{(\w+)(?::[^{}]*)?\}")


class Ports:
    """Where this service and those started before it listen, put in for `{port}`, `{host}` and `{port:NAME}`."""

    def __init__(
        self, own: int, ports: Mapping[str, int], at: str, host: str = LOOPBACK, hosts: Mapping[str, str] | None = None
    ) -> None:
        self.own, self.host = own, host
        self._others, self._hosts, self._at = ports, hosts or {}, at

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
        kind, name = match[1], match[2]
        if name is None:
            return str(self.own) if kind == "port" else self.host
        if name not in self._others:
            started = ", ".join(self._others) or "none"
            raise MeasureError(
                f"{match[0]} names no service that was started before (started: {started})",
                code="service-reference",
                at=self._at,
                try_="a service can only name those above it in the file, and one that all runs share cannot name one "
                "that each run starts for itself",
            )
        return str(self._others[name]) if kind == "port" else self._hosts.get(name, LOOPBACK)


def services_in(texts: Iterable[str]) -> frozenset[str]:
    """The other services that texts name by `{port:NAME}` or `{host:NAME}`."""
    return frozenset(match[2] for text in texts for match in _PLACE.finditer(text) if match[2] is not None)
