"""`assay report`: a campaign, or everything since a moment, as a file for people."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import Format, SourceOptions
from assay.cli.output import rendered, say
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.api.source import Source


class ReportFormat(StrEnum):
    """Formats of a report file."""

    html = "html"
    md = "md"
    csv = "csv"
    json = "json"


def report(
    campaign: Annotated[str | None, typer.Argument(help="Id, its beginning, `latest` or `latest~1`. [latest]")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; `-` prints it.")] = None,
    form: Annotated[ReportFormat, typer.Option("--format", "-f", help="Format of the report.")] = ReportFormat.html,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="A digest of all series instead: since `7d`, `24h` or a date."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="DATE", help="End of the digest; now when left out.")
    ] = None,
    *,
    options: SourceOptions,
) -> None:
    """Write a campaign's report, or with --since a digest of what moved: one self-contained HTML file by default."""
    if since is None:
        if until is not None:
            raise UsageError("--until ends a digest, which --since begins", code="since", try_="give --since too")
        with options.open() as source:
            name, text = _campaign(source, campaign or "latest", form)
    elif campaign is not None:
        raise UsageError(
            f"--since tells of all series, not of the campaign {campaign}", code="since", try_="leave out one of them"
        )
    elif form is ReportFormat.csv:
        raise UsageError("a digest has no CSV form", code="format", try_="use html, md or json")
    else:
        begin, end = window(since, until, datetime.now(UTC))
        with options.open() as source:
            text = _digest(source, begin, end, form)
        name = f"digest-{datetime.fromtimestamp(end, UTC):%Y-%m-%d}"
    if out == Path("-"):
        say(text)
        return
    from assay.store.samples import write_whole

    path = out or Path(f"{name}.{form.value}")
    write_whole(path, text.encode())
    say(str(path.absolute()))


def _campaign(source: Source, reference: str, form: ReportFormat) -> tuple[str, str]:
    """The id and the report of a campaign."""
    record = source.record(source.find(reference))
    if form is not ReportFormat.html:
        return record.campaign, rendered(record, Format(form.value))
    from assay.report.html import render_html

    return record.campaign, render_html(record, source.samples, source.file)


def _digest(source: Source, begin: float, end: float, form: ReportFormat) -> str:
    from assay.alert.digest import build, digest_markdown
    from assay.alert.digest.material import read
    from assay.documents import to_json
    from assay.version import __version__

    found = read(source, begin, end)
    digest = build(found.material, begin, end, __version__)
    if form is ReportFormat.json:
        return to_json(digest, indent=2) + "\n"
    if form is ReportFormat.md:
        return digest_markdown(digest)
    from assay.alert.digest.html import digest_html

    return digest_html(digest, found.spots, found.past)


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
