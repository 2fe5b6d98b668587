"""The pictures of one job, drawn by the code of the HTML report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.documents import from_json
from assay.plan.digest import content_hash
from assay.report.html.chart import Picture
from assay.report.html.load import draw_curves, draw_goodput, draw_recall
from assay.report.html.pictures import job_pictures
from assay.report.reading import file_reader
from assay.report.served import is_served
from assay.report.wording import job_labels, unmeasured_sentence
from assay.run.probes.job import FILE
from assay.serve.facts.records import Panel, Panels
from assay.serve.state import Kept
from assay.serve.web.reading import job_result, result_tag
from assay.store.listing import JobFilter
from assay.store.records import JobDetail

# A curve over more jobs of one campaign is too crowded to read.
_MOST_SIBLINGS = 200
_LOADS = ("load.rate", "load.concurrency")


def panels_tag(kept: Kept, detail: JobDetail) -> str:
    """A tag that changes whenever the pictures of a job may have: with its result, and with those of its campaign."""
    return f'"{content_hash([detail.summary.id, result_tag(kept, detail.summary.campaign)])[:32]}"'


def panels_of_job(kept: Kept, detail: JobDetail) -> Panels:
    """Every picture that a job has, and why it has no others."""
    result = job_result(kept, detail)
    if result.state != "done":
        return Panels((), {"pictures": unmeasured_sentence(result)})
    own = job_pictures(result, kept.store.samples_of, file_reader(kept.store))
    beside, why = _beside(kept, detail, result)
    drawn = [*own, *beside]
    return Panels(tuple(map(_panel, drawn)), _absent(result, drawn) | why)


def _panel(one: Picture) -> Panel:
    numbers = one.numbers()
    return Panel(one.key, one.group, one.title, one.says, one.svg, numbers.columns, numbers.rows, one.wide)


def _beside(kept: Kept, detail: JobDetail, result: MultiRunJobResult) -> tuple[list[Picture], dict[str, str]]:
    """Pictures in which the job is one point among the jobs of its campaign, and why there are none."""
    if not is_served(result):
        return [], {}
    if not result.point:
        return [], {"load": "the campaign has one load only: a curve needs several, such as a matrix over load.rate"}
    campaign = detail.summary.campaign
    page = kept.listing.results(JobFilter(campaign=campaign, state="done"), limit=_MOST_SIBLINGS)
    if page.next is not None:
        return [], {"load": f"the campaign has more than {_MOST_SIBLINGS} jobs, too many for one curve"}
    jobs = tuple(_read(one.result, one.job.id) for one in page.items)
    alike = tuple(one for one in jobs if _without_load(one.point) == _without_load(result.point))
    record = CampaignRecord(campaign, detail.summary.benchmark, "", "done", alike)
    curves = [one for one in draw_curves(record, job_labels(record), {}) if one.key != "recall"]
    whole = CampaignRecord(campaign, detail.summary.benchmark, "", "done", jobs)
    recall = draw_recall([one for one in jobs if is_served(one)], job_labels(whole), {})
    drawn = [*curves, *draw_goodput(record), *([recall] if recall is not None else [])]
    if drawn:
        return drawn, {}
    return [], {"load": "fewer than two jobs of the campaign that differ in their load alone were measured"}


def _read(document: str, job: str) -> MultiRunJobResult:
    return from_json(MultiRunJobResult, document, source=job)


def _without_load(point: Mapping[str, object]) -> dict[str, object]:
    return {path: value for path, value in point.items() if path not in _LOADS}


def _absent(result: MultiRunJobResult, drawn: Iterable[Picture]) -> dict[str, str]:
    """What a reader may look for and not find."""
    groups = {one.group for one in drawn}
    found: dict[str, str] = {}
    if "telemetry" not in groups:
        found["telemetry"] = _unseen(result)
    if "time" not in groups:
        counted = any(run.samples for run in result.runs)
        found["time"] = (
            "the samples cannot be read any more, or are single numbers"
            if counted
            else "its runs gave one number each: there is no course to draw"
        )
    if "cold" not in groups:
        found["cold"] = "the target reports neither how long it loads nor its first call"
    return found


def _unseen(result: MultiRunJobResult) -> str:
    if any(FILE in run.files for run in result.runs):
        return "the readings that were kept cannot be read any more"
    told = dict.fromkeys(why for run in result.runs if run.seen for why in run.seen.absent.values())
    return "; ".join(told) or "nobody looked from the side while it ran"
