"""The results, series and alerts of a store on this machine.

Methods import what they alone need: a command that lists results starts without alerts and statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from getpass import getuser
from typing import TYPE_CHECKING, Any

from assay.api.source import ImportedPoints
from assay.clock import SYSTEM_CLOCK
from assay.report.result import file_reader, read_campaign
from assay.store.listing import Listing, Page, every
from assay.store.references import StoreIndex

if TYPE_CHECKING:
    from assay.alert.digest.records import ResultLink
    from assay.alert.records import AlertRecord, Trigger
    from assay.alert.service import NoticeView, RuleView
    from assay.analyse.records import CampaignRecord, MultiRunJobResult
    from assay.api.source import Scores
    from assay.series.repository import KnownFinding, SeriesStore
    from assay.store.alerts import AlertFilter
    from assay.store.notices import NoticeState
    from assay.store.records import CampaignSummary
    from assay.store.series import Point, SeriesFilter, SeriesRecord
    from assay.store.series_file import FilePoint
    from assay.store.store import Store


class StoreSource(StoreIndex):
    """A store on this machine."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._store = store
        self.samples = store.samples_of
        self.file = file_reader(store)

    @cached_property
    def _series(self) -> SeriesStore:
        from assay.series.repository import SeriesStore

        return SeriesStore(self._store)

    def campaigns(self, limit: int | None = None) -> Iterator[CampaignSummary]:
        listing = Listing(self._store.engine)
        return every(lambda cursor, size: listing.campaigns(cursor=cursor, limit=size, verdicts=True), limit)

    def record(self, campaign: str) -> CampaignRecord:
        return read_campaign(self._store, campaign)

    def samples_file(self, job: str, run: int, digest: str) -> bytes:  # noqa: ARG002  (kept by their digest)
        return self._store.samples.at_hand(digest).read_bytes()

    def artefact(self, digest: str) -> bytes:
        return self._store.artefacts.at_hand(digest).read_bytes()

    def scores(self, jobs: Iterable[MultiRunJobResult]) -> Scores:
        from assay.api.rescore import kept_scores

        return kept_scores(self._store, jobs)

    def score(self, job: MultiRunJobResult, scorers: Sequence[str]) -> None:
        from assay.api.rescore import in_store, keep_scores, rescore, scorers_of

        keep_scores(self._store, rescore(job, in_store(self._store), scorers_of(job, scorers), SYSTEM_CLOCK))

    def series(self, which: SeriesFilter | None = None, limit: int | None = None) -> Iterator[SeriesRecord]:
        from assay.store.series import SeriesFilter

        return every(lambda cursor, size: self._series.page(which or SeriesFilter(), cursor, size), limit)

    def series_record(self, reference: str) -> SeriesRecord:
        return self._series.get(reference)

    def points(self, series: str, newest: int | None = None) -> Sequence[Point]:
        return self._series.points(series, newest)

    def findings(
        self,
        *,
        series: str = "",
        benchmark: str = "",
        state: str = "",
        since: float | None = None,
        limit: int | None = None,
    ) -> Iterator[KnownFinding]:
        def page(cursor: str | None, size: int) -> Page[KnownFinding]:
            return self._series.findings_page(
                series=series, benchmark=benchmark, state=state, since=since, cursor=cursor, limit=size
            )

        return every(page, limit)

    def finding(self, reference: str) -> KnownFinding:
        return self._series.finding(reference)

    def expect(self, finding: str) -> KnownFinding:
        from assay.alert.ingest import expect

        return expect(self._store, finding)

    def import_points(self, by_series: Mapping[str, Sequence[FilePoint]]) -> ImportedPoints:
        from assay.alert.ingest import take

        taken, findings = take(self._store, [point for points in by_series.values() for point in points])
        return ImportedPoints(taken.series, taken.added, taken.known, tuple(finding.id for finding in findings))

    def alerts(self, which: AlertFilter, limit: int | None = None) -> Iterator[AlertRecord]:
        from assay.alert import service

        return every(lambda cursor, size: service.listed(self._store, which, cursor, size), limit)

    def alert(self, reference: str) -> AlertRecord:
        from assay.alert import service

        return service.read(self._store, reference)

    def act(self, alert: str, trigger: Trigger, why: str, for_s: float | None = None) -> AlertRecord:
        from assay.alert import service
        from assay.alert.evaluate import act

        until = None if for_s is None else SYSTEM_CLOCK.utc().timestamp() + for_s
        return service.shown(act(self._store, alert, trigger, by=_user(), why=why, clock=SYSTEM_CLOCK, until=until))

    def rules(self) -> Sequence[RuleView]:
        from assay.alert import service

        return service.rules(self._store)

    def set_rule(self, name: str, benchmark: str, rule: Mapping[str, Any]) -> RuleView:
        from assay.alert import service

        return service.set_rule(self._store, name, benchmark, dict(rule), by=_user(), clock=SYSTEM_CLOCK)[0]

    def remove_rule(self, name: str) -> None:
        from assay.alert import service

        service.remove_rule(self._store, name, SYSTEM_CLOCK)

    def notices(self, alert: str, state: NoticeState | None, limit: int) -> Sequence[NoticeView]:
        from assay.alert import service

        return service.notices(self._store, SYSTEM_CLOCK, alert=alert, only=state, limit=limit)

    def send_again(self, notice: int) -> NoticeView:
        from assay.alert import service

        return service.send_again(self._store, SYSTEM_CLOCK, notice)

    def link(self, job: str, at: float) -> ResultLink:
        from assay.alert.digest.records import ResultLink

        campaign, _, index = job.rpartition("-job-")
        return ResultLink(job, at, command=f"assay results show {campaign} --job {index}")

    def address(self, alert: AlertRecord) -> str:  # noqa: ARG002  (a store has no addresses)
        return ""


def _user() -> str:
    try:
        return getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        return "local"
