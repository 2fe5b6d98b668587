"""The digest behind `assay report --since`: read, built, and written in the form that was asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli.options import open_store
from assay.cli.output import say
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.alert.digest.material import DigestInput


def digest(
    since: str,
    until: str | None,
    out: Path | None,
    form: str,
    *,
    store: Path | None = None,
    server: str | None = None,
    token_file: Path | None = None,
    ca: Path | None = None,
) -> None:
    """Write the digest of a time."""
    from assay.store.samples import write_whole

    if form == "csv":
        raise UsageError("a digest has no CSV form", code="format", try_="use html, md or json")
    begin, end = window(since, until, datetime.now(UTC))
    found = _of_server(server, token_file, ca, begin, end) if server else _of_store(store, begin, end)
    text = written(found, form, begin, end)
    if out == Path("-"):
        say(text)
        return
    path = out or Path(f"digest-{datetime.fromtimestamp(end, UTC):%Y-%m-%d}.{form}")
    write_whole(path, text.encode())
    say(str(path.absolute()))


def window(since: str, until: str | None, now: datetime) -> tuple[float, float]:
    """The time that a digest speaks of, in seconds since 1970.

    Args:
        since: A duration such as `7d`, or a date.
        until: A date, or the present.
        now: The present.

    Raises:
        UsageError: if one of them cannot be read, or the end does not lie after the begin.
    """
    from assay.units import seconds

    end = now.timestamp() if until is None else _moment(until, "--until")
    try:
        begin = end - seconds(since)
    except ValueError:
        begin = _moment(since, "--since")
    if begin >= end:
        raise UsageError(
            f"--since {since} does not lie before the end of the digest",
            code="since",
            try_="give a duration such as 7d, or an earlier date",
        )
    return begin, end


def _moment(text: str, option: str) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} is {text!r}, which is neither a duration nor a date",
            code="since",
            try_="write for example 7d, 24h, 2026-01-31 or 2026-01-31T06:00",
        ) from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _of_store(store: Path | None, begin: float, end: float) -> DigestInput:
    from assay.alert.digest.material import read_store

    kept = open_store(store)
    try:
        return read_store(kept, begin, end)
    finally:
        kept.close()


def _of_server(server: str, token_file: Path | None, ca: Path | None, begin: float, end: float) -> DigestInput:
    from assay.api.server_digest import read_server

    return read_server(server.connect(), begin, end)


def written(found: DigestInput, form: str, begin: float, end: float) -> str:
    """A digest as text: html, md or json."""
    from assay.alert.digest import build, digest_markdown
    from assay.documents import to_json
    from assay.version import __version__

    made = build(found.material, begin, end, __version__)
    if form == "json":
        return to_json(made, indent=2) + "\n"
    if form == "md":
        return digest_markdown(made)
    from assay.alert.digest.html import digest_html

    return digest_html(made, found.spots, found.past)
