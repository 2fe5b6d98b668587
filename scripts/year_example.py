"""Rebuilds examples/year and the pictures of docs/reference/a-year.md: `python -m scripts.year_example [STORE]`.

A year of nightly results is drawn from its settings, played into a new store night by night, and checked there by the
same code that checks results of a real machine. What was found is put beside what is true.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.detection_score import DetectedChange, RecordingObserver, ScoreLine, marks, score

from assay import __version__
from assay.alert.digest import Movement, build, digest_markdown
from assay.alert.digest.html import digest_html, picture_of
from assay.alert.digest.material import DigestInput, ended, movement, read
from assay.alert.evaluate import act
from assay.alert.ingest import expect
from assay.api.store_source import StoreSource
from assay.demo.replay import play
from assay.report.html.series import SeriesPoint, series_svg
from assay.series.repository import SeriesStore
from assay.sim.history import History, SimulatedClock, series_name, truth, year
from assay.sim.history.settings import year_text
from assay.store.alerts import AlertFilter
from assay.store.store import Store

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "year"
PAGE = ROOT / "docs" / "reference" / "a-year.md"
PICTURES = PAGE.with_suffix("")
_MARKED = re.compile(r"(<!-- findings -->\n).*?(<!-- end of findings -->)", re.DOTALL)
_WEEK_S = 7 * 86_400.0
# What somebody called expected after a look at it: the faster kernel for attention; and what somebody works on.
_EXPECTED = (290, "itl_ms")
_ACKNOWLEDGED = "chat service"


def main(kept: Path | None = None) -> None:
    """Make everything.

    Args:
        kept: Where the store is to stay; it is thrown away when left out.
    """
    history = year()
    first = history.start
    if first is None:
        sys.exit("the year has no first night")
    with TemporaryDirectory() as folder:
        store, watch = Store(kept or Path(folder) / "year"), RecordingObserver(first)
        play(history, store, watch, first)
        _deal_with(store, first, first + timedelta(days=history.nights - 1, hours=6))
        lines = score(truth(history), watch.found(store))
        _write(history, lines, store, (first + timedelta(days=history.nights)).timestamp())
        store.close()
    sys.stdout.write(f"{summary(lines)}\n")


def _deal_with(store: Store, first: datetime, now: datetime) -> None:
    """Take one change as meant, as its author would, and acknowledge an alert of the last week."""
    night, metric = _EXPECTED
    for one in SeriesStore(store).findings():
        near = abs((one.first_bad.at - first.timestamp()) / 86_400 + 1 - night) < 4
        if one.series.metric == metric and near and one.state == "open":
            expect(store, one.id, SimulatedClock(now))
    for alert in StoreSource(store).alerts(AlertFilter(since=now.timestamp() - _WEEK_S)):
        if alert.benchmark == _ACKNOWLEDGED and alert.state == "open" and alert.findings:
            act(
                store,
                alert.id,
                "acknowledge",
                by="alice",
                why="the tokenizer is called twice",
                clock=SimulatedClock(now),
            )


def _write(history: History, lines: Sequence[ScoreLine], store: Store, until: float) -> None:
    EXAMPLE.mkdir(parents=True, exist_ok=True)
    PICTURES.mkdir(parents=True, exist_ok=True)
    table = findings_markdown(lines)
    (EXAMPLE / "settings.yaml").write_text(year_text(), encoding="utf-8")
    (EXAMPLE / "truth.json").write_text(truth_json(history), encoding="utf-8")
    (EXAMPLE / "findings.md").write_text(f"# Findings against the truth\n\n{table}", encoding="utf-8")
    week = named_simply(read(StoreSource(store), until - _WEEK_S, until))
    digest = build(week.material, until - _WEEK_S, until, __version__)
    (EXAMPLE / "digest.md").write_text(digest_markdown(digest), encoding="utf-8")
    (EXAMPLE / "digest.html").write_text(digest_html(digest, week.spots, week.past), encoding="utf-8")
    for name, picture in pictures(store, until):
        (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_MARKED.sub(lambda match: f"{match[1]}\n{table}\n{match[2]}", page), encoding="utf-8")


def named_simply(found: DigestInput) -> DigestInput:
    """The same without the folder of this run, which says nothing to a reader."""
    return replace(found, material=replace(found.material, source="a year of simulated nights"))


def truth_json(history: History) -> str:
    """What is true, one change per line."""
    changes = ",\n ".join(json.dumps(asdict(one)) for one in truth(history))
    return f"[{changes}]\n"


def pictures(store: Store, until: float) -> Iterable[tuple[str, str]]:
    """Each series of the year as a picture, by the name of its file."""
    source, known = StoreSource(store), SeriesStore(store)
    for record in known.list():
        points = known.points(record.id)
        job = int((points[0].job or "").rpartition("-job-")[2] or 0)
        found = read_series(source, record.id)
        name = series_name(record.benchmark, job, record.metric)
        spots = [SeriesPoint(one.at, one.value, one.standard_error, one.verdict) for one in points]
        yield (
            name.replace("#", "").replace(" ", "-"),
            series_svg(picture_of(name, record.unit, spots, found, until=until)),
        )


def read_series(source: StoreSource, series: str) -> list[Movement]:
    """The changes of one series, drifts with their end."""
    points = source.points(series)
    return [
        ended(movement(one, source), one, points, 0) for one in source.findings(series=series) if one.state != "gone"
    ]


def summary(lines: Sequence[ScoreLine]) -> str:
    """The list in a few sentences."""
    told = marks(lines)
    waits = sorted(one.waited for one in lines if one.waited is not None and one.outcome == "found")
    wait = f" Half of them were reported after {waits[len(waits) // 2]} nights or less." if waits else ""
    true = told.withdrawn - told.withdrawn_false
    return (
        f"Of {told.true} true changes, {told.found} were found and {told.missed} missed; {told.false} findings are "
        f"false and {told.parts} are further pieces of a drift. Of those found, {told.right_cause} have the right "
        f"cause ({told.right_at_first} had it when they were first reported), and the interval of {told.holds} "
        f"holds the true size. Half of them lie {told.place:.0f} nights or less from the true night, and are off by "
        f"{100 * told.size:.1f} % of the level or less.{wait} In the course of the year {told.withdrawn} more findings "
        f"were reported and later withdrawn: {told.withdrawn_false} of them matched no true change, and {true} a true "
        f"change."
    )


_HEAD = ("series", "night", "true size", "outcome", "off by nights", "found size", "interval holds it",
         "reported after nights", "true cause", "found cause")  # fmt: skip
_WITHDRAWN_HEAD = ("series", "about night", "size", "cause", "reported in night", "withdrawn in night", "true")


def findings_markdown(lines: Sequence[ScoreLine]) -> str:
    """The findings against the truth, as Markdown."""
    standing = [_row(one) for one in lines if one.outcome != "withdrawn"]
    gone = [_withdrawn_row(one) for one in lines if one.outcome == "withdrawn"]
    blocks = [summary(lines), _table(_HEAD, standing)]
    if gone:
        blocks += ["Reported, then withdrawn when more results came in:", _table(_WITHDRAWN_HEAD, gone)]
    return "\n\n".join(blocks) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---" for _ in head], *rows))


def _row(line: ScoreLine) -> tuple[str, ...]:
    true, found = line.truth, line.found
    night = "" if true is None else str(true.night) if true.kind == "step" else f"{true.night} to {true.last}"
    if true is None and found is not None:
        night = f"({found.night})"
    mark = {True: "yes", False: "**no**", None: ""}
    outcome = line.outcome if line.outcome in ("found", "part") else f"**{line.outcome}**"
    off, waited = ("" if one is None else str(one) for one in (line.position_error, line.waited))
    return (
        line.series,
        night,
        "" if true is None else f"{100 * true.size:+.1f} %",
        outcome,
        off,
        "" if found is None else f"{100 * found.size:+.1f} % [{100 * found.low:+.1f}, {100 * found.high:+.1f}]",
        mark[line.holds],
        waited,
        "" if true is None else true.cause,
        "" if found is None else _cause(found, line),
    )


def _cause(found: DetectedChange, line: ScoreLine) -> str:
    """The cause that was found, and the one reported first where that differs."""
    cause = found.cause if line.right_cause in (True, None) else f"**{found.cause}**"
    return f"{cause} (at first {found.first_cause})" if found.first_cause not in ("", found.cause) else cause


def _withdrawn_row(line: ScoreLine) -> tuple[str, ...]:
    found = line.found
    if found is None:
        return ()
    true = "**no**" if line.truth is None else f"yes: night {line.truth.night}, {100 * line.truth.size:+.1f} %"
    reported, gone = ("" if night is None else str(night) for night in (found.reported, found.withdrawn))
    return line.series, str(found.night), f"{100 * found.size:+.1f} %", found.cause, reported, gone, true


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
