"""What the page of one job shows beside its record: pictures of the HTML report, and the answers that its runs kept."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import JsonValue

from assay.analyse.headline import is_quality, scored_metrics
from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.documents import from_json
from assay.errors import AssayError, StoreError
from assay.plan.job import content_hash
from assay.report.html.chart import Picture
from assay.report.html.load import draw_curves, draw_goodput, draw_recall
from assay.report.html.pictures import job_pictures
from assay.report.result import file_reader
from assay.report.served import is_served
from assay.report.wording import as_number, job_labels, section, unmeasured_sentence
from assay.run.probes import FILE
from assay.run.records import SampleSet, SingleRunResult
from assay.run.scoring.outputs import OUTPUTS
from assay.serve.state import ServerStore
from assay.serve.web.reading import job_result, result_tag
from assay.store.listing import JobFilter, Page, from_cursor, to_cursor
from assay.store.records import JobDetail

# A curve over more jobs of one campaign is too crowded to read.
MOST_SIBLINGS = 200
_LOADS = ("load.rate", "load.concurrency")
# Of one text that much is shown; the file has it whole.
_LONGEST = 20_000
_LONGEST_LINE = 64 * 2**20
# As `write_outputs` writes it: counting answers need not read them.
_ANSWERED = b'"outcome": "ok"'
_SHOWN = frozenset(
    {"item", "session", "turn", "text", "reference", "data", "outcome", "error", "prompt", "ttft_ms", "e2e_ms",
     "input_tokens", "output_tokens"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture of a job or a campaign, as the HTML report draws it, with the numbers in it."""

    key: str
    """Its name among the pictures of the page."""
    group: Literal["latency", "runs", "time", "cold", "telemetry", "load", "llm", "device", "other"]
    """What it is about."""
    title: str
    says: str
    """How to read it."""
    svg: str
    """One `svg` element; its look comes from classes."""
    columns: tuple[str, ...]
    """Heads of its numbers."""
    rows: tuple[tuple[str | float | int | None, ...], ...]
    """Its numbers, as a table."""
    wide: bool = False
    """It wants the whole width of a page."""


@dataclass(frozen=True, slots=True)
class Panels:
    """The pictures of a job or a campaign."""

    items: tuple[Panel, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    """Picture that is missing → why."""


@dataclass(frozen=True, slots=True)
class Output:
    """What came back for one request, as the run kept it."""

    run: int
    sample: int
    """Position among the kept answers of its run."""
    item: str
    """Name of the item inside its task."""
    session: int
    """Requests of one session are the turns of one conversation."""
    turn: int
    prompt: str | None
    """What was asked; null where only the answer was kept."""
    output: str
    expected: str | None
    """What the answer should say, where the task knows."""
    scores: Mapping[str, float]
    """What scorers said of this answer."""
    outcome: str
    """How the request ended; only `ok` has an answer."""
    error: str | None
    """Why there is no answer."""
    ttft_ms: float | None
    e2e_ms: float | None
    input_tokens: int | None
    output_tokens: int | None
    more: Mapping[str, JsonValue] = field(default_factory=dict)
    """Whatever else was kept."""
    cut: bool = False
    """A text is longer than what is shown; the file of the run has it whole."""


def panels_tag(kept: ServerStore, detail: JobDetail) -> str:
    """A tag that changes whenever the pictures of a job may have: with its result, and with those of its campaign."""
    return f'"{content_hash([detail.summary.id, result_tag(kept, detail.summary.campaign)])[:32]}"'


def panels_of_job(kept: ServerStore, detail: JobDetail) -> Panels:
    """Every picture that a job has, and why it has no others."""
    result = job_result(kept, detail)
    if result.state != "done":
        return Panels((), {"pictures": unmeasured_sentence(result)})
    own = job_pictures(result, kept.store.samples_of, file_reader(kept.store))
    beside, why = _beside(kept, detail, result)
    drawn = [*own, *beside]
    return Panels(tuple(map(panel_of, drawn)), _absent(result, drawn) | why)


def panel_of(picture: Picture) -> Panel:
    """A picture as pages draw it."""
    numbers = picture.numbers()
    return Panel(
        picture.key,
        picture.group,
        picture.title,
        picture.caption,
        picture.svg,
        numbers.columns,
        numbers.rows,
        picture.wide,
    )


def _beside(kept: ServerStore, detail: JobDetail, result: MultiRunJobResult) -> tuple[list[Picture], dict[str, str]]:
    """Pictures in which the job is one point among the jobs of its campaign, and why there are none."""
    if not is_served(result):
        return [], {}
    if not result.point:
        return [], {"load": "the campaign has one load only: a curve needs several, such as a matrix over load.rate"}
    campaign = detail.summary.campaign
    page = kept.listing.results(JobFilter(campaign=campaign, state="done"), limit=MOST_SIBLINGS)
    if page.next is not None:
        return [], {"load": f"the campaign has more than {MOST_SIBLINGS} jobs, too many for one curve"}
    jobs = tuple(from_json(MultiRunJobResult, stored.result, source=stored.job.id) for stored in page.items)
    alike = tuple(sibling for sibling in jobs if _without_load(sibling.point) == _without_load(result.point))
    record = CampaignRecord(campaign, detail.summary.benchmark, "", "done", alike)
    curves = [curve for curve in draw_curves(record, job_labels(record), {}) if curve.key != "recall"]
    whole = CampaignRecord(campaign, detail.summary.benchmark, "", "done", jobs)
    recall = draw_recall([sibling for sibling in jobs if is_served(sibling)], job_labels(whole), {})
    drawn = [*curves, *draw_goodput(record), *([recall] if recall is not None else [])]
    if drawn:
        return drawn, {}
    return [], {"load": "fewer than two jobs of the campaign that differ in their load alone were measured"}


def _without_load(point: Mapping[str, object]) -> dict[str, object]:
    return {path: value for path, value in point.items() if path not in _LOADS}


def _absent(result: MultiRunJobResult, drawn: Iterable[Picture]) -> dict[str, str]:
    """What a reader may look for and not find."""
    groups = {chart.group for chart in drawn}
    missing: dict[str, str] = {}
    if "telemetry" not in groups:
        missing["telemetry"] = _unseen(result)
    if "time" not in groups:
        missing["time"] = "its runs gave one number each: there is no course to draw"
        if any(run.samples for run in result.runs):
            missing["time"] = "the samples can no longer be read, or are single numbers"
    if "cold" not in groups:
        missing["cold"] = "the target reports neither how long it loads nor its first call"
    return missing


def _unseen(result: MultiRunJobResult) -> str:
    if any(FILE in run.files for run in result.runs):
        return "the readings that were kept can no longer be read"
    reasons = dict.fromkeys(why for run in result.runs if run.seen for why in run.seen.absent.values())
    return "; ".join(reasons) or "no telemetry was recorded"


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a file of answers."""

    place: int
    answered: int
    """Answers before it."""
    content: bytes


def outputs_page(kept: ServerStore, job: str, cursor: str | None, limit: int) -> Page[Output]:
    """One page of the kept answers of a job; empty where it kept none.

    Raises:
        UsageError: `cursor` if it is not one of this list, `unknown-job` if there is no such job.
        StoreError: if a file of answers cannot be read.
    """
    kept.listing.job(job)
    run_from, place_from = from_cursor(cursor, int, int) if cursor else (-1, 0)
    outputs: list[Output] = []
    for run in kept.store.runs(job):
        digest = run.files.get(OUTPUTS)
        if digest is None or run.run_id < int(str(run_from)):
            continue
        path = kept.store.artefacts.find(digest)
        if path is None:
            continue  # retention has taken it
        first = int(str(place_from)) if run.run_id == run_from else 0
        outputs += _of_run(kept, job, run, path, first, limit + 1 - len(outputs))
        if len(outputs) > limit:
            extra = outputs[limit]
            return Page(tuple(outputs[:limit]), to_cursor((extra.run, extra.sample)))
    return Page(tuple(outputs))


def _of_run(kept: ServerStore, job: str, run: SingleRunResult, path: Path, first: int, most: int) -> Iterator[Output]:
    lines, total, answered = _read_answers(path, first, most)
    samples: tuple[SampleSet, ...] = ()
    if lines:
        with suppress(AssayError):  # answers without their scores are still worth reading
            samples = kept.store.samples_of(job, run.run_id)
    scores = _Scores.of(samples, run, total, answered)
    for line in lines:
        try:
            row = json.loads(line.content)
        except ValueError:
            raise StoreError(f"the kept answers of run {run.run_id} of {job} cannot be read", code="samples") from None
        yield _output(run.run_id, line, row, scores)


def _read_answers(path: Path, first: int, most: int) -> tuple[list[_Line], int, int]:
    """Some lines of a file, how many it has, and how many of them are answers."""
    lines: list[_Line] = []
    total = answered = 0
    try:
        with gzip.open(path, "rb") as file:
            while content := file.readline(_LONGEST_LINE):
                if total >= first and len(lines) < most:
                    lines.append(_Line(total, answered, content))
                total += 1
                answered += _ANSWERED in content
    except (OSError, EOFError, zlib.error) as problem:
        raise StoreError(f"the kept answers cannot be read: {type(problem).__name__}", code="samples") from None
    return lines, total, answered


@dataclass(frozen=True, slots=True)
class _Scores:
    """What scorers said about each answer, as far as it is known which answer each score is of."""

    by_line: Mapping[str, list[float]]
    """Metric → one value for each line."""
    by_answer: Mapping[str, list[float]]
    """Metric → one value for each line that is an answer."""

    @classmethod
    def of(cls, samples: tuple[SampleSet, ...], run: SingleRunResult, total: int, answered: int) -> _Scores:
        """Scores whose number fits; where some answers have none, it is not known which."""
        names = {name for metrics in scored_metrics(run).values() for name in metrics}
        by_metric = {
            sample.metric: sample.value.tolist()
            for sample in samples
            if sample.phase == "measure" and (sample.metric in names or is_quality(sample.metric))
        }
        return cls(
            {name: values for name, values in by_metric.items() if len(values) == total},
            {name: values for name, values in by_metric.items() if len(values) == answered != total},
        )

    def at(self, line: _Line, *, answered: bool) -> dict[str, float]:
        scores = {name: values[line.place] for name, values in self.by_line.items()}
        if answered:
            scores |= {name: values[line.answered] for name, values in self.by_answer.items()}
        return {name: value for name, value in scores.items() if np.isfinite(value)}


def _output(run: int, line: _Line, row: Mapping[str, JsonValue], scores: _Scores) -> Output:
    data = section(row, "data")
    texts = [_text(value) for value in (row.get("prompt") or data.get("prompt"), row.get("text"), row.get("reference"))]
    outcome = str(row.get("outcome") or "ok")
    rest = {name: value for name, value in row.items() if name not in _SHOWN and value is not None}
    if more := {name: value for name, value in data.items() if name != "prompt"}:
        rest["data"] = more
    return Output(
        run=run,
        sample=line.place,
        item=str(row.get("item") or ""),
        session=_whole(row.get("session")) or 0,
        turn=_whole(row.get("turn")) or 0,
        prompt=_cut(texts[0]),
        output=_cut(texts[1]) or "",
        expected=_cut(texts[2]),
        scores=scores.at(line, answered=outcome == "ok"),
        outcome=outcome,
        error=_cut(_text(row.get("error"))),
        ttft_ms=as_number(row.get("ttft_ms")),
        e2e_ms=as_number(row.get("e2e_ms")),
        input_tokens=_whole(row.get("input_tokens")),
        output_tokens=_whole(row.get("output_tokens")),
        more={name: value for name, value in rest.items() if len(json.dumps(value)) <= _LONGEST},
        cut=any(len(text or "") > _LONGEST for text in texts),
    )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _cut(text: str | None) -> str | None:
    # A lone surrogate, which a server may send, has no place in an answer of the server.
    return None if text is None else text[:_LONGEST].encode("utf-8", "replace").decode()


def _whole(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
