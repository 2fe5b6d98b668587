"""The answer of a campaign, drawn together: table, best point, axes, capacity, baseline, doubts and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from assay.analyse.answer.ranking import THROUGHPUTS, best_of, best_quality_of, column_of, effects_of
from assay.analyse.answer.reasons import MOST_DOUBTS, doubts_of, failures_of, main_reason
from assay.analyse.answer.records import (
    AnswerColumn,
    AnswerFigure,
    AnswerRow,
    BaselineAnswer,
    CampaignAnswer,
    SearchedCapacity,
)
from assay.analyse.compare import compare_pool, judged_together, match_jobs, pool
from assay.analyse.headline import centre_of, headline_of_result, is_quality, scores_of_result
from assay.analyse.records import CampaignRecord, MultiRunJobResult, section

_LATENCIES = ("latency_ms", "e2e_ms", "ttft_ms")
_CAPACITY = "capacity_per_s"


def answer_of(record: CampaignRecord, baseline: CampaignRecord | None = None) -> CampaignAnswer:
    """Draw the answer from the results of a campaign.

    Args:
        baseline: an earlier campaign to hold this one against.
    """
    usable = [job for job in record.jobs if job.state == "done" and job.verdict != "invalid"]
    measured = [job for job in record.jobs if job.state == "done" and job.metrics]
    columns = _columns(usable or measured)
    metric = columns[0].metric if columns else ""
    doubts = doubts_of(record.jobs)
    return CampaignAnswer(
        columns=columns,
        rows=_rows(record.jobs, columns),
        best=best_of(usable, columns),
        quality=best_quality_of(usable, columns),
        effects=effects_of(usable, columns),
        capacities=tuple(_capacity(job) for job in record.jobs if _searches(job) and job.state == "done"),
        baseline=_against(record, baseline, metric) if baseline is not None and metric else None,
        doubts=tuple(doubts[:MOST_DOUBTS]),
        more_doubts=max(len(doubts) - MOST_DOUBTS, 0),
        failures=failures_of(record.jobs),
        verdicts=Counter(_word(job) for job in record.jobs),
    )


def _word(job: MultiRunJobResult) -> str:
    return job.state if job.state != "done" else job.verdict or "not judged"


def _columns(jobs: Sequence[MultiRunJobResult]) -> tuple[AnswerColumn, ...]:
    """The metric that most jobs are about, what stands beside it (throughput beside latency), quality, the rest."""
    headlines = [names for job in jobs if (names := headline_of_result(job))]
    if not headlines:
        return ()
    firsts = Counter(names[0] for names in headlines)
    primary = _CAPACITY if firsts[_CAPACITY] else max(firsts, key=lambda name: firsts[name])
    beside = _LATENCIES if primary in THROUGHPUTS else THROUGHPUTS if primary in _LATENCIES else ()
    given = dict.fromkeys(name for job in jobs for name in job.metrics)
    companion = [name for name in beside if name in given][:1]
    scores = dict.fromkeys(name for job in jobs for name in scores_of_result(job))
    others = dict.fromkeys(name for names in headlines for name in names)
    shown = dict.fromkeys([primary, *companion, *scores, *others])
    return tuple(column_of(name, jobs, is_score=name in scores) for name in shown)


def _rows(jobs: Sequence[MultiRunJobResult], columns: Sequence[AnswerColumn]) -> tuple[AnswerRow, ...]:
    rows = [
        AnswerRow(
            job.job,
            job.index,
            _word(job),
            tuple(_figure(job, column.metric) for column in columns),
            (reason.severity, reason.check.name) if (reason := main_reason(job)) else None,
        )
        for job in jobs
    ]
    better = columns[0].better if columns else None

    def place(row: AnswerRow) -> tuple[bool, float, int]:
        figure = row.figures[0] if row.figures else None
        sign = {"lower": 1.0, "higher": -1.0, None: 0.0}[better]
        return figure is None, sign * figure.value if figure else 0.0, row.index

    return tuple(sorted(rows, key=place))


def _figure(job: MultiRunJobResult, metric: str) -> AnswerFigure | None:
    stats = job.metrics.get(metric) if job.state == "done" else None
    if stats is None:
        return None
    if not is_quality(metric) and metric in scores_of_result(job):  # of another's scorer: a mean over answers as well
        return AnswerFigure(stats.mean, stats.mean_interval)
    return AnswerFigure(centre_of(stats, metric), stats.interval)


def _searches(job: MultiRunJobResult) -> bool:
    return section(job.definition, "load").get("rate") == "search"


def _capacity(job: MultiRunJobResult) -> SearchedCapacity:
    figure = _figure(job, _CAPACITY)
    absent = (run.absent[_CAPACITY] for run in job.runs if _CAPACITY in run.absent)
    return SearchedCapacity(job.job, figure, "" if figure else next(absent, "no search found a rate"))


def _against(record: CampaignRecord, baseline: CampaignRecord, metric: str) -> BaselineAnswer:
    """Count how the jobs moved against those of an earlier campaign."""
    answers: Counter[str] = Counter()
    difference = ""
    alike = []
    for match in match_jobs((baseline,), (record,)).pairs:
        chosen = pool(match)
        if chosen.refused:
            answers["not alike"] += 1
            difference = difference or chosen.refused[0]
        else:
            found = compare_pool(chosen)
            alike.append(replace(found, lines=tuple(line for line in found.lines if line.metric == metric)))
    for judged in judged_together(alike, [(metric,)] * len(alike)):
        answers.update(line.answer for line in judged.lines)
    return BaselineAnswer(
        baseline.campaign, answers["better"], answers["worse"], answers["cannot tell"], answers["not alike"], difference
    )
