"""The answer of a campaign on its page: sentences at the top, a table of all jobs, and doubts by reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.analyse.records import CampaignRecord
from assay.analyse.text import count
from assay.report.answer import WrittenAnswer, answer_sheet
from assay.report.html.chart import Markup, el, join
from assay.report.html.tables import linked_table, verdict_mark
from assay.report.wording import job_labels

# The severity of a reason, as the verdict that it leads to.
_MARKS: Mapping[str, str] = {"invalid": "invalid", "missed": "missed", "undecided": "cannot tell", "advice": "advice"}


def answer_box(written: WrittenAnswer) -> Markup:
    return el("div", *(el("p", sentence) for sentence in written.sentences), class_="answer-box", id="answer")


def answer_table(written: WrittenAnswer, record: CampaignRecord, anchors: Mapping[str, str]) -> Markup | None:
    """All jobs, the best first: the metric that answers the question, what stands beside it, verdict and reason."""
    drawn = linked_table(answer_sheet(written), record, job_labels(record), anchors)
    return el("div", drawn, class_="ranked") if drawn else None


def doubts(written: WrittenAnswer, record: CampaignRecord) -> Markup | None:
    """The reasons for doubt and for failure, each once over all jobs that it concerns."""
    labels = job_labels(record)
    reasons = [
        _reason(_MARKS.get(doubt.severity, doubt.severity), doubt.title, _jobs(doubt.jobs, labels), doubt.worst,
                doubt.remedy)
        for doubt in written.doubts
    ]  # fmt: skip
    failed = [
        _reason(
            "failed", failure.code, _jobs(failure.jobs, labels), failure.message, failure.remedy, failure.last_lines
        )
        for failure in written.failures
    ]
    if not reasons and not failed:
        return None
    more = f"{count(written.more_doubts, 'more reason')}: see the checks of each job." if written.more_doubts else ""
    return join(
        (
            el("h3", "Reasons for doubt"),
            el("ul", *failed, *reasons, class_="checks"),
            el("p", more, class_="quiet") if more else None,
        )
    )


def _reason(word: str, title: str, jobs: Markup, worst: str, remedy: str, last_lines: Sequence[str] = ()) -> Markup:
    log = el("pre", "\n".join(last_lines)) if last_lines else None
    what = el("div", el("strong", title), " ", jobs, el("br"), worst, log, el("br") if remedy and not log else None,
              el("span", f"→ {remedy}", class_="quiet") if remedy else None)  # fmt: skip
    return el("li", verdict_mark(word), what)


def _jobs(jobs: Sequence[str], labels: Mapping[str, str]) -> Markup:
    named = "; ".join(labels[job] for job in jobs)
    return el("span", f"{len(jobs)} of {count(len(labels), 'job')}", title=named, class_="quiet")
