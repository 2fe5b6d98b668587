"""What the page of one campaign shows beside its answer: the pictures of the HTML report over all of its jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from assay.analyse.records import CampaignRecord
from assay.report.html.chart import Picture
from assay.report.html.load import draw_goodput, draw_search
from assay.report.html.pictures import draw_overview
from assay.report.wording import job_labels
from assay.serve.facts.job_page import MOST_SIBLINGS, Panels, panel_of

# A campaign that searches the capacity of more jobs shows each search on the page of its job.
_MOST_SEARCHES = 6


def panels_of_campaign(record: CampaignRecord) -> Panels:
    """The curves over a load, the searches for a rate, and every headline metric over all jobs."""
    done = tuple(job for job in record.jobs if job.state == "done" and job.metrics)
    if not done:
        return Panels((), {"pictures": "no job has been measured yet"})
    if len(done) > MOST_SIBLINGS:
        return Panels((), {"pictures": f"the campaign has more than {MOST_SIBLINGS} jobs, too many for one picture"})
    labels = job_labels(record)
    measured = replace(record, jobs=done)
    overview = draw_overview(measured, labels, {job.job: job.job for job in done})
    curves = [picture for picture in overview if not picture.key.startswith("overview:")]
    side_by_side = [picture for picture in overview if picture.key.startswith("overview:")]
    drawn = [*curves, *draw_goodput(measured), *_searches(measured, labels), *side_by_side]
    why = {} if drawn else {"pictures": "one job has nothing to be compared with: its own page has its pictures"}
    return Panels(tuple(map(panel_of, drawn)), why)


def _searches(record: CampaignRecord, labels: Mapping[str, str]) -> Iterator[Picture]:
    for job in record.jobs[:_MOST_SEARCHES]:
        for picture in draw_search(job):
            yield replace(picture, key=f"{job.index}:{picture.key}", title=f"{labels[job.job]}: {picture.title}")
