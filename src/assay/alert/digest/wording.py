"""A digest in words: the sentences and tables that every form shares, and all of it as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from assay.alert.digest.build import named_in_title, short
from assay.alert.digest.records import Digest, Movement, MovementGroup, ResultLink, SeriesLabel
from assay.analyse.text import count
from assay.report.markdown import code, escape, sheet_markdown
from assay.report.numbers import NOTHING, decimals_for, name_with_unit, show, show_percent
from assay.report.sheet import Sheet

CAUSES = {
    "code": "the code changed",
    "data or model": "the data or the model changed",
    "environment": "the environment changed",
    "machine": "the machine changed, not what runs on it",
    "method": "it is measured in another way",
    "noise": "noise",
    "unknown": "nothing that was recorded explains it",
}
_READING = """\
A change is reported for a whole series, not for its newest result: change points of a series' own history, on its \
own spread. In at most one of a hundred series without a change something is found.
Its interval holds the true size in 95 of 100 cases. The probability that a change is real is the most that the \
evidence allows, from even odds.
The cause is read from what differs between the last good result and the first bad one, and from the control \
workload. Where nothing differs it stays unknown.
The smallest visible change is the step that a week of further results would show in four of five such series. \
Smaller changes may exist but stay undetected."""
READING = tuple(_READING.split("\n"))


def day(at: float) -> str:
    """A moment as a date, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def minute(at: float) -> str:
    """A moment with its time, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def duration(seconds: float) -> str:
    """A time in the words of a calendar: `7 days`, `24 hours`."""
    if seconds >= 2 * 86_400:
        return count(round(seconds / 86_400), "day")
    return count(round(seconds / 3600), "hour")


def title(digest: Digest) -> str:
    return f"What moved from {day(digest.since)} to {day(digest.until)}"


def summary(digest: Digest) -> str:
    """The digest in one or two sentences, also when nothing happened."""
    over = f"in these {duration(digest.until - digest.since)}"
    if not digest.series:
        return "There is no series yet: results of the same job on the same kind of machine become one."
    all_series = f"{digest.series:,} series"
    if not digest.fresh:
        last = f"; the newest result came on {day(digest.last_at)}" if digest.last_at is not None else ""
        results = f"No series got a result {over}, of {all_series} that are known{last}."
    else:
        results = f"{digest.fresh} of {all_series} got results {over}."
    moves = "Nothing moved, nothing failed and nothing fell silent." if digest.is_empty else _moves(digest)
    return " ".join(part for part in (results, moves, _others(digest)) if part)


def _moves(digest: Digest) -> str:
    if not digest.groups:
        return "Nothing moved."
    new = sum(bool(movement.unconfirmed) for movement in digest.movements)
    counts = {
        word: sum(movement.answer == word for movement in digest.movements)
        for word in ("worse", "better", "cannot tell")
    }
    counts["cannot tell"] -= new
    parts = [f"{counts['worse']} worse", f"{counts['better']} better"] if counts["worse"] or counts["better"] else []
    parts += [f"{new} new and unconfirmed"] if new else []
    parts += [f"{counts['cannot tell']} undecided"] if counts["cannot tell"] else []
    return f"{count(len(digest.movements), 'change')}: {', '.join(parts)}."


def _others(digest: Digest) -> str:
    jobs = sum(job.times for job in digest.failed)
    phrases = [
        count(jobs, "failed job") if jobs else "",
        f"{len(digest.noisy):,} noisy series" if digest.noisy else "",
        count(len(digest.silent), "silent job") if digest.silent else "",
        count(len(digest.alerts), "other open alert") if digest.alerts else "",
    ]
    there = [phrase for phrase in phrases if phrase]
    return f"Beside that: {', '.join(there)}." if there else ""


def group_title(group: MovementGroup) -> str:
    """The headline of a group: its cause, and what differs."""
    return f"{group.cause}: {group.title}"


def series_title(series: SeriesLabel) -> str:
    """Metric with its unit, benchmark and place in the matrix."""
    named = name_with_unit(series.metric, series.unit)
    return " · ".join(part for part in (named, series.benchmark, series.point) if part)


def change_text(change: Movement) -> str:
    """The size of a change; its difference where the level before was zero."""
    if change.change is None:
        return f"{show(change.after - change.before)} {change.series.unit}".strip()
    return show_percent(change.change, signed=True)


def interval_text(change: Movement) -> str:
    if change.low is None or change.high is None:
        return NOTHING
    return f"[{100 * change.low:+.1f}, {100 * change.high:+.1f}] %"


def levels_text(change: Movement) -> str:
    """The levels before and after, with as many digits as the interval allows."""
    half = (
        abs(change.before) * (change.high - change.low) / 2
        if change.low is not None and change.high is not None
        else None
    )
    places = decimals_for(change.before, half)
    return f"{show(change.before, places)} → {show(change.after, places)} {change.series.unit}".rstrip()


def since_text(change: Movement) -> str:
    return f"{day(change.at)} to {day(change.end_at)} (drift)" if change.kind == "drift" else day(change.at)


def probability_text(change: Movement) -> str:
    """The probability that it is real, which is at most this."""
    if change.probability >= 0.9995:
        return "> 99.9 %"
    return f"≤ {100 * change.probability:.1f} %"


@dataclass(frozen=True, slots=True)
class DigestSection:
    """One part of a digest: a table, or a sentence where it has no rows."""

    anchor: str
    sheet: Sheet
    nothing: str


def movement_sheet(group: MovementGroup) -> Sheet:
    head = ("series", "answer", "change", "95 % interval", "before → after", "since", "probability", "state")
    rows = tuple(
        (
            series_title(movement.series),
            movement.unconfirmed or movement.answer,
            change_text(movement),
            interval_text(movement),
            levels_text(movement),
            since_text(movement),
            probability_text(movement),
            movement.state,
        )
        for movement in group.movements
    )
    return Sheet(group_title(group), head, rows, words=frozenset({0, 1, 5, 7}))


def sections(digest: Digest) -> tuple[DigestSection, ...]:
    """Everything but the changes; other open alerts only where there are some."""
    all_sections = (
        DigestSection("failed", _failed_sheet(digest), "No job failed."),
        DigestSection("noisy", _noisy_sheet(digest), "No series hides a change of 5 % or more."),
        DigestSection("handled", _handled_sheet(digest), "Nothing."),
        DigestSection("silent", _silent_sheet(digest), "Every job that used to give results gave some."),
        DigestSection("alerts", _open_sheet(digest), ""),
    )
    return all_sections if digest.alerts else all_sections[:-1]


def _failed_sheet(digest: Digest) -> Sheet:
    rows = tuple(
        (
            " · ".join(part for part in (job.benchmark, job.label) if part),
            str(job.times),
            minute(job.last_at) if job.times == 1 else f"{day(job.first_at)} to {day(job.last_at)}",
            job.why,
        )
        for job in digest.failed
    )
    return Sheet("What failed", ("job", "times", "when", "why"), rows, words=frozenset({0, 2, 3}))


def _noisy_sheet(digest: Digest) -> Sheet:
    head = ("series", "spread", "smallest visible change", "why")
    rows = tuple(
        (
            series_title(series.series),
            show_percent(series.spread),
            show_percent(series.smallest),
            "; ".join(series.because),
        )
        for series in digest.noisy
    )
    return Sheet("What is noisy", head, rows, words=frozenset({0, 3}))


def _handled_sheet(digest: Digest) -> Sheet:
    rows = [
        (
            alert.title,
            f"snoozed until {minute(alert.until)}" if alert.state == "snoozed" and alert.until else alert.state,
            alert.by or NOTHING,
            minute(alert.changed_at),
            alert.why or NOTHING,
        )
        for alert in digest.handled
    ]
    rows += [
        (series_title(movement.series), "expected", NOTHING, minute(movement.found_at), f"finding {movement.id}")
        for movement in digest.expected
    ]
    return _words_sheet(
        "What was acknowledged, expected or resolved", ("what", "state", "by", "when", "why"), tuple(rows)
    )


def _silent_sheet(digest: Digest) -> Sheet:
    rows = tuple(
        (
            " · ".join(part for part in (job.series.benchmark, job.series.point, job.series.machine) if part),
            ", ".join(job.metrics),
            minute(job.last_at),
            duration(digest.until - job.last_at),
            duration(job.usual_s),
        )
        for job in digest.silent
    )
    more = (f"{digest.long_silent} more series got their last result long before.",) if digest.long_silent else ()
    return _words_sheet("What is silent", ("job", "metrics", "last result", "silent for", "usual pause"), rows, more)


def _open_sheet(digest: Digest) -> Sheet:
    rows = tuple((alert.title, alert.severity, minute(alert.opened_at)) for alert in digest.alerts)
    return _words_sheet("Other open alerts", ("what", "severity", "open since"), rows)


def _words_sheet(
    name: str, head: tuple[str, ...], rows: tuple[tuple[str, ...], ...], notes: tuple[str, ...] = ()
) -> Sheet:
    return Sheet(name, head, rows, notes, frozenset(range(len(head))))


# Of what differs in a change; the rest is counted.
_MOST_DIFFERENCES = 8


def digest_markdown(digest: Digest) -> str:
    blocks = (
        [f"# {title(digest)}"],
        [escape(summary(digest))],
        [f"{minute(digest.since)} to {minute(digest.until)} UTC, from {code(digest.source)}."],
        ["## What moved"],
        *([block for group in digest.groups for block in _group(group)] or [["Nothing."]]),
        *(block for section in sections(digest) for block in _section(section)),
        ["## How to read this", "", *(f"- {sentence}" for sentence in READING)],
        [f"Made by assay{f' {escape(digest.assay_version)}' if digest.assay_version else ''}."],
    )
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _section(section: DigestSection) -> list[list[str]]:
    sheet = section.sheet
    content = [sheet_markdown(sheet)] if sheet.rows else [[section.nothing], *([note] for note in sheet.notes)]
    return [[f"## {sheet.title}"], *content]


def _group(group: MovementGroup) -> list[list[str]]:
    """One cause: what differs, which series it moved, and where to look."""
    why = [escape(reason) for reason in group.why] or [escape(CAUSES.get(group.cause, group.cause))]
    return [
        [f"### {escape(group_title(group))}"],
        ["; ".join(why) + "."],
        sheet_markdown(movement_sheet(group)),
        [f"- {line}" for movement in group.movements for line in _details(movement, group)],
    ]


def _details(change: Movement, group: MovementGroup) -> list[str]:
    named = f"**{escape(series_title(change.series))}**"
    word = change.unconfirmed or "cannot tell"
    doubts = [f"{named}: {word}, because {escape('; '.join(change.because))}"] if change.because else []
    named_here = () if named_in_title(change, group) else change.differs
    shown = [
        f"{escape(difference.name)} {code(short(difference.before))} → {code(short(difference.after))}"
        for difference in named_here[:_MOST_DIFFERENCES]
    ]
    more = len(named_here) - _MOST_DIFFERENCES
    shown += [f"{more} more"] if more > 0 else []
    differs = [f"{named}: differs: {', '.join(shown)}"] if shown else []
    links = [f"{word} {_link(link)}" for word, link in (("last good", change.good), ("first bad", change.bad)) if link]
    ways = f"{named}: {', '.join([*links, code(f'assay explain {change.id}')])}"
    return [*doubts, *differs, ways]


def _link(link: ResultLink) -> str:
    if link.href.startswith(("http://", "https://")):
        return f"[{escape(link.job)}]({link.href.replace(')', '%29').replace(' ', '%20')})"
    return code(link.command or link.job)
