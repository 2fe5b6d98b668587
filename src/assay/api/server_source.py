"""The results, series and alerts of a server, through its API.

Methods import what they alone need: a command that lists results starts without alerts and statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from pydantic import JsonValue

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.api.source import ImportedPoints
from assay.documents import adapter, from_json, to_plain
from assay.engines.fleet import find, read_file, read_samples
from assay.place.fleet.client import FleetClient
from assay.store.records import CampaignSummary
from assay.store.references import Revision

if TYPE_CHECKING:
    from assay.alert.digest.records import ResultLink
    from assay.alert.records import AlertRecord, Trigger
    from assay.alert.service import NoticeView, RuleView
    from assay.api.source import Scores
    from assay.run.records import SampleSet
    from assay.series.repository import KnownFinding
    from assay.store.alerts import AlertFilter
    from assay.store.notices import NoticeState
    from assay.store.series import Point, SeriesFilter, SeriesRecord
    from assay.store.series_file import FilePoint

T = TypeVar("T")
_PAGE = 500
_POINTS_AT_ONCE = 2000
# A server checks the series of thousands of points, and judges thousands of answers, before it replies.
_IMPORT_PATIENCE_S = 300.0
_SCORE_PATIENCE_S = 900.0


class ServerSource:
    """A server, through its API."""

    def __init__(self, client: FleetClient) -> None:
        self._client = client

    @property
    def name(self) -> str:
        return self._client.url

    def campaigns(self, limit: int | None = None) -> Iterator[CampaignSummary]:
        return self._list(CampaignSummary, "/campaigns", limit, verdicts="true")

    def find(self, reference: str) -> str:
        return find(self._client, reference)

    def record(self, campaign: str) -> CampaignRecord:
        return from_json(CampaignRecord, self._client.text(f"/campaigns/{campaign}/result"), source=campaign)

    def samples(self, job: str, run: int) -> tuple[SampleSet, ...]:
        return read_samples(self._client, job, run)

    def samples_file(self, job: str, run: int, digest: str) -> bytes:  # noqa: ARG002  (a server asks for the run)
        return self._client.content(f"/jobs/{job}/runs/{run}/samples") or b""

    def file(self, job: str, run: int, name: str) -> bytes | None:
        return read_file(self._client, job, run, name)

    def artefact(self, digest: str) -> bytes:
        return self._client.content(f"/artefacts/{digest}") or b""

    def scores(self, jobs: Iterable[MultiRunJobResult]) -> Scores:
        from assay.analyse.summary import ScoreRecord
        from assay.api.rescore import has_outputs

        judged = [job.job for job in jobs if has_outputs(job)]
        by_job = {job: tuple(self._list(ScoreRecord, f"/jobs/{job}/scores")) for job in judged}
        return {job: scores for job, scores in by_job.items() if scores}

    def score(self, job: MultiRunJobResult, scorers: Sequence[str]) -> None:
        body = {"scorers": list(scorers)}
        self._client.send("POST", f"/jobs/{job.job}/scores", json=body, timeout_s=_SCORE_PATIENCE_S)

    def labels(self, benchmark: str) -> Iterator[tuple[str, Mapping[str, str]]]:
        for campaign in self._list(CampaignSummary, "/campaigns", benchmark=benchmark):
            if campaign.counts.get("done"):
                yield campaign.id, campaign.labels

    def revisions(self, benchmark: str, prefix: str = "") -> Iterator[Revision]:
        for campaign, _ in self.labels(benchmark):
            # A campaign is submitted from one checkout: each of its jobs names the same commit.
            job = next(self._client.pages("/jobs", {"campaign": campaign, "state": "done", "limit": 1}))["id"]
            result = from_json(MultiRunJobResult, self._client.text(f"/jobs/{job}/result"), source=job)
            revision = Revision.of(campaign, result.environment)
            if revision.commit.startswith(prefix):
                yield revision

    def base(self, benchmark: str) -> str:  # noqa: ARG002  (the folders of a server are not here)
        return ""

    def series(self, which: SeriesFilter | None = None, limit: int | None = None) -> Iterator[SeriesRecord]:
        from assay.store.series import SeriesFilter, SeriesRecord

        which = which or SeriesFilter()
        return self._list(
            SeriesRecord, "/series", limit, benchmark=which.benchmark, metric=which.metric, text=which.text
        )

    def series_record(self, reference: str) -> SeriesRecord:
        from assay.store.series import SeriesRecord

        return adapter(SeriesRecord).validate_python(self._client.get(f"/series/{reference}")["series"])

    def points(self, series: str, newest: int | None = None) -> Sequence[Point]:
        from assay.store.series import Point

        points = tuple(self._list(Point, f"/series/{series}/points"))
        return points if newest is None else points[-newest:]

    def findings(
        self,
        *,
        series: str = "",
        benchmark: str = "",
        state: str = "",
        since: float | None = None,
        limit: int | None = None,
    ) -> Iterator[KnownFinding]:
        from assay.series.repository import KnownFinding

        return self._list(
            KnownFinding, "/findings", limit, series=series, benchmark=benchmark, state=state, since=since
        )

    def finding(self, reference: str) -> KnownFinding:
        from assay.series.repository import KnownFinding

        return adapter(KnownFinding).validate_python(self._client.get(f"/findings/{reference}"))

    def expect(self, finding: str) -> KnownFinding:
        from assay.series.repository import KnownFinding

        return adapter(KnownFinding).validate_python(self._client.post(f"/findings/{finding}/expect"))

    def import_points(self, by_series: Mapping[str, Sequence[FilePoint]]) -> ImportedPoints:
        """Send points in portions; those of one series are sent together as far as they fit."""
        points = [to_plain(point) for points_of_one in by_series.values() for point in points_of_one]
        answers = [
            self._client.send(
                "POST",
                "/series/import",
                json={"points": points[begin : begin + _POINTS_AT_ONCE]},
                timeout_s=_IMPORT_PATIENCE_S,
            ).json()
            for begin in range(0, len(points), _POINTS_AT_ONCE)
        ]
        return ImportedPoints(
            tuple(dict.fromkeys(name for answer in answers for name in answer["series"])),
            sum(answer["added"] for answer in answers),
            sum(answer["known"] for answer in answers),
            tuple(dict.fromkeys(name for answer in answers for name in answer["findings"])),
        )

    def alerts(self, which: AlertFilter, limit: int | None = None) -> Iterator[AlertRecord]:
        """Alerts of one state or of all: the API takes no more than one."""
        from assay.alert.records import AlertRecord

        return self._list(
            AlertRecord,
            "/alerts",
            limit,
            state=which.states[0] if which.states else "",
            severity=which.severity,
            benchmark=which.benchmark,
            text=which.text,
            since=which.since,
        )

    def alert(self, reference: str) -> AlertRecord:
        from assay.alert.records import AlertRecord

        return adapter(AlertRecord).validate_python(self._client.get(_alert(reference)))

    def act(self, alert: str, trigger: Trigger, why: str, for_s: float | None = None) -> AlertRecord:
        from assay.alert.records import AlertRecord

        body: dict[str, JsonValue] = {"why": why} if for_s is None else {"why": why, "for_s": for_s}
        return adapter(AlertRecord).validate_python(self._client.post(f"{_alert(alert)}/{trigger}", body))

    def rules(self) -> Sequence[RuleView]:
        from assay.alert.service import RuleView

        return tuple(self._list(RuleView, "/alert-rules"))

    def set_rule(self, name: str, benchmark: str, rule: Mapping[str, Any]) -> RuleView:
        from assay.alert.service import RuleView

        answer = self._client.put(_rule(name), {"benchmark": benchmark, "rule": dict(rule)})
        return adapter(RuleView).validate_python(answer)

    def remove_rule(self, name: str) -> None:
        self._client.delete(_rule(name))

    def notices(self, alert: str, state: NoticeState | None, limit: int) -> Sequence[NoticeView]:
        from assay.alert.service import NoticeView

        return tuple(self._list(NoticeView, "/notices", limit, alert=alert, state=state or ""))

    def send_again(self, notice: int) -> NoticeView:
        from assay.alert.service import NoticeView

        return adapter(NoticeView).validate_python(self._client.post(f"/notices/{notice}/again", {}))

    def link(self, job: str, at: float) -> ResultLink:
        from assay.alert.digest.records import ResultLink

        return ResultLink(job, at, href=f"{self._client.url}/api/v1/jobs/{job}/result")

    def address(self, alert: AlertRecord) -> str:
        return f"{self._client.url}/api/v1/alerts/{alert.id}"

    def _list(self, record: type[T], path: str, limit: int | None = None, **filters: str | float | None) -> Iterator[T]:
        query = {name: value for name, value in filters.items() if value not in ("", None)}
        pages = self._client.pages(path, {**query, "limit": min(limit or _PAGE, _PAGE)})
        return (adapter(record).validate_python(item) for item in islice(pages, limit))


def _alert(alert: str) -> str:
    return f"/alerts/{quote(alert, safe='')}"


def _rule(name: str) -> str:
    return f"/alert-rules/{quote(name, safe='')}"
