"""Options of verbs that talk to a server, and how their answers are printed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.options import say, terminal_width

if TYPE_CHECKING:
    from assay.place.fleet.client import FleetClient

ServerOption = Annotated[
    str | None, typer.Option("--server", help="URL of the server.", envvar="ASSAY_SERVER", show_default=False)
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option("--token-file", help="File that holds the token; else ASSAY_TOKEN.", envvar="ASSAY_TOKEN_FILE"),
]
CaOption = Annotated[
    Path | None, typer.Option("--ca", help="Certificate of the authority that signed the server's.", envvar="ASSAY_CA")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def connect(
    server: str | None, token_file: Path | None = None, ca: Path | None = None, *, greet: bool = True
) -> FleetClient:
    """A client for the server that the user named, which was asked who it is unless `greet` is off.

    Raises:
        UsageError: if none is named, or the token file cannot be read.
        NotAssayError: if what answers there is no assay server.
    """
    from assay.errors import UsageError
    from assay.place.fleet.client import FleetClient, read_token

    if not server:
        raise UsageError("no server is named", code="no-server", try_="give --server URL, or set ASSAY_SERVER")
    client = FleetClient(server, read_token(token_file), ca=ca)
    if greet:
        client.greet()
    return client


def say_json(answer: object) -> None:
    """Print an answer as JSON."""
    say(json.dumps(answer, indent=2, ensure_ascii=False))


def say_table(names: Sequence[str], rows: Iterable[Sequence[str]], empty: str, flexible: str = "") -> None:
    """Print rows under their names, or a sentence when there are none."""
    from assay.report.grid import Column, lay_out

    found = list(rows)
    if not found:
        say(empty)
        return
    columns = [Column(name, flexible=name == flexible) for name in names]
    say("\n".join(lay_out(columns, found, terminal_width())))


def moment(at: float | None) -> str:
    """A moment as people write it, in UTC; nothing for none."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S") if at else ""


def labels_of(pairs: Sequence[str]) -> dict[str, str]:
    """Read `name=value` pairs.

    Raises:
        UsageError: for one without `=`.
    """
    from assay.errors import UsageError

    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"{pair!r} is no label", code="label", try_="write name=value")
        found[name] = value
    return found


def in_words(labels: Mapping[str, Any]) -> str:
    """Labels on one line."""
    return " ".join(f"{name}={value}" for name, value in labels.items())
