"""The history behind `assay sim history`: as files, or as the results of a store."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from assay.cli.output import say
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.sim.history import History


def make(out: Path | None, store: Path | None, settings: Path | None, nights: int | None, seed: int | None) -> None:
    """Make a history, and write it where it was asked for."""
    from assay.sim.history import read_history, year

    if out is None and store is None:
        raise UsageError(
            "nowhere to write the history to", code="sim-history", try_="give --out FOLDER or --store FOLDER"
        )
    made = read_history(settings) if settings is not None else year()
    changed = {name: value for name, value in (("nights", nights), ("seed", seed)) if value is not None}
    made = made.model_copy(update=changed)
    # Without a first night of its own, the last one is today's.
    today = datetime.now(UTC)
    if out is not None:
        for path in write_files(made, out, today):
            say(str(path.absolute()))
    if store is not None:
        say(_played(made, store, today))


def write_files(made: History, folder: Path, today: datetime) -> tuple[Path, ...]:
    """The points as CSV for `assay series check` and `import`, and what is true as JSON."""
    from assay.sim.history import truth
    from assay.store.samples import write_whole

    points, true = folder / "points.csv", folder / "truth.json"
    write_whole(points, points_csv(made, today).encode())
    write_whole(true, (json.dumps([asdict(one) for one in truth(made)], indent=1) + "\n").encode())
    return points, true


def points_csv(made: History, today: datetime) -> str:
    """One line per series and night; nothing where nothing was measured."""
    from assay.metrics import describe
    from assay.sim.history import nights, series_name

    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("series", "time", "value", "better"))
    declared = {
        (bench.name, one["name"]): one.get("better") for bench in made.benchmarks for one in _declared(bench.file)
    }
    for results in nights(made, today):
        for one in results:
            for name, values in one.values.items():
                better = declared.get((one.benchmark, name)) or describe(name).better or ""
                writer.writerow(
                    (series_name(one.benchmark, one.job, name), one.at.isoformat(), f"{median(values):.6g}", better)
                )
    return text.getvalue()


def _declared(file: object) -> list[dict[str, str]]:
    """The metrics that a benchmark file declares itself."""
    target = file.get("target") if isinstance(file, dict) else None
    metrics = target.get("metrics") if isinstance(target, dict) else None
    return [one for one in metrics if isinstance(one, dict)] if isinstance(metrics, list) else []


def _played(made: History, folder: Path, today: datetime) -> str:
    from assay.demo.replay import DetectionObserver, play
    from assay.sim.history import first_night
    from assay.store.store import Store

    kept = Store(folder)
    try:
        if kept.campaigns(1):
            raise UsageError(
                f"the store {folder} holds results already",
                code="sim-history",
                try_="name a new folder: simulated results must not stand beside measured ones",
            )
        jobs = play(made, kept, DetectionObserver(first_night(made, today)), today)
    finally:
        kept.close()
    return f"{jobs} jobs of {made.nights} nights in {folder.absolute()}"
