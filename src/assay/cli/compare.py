"""`assay compare`: two results side by side, with three answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import Format, FormatOption, StoreOption, open_store, say, terminal_width

if TYPE_CHECKING:
    from assay.analyse.records import CampaignRecord, Comparison
    from assay.store.store import Store

_SIDE = "Campaign id, its beginning, `latest`, `latest~1`, or a result file written with --format json."


def compare(
    a: Annotated[str, typer.Argument(help=_SIDE)],
    b: Annotated[str, typer.Argument(help=_SIDE)],
    form: FormatOption = Format.text,
    by: Annotated[str, typer.Option("--by", help="Smallest change of interest, such as 2%.")] = "0%",
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare although machine or settings differ: they are the question.")
    ] = False,
    all_metrics: Annotated[bool, typer.Option("--all", help="All metrics, not only the headline ones.")] = False,
    fail_on_worse: Annotated[bool, typer.Option("--fail-on-worse", help="Exit code 1 if anything is worse.")] = False,
    store: StoreOption = None,
) -> None:
    """Compare two results: better, worse, or cannot tell and why."""
    from assay.analyse.compare import compare_jobs, pair_jobs
    from assay.errors import UsageError
    from assay.report.headline import headline_of
    from assay.report.wording import job_labels
    from assay.units import ratio

    kept = open_store(store)
    left, right = _record(a, kept), _record(b, kept)
    kept.close()
    pairs = pair_jobs(left, right)
    if not pairs:
        raise UsageError(f"{left.campaign} and {right.campaign} have no job in common", code="not-comparable",
                         try_="compare campaigns of the same benchmark")  # fmt: skip
    labels = job_labels(left)
    groups: dict[str, list[Comparison]] = {}
    for one, other in pairs:
        wanted = None if all_metrics else set(headline_of(one)) | {"throughput_per_s"}
        found = compare_jobs(one, other, smallest=ratio(by), anyway=anyway)
        groups[labels[one.job]] = [line for line in found if wanted is None or line.metric in wanted]
    say(_json(groups, left, right) if form is Format.json else _text(groups, left, right))
    worse = any(line.answer == "worse" for lines in groups.values() for line in lines)
    raise typer.Exit(1 if fail_on_worse and worse else 0)


def _record(reference: str, store: Store) -> CampaignRecord:
    from assay.analyse.records import CampaignRecord
    from assay.campaign import read_campaign
    from assay.documents import from_json

    path = Path(reference)
    if path.suffix == ".json" and path.is_file():
        return from_json(CampaignRecord, path.read_bytes(), source=reference)
    return read_campaign(store, store.find(reference))


def _text(groups: dict[str, list[Comparison]], left: CampaignRecord, right: CampaignRecord) -> str:
    from assay.report.comparison import render_comparison

    labels = groups if len(groups) > 1 else {"": next(iter(groups.values()))}
    notes = [
        f"a  {left.campaign}  {left.benchmark}  {left.created_at[:19]}",
        f"b  {right.campaign}  {right.benchmark}  {right.created_at[:19]}",
        "change is b against a, from the spread between runs",
    ]
    return render_comparison(labels, a="a", b="b", notes=notes, width=terminal_width())


def _json(groups: dict[str, list[Comparison]], left: CampaignRecord, right: CampaignRecord) -> str:
    from assay.documents import to_plain

    jobs = [{"job": label, "metrics": [to_plain(line) for line in lines]} for label, lines in groups.items()]
    return json.dumps({"schema": "assay.comparison/1", "a": left.campaign, "b": right.campaign, "jobs": jobs}, indent=2)
