"""Where results, series and alerts are read and changed: a store on this machine, or a server. Both answer alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from assay.alert.digest.records import ResultLink
    from assay.alert.records import AlertRecord, Trigger
    from assay.alert.service import NoticeView, RuleView
    from assay.analyse.records import CampaignRecord, MultiRunJobResult
    from assay.analyse.summary import ScoreRecord
    from assay.run.records import SampleSet
    from assay.series.repository import KnownFinding
    from assay.store.alerts import AlertFilter
    from assay.store.notices import NoticeState
    from assay.store.records import CampaignSummary
    from assay.store.references import Revision
    from assay.store.series import Point, SeriesFilter, SeriesRecord
    from assay.store.series_file import FilePoint

    Scores = dict[str, tuple[ScoreRecord, ...]]


@dataclass(frozen=True, slots=True)
class ImportedPoints:
    """How many points of a file were added."""

    series: tuple[str, ...]
    added: int
    known: int
    """Points that were there already."""
    findings: tuple[str, ...]
    """Those that are new, or changed."""


class Source(Protocol):
    """A store or a server. Lists come the newest first, all of them unless a limit is given."""

    @property
    def name(self) -> str:
        """The folder of the store, or the URL of the server."""
        ...

    # Results

    def campaigns(self, limit: int | None = None) -> Iterator[CampaignSummary]: ...

    def find(self, reference: str) -> str:
        """The campaign that a reference names: an id, a unique beginning of one, `latest` or `latest~2`."""
        ...

    def record(self, campaign: str) -> CampaignRecord: ...

    def samples(self, job: str, run: int) -> tuple[SampleSet, ...]: ...

    def samples_file(self, job: str, run: int, digest: str) -> bytes:
        """The samples of a run that has some, as Parquet."""
        ...

    def file(self, job: str, run: int, name: str) -> bytes | None:
        """A file that a run left, by its name; None where there is none."""
        ...

    def artefact(self, digest: str) -> bytes: ...

    def scores(self, jobs: Iterable[MultiRunJobResult]) -> Scores:
        """Job → scores that were computed of its answers after its result."""
        ...

    def score(self, job: MultiRunJobResult, scorers: Sequence[str]) -> None:
        """Judge the kept answers of a job again, and keep the scores."""
        ...

    # What references are resolved with, see `assay.store.references.ResultIndex`

    def labels(self, benchmark: str) -> Iterator[tuple[str, Mapping[str, str]]]: ...

    def revisions(self, benchmark: str, prefix: str = "") -> Iterator[Revision]: ...

    def base(self, benchmark: str) -> str: ...

    # Series

    def series(self, which: SeriesFilter | None = None, limit: int | None = None) -> Iterator[SeriesRecord]:
        """Series by benchmark and metric."""
        ...

    def series_record(self, reference: str) -> SeriesRecord: ...

    def points(self, series: str, newest: int | None = None) -> Sequence[Point]:
        """The points of a series, oldest first."""
        ...

    def findings(
        self,
        *,
        series: str = "",
        benchmark: str = "",
        state: str = "",
        since: float | None = None,
        limit: int | None = None,
    ) -> Iterator[KnownFinding]: ...

    def finding(self, reference: str) -> KnownFinding: ...

    def expect(self, finding: str) -> KnownFinding:
        """Take a change as meant: its series is judged from there on."""
        ...

    def import_points(self, by_series: Mapping[str, Sequence[FilePoint]]) -> ImportedPoints: ...

    # Alerts

    def alerts(self, which: AlertFilter, limit: int | None = None) -> Iterator[AlertRecord]:
        """Alerts; the state `active` stands for all that are not over."""
        ...

    def alert(self, reference: str) -> AlertRecord: ...

    def act(self, alert: str, trigger: Trigger, why: str, for_s: float | None = None) -> AlertRecord:
        """Say something about an alert; returns it as it is then."""
        ...

    def rules(self) -> Sequence[RuleView]: ...

    def set_rule(self, name: str, benchmark: str, rule: Mapping[str, Any]) -> RuleView: ...

    def remove_rule(self, name: str) -> None: ...

    def notices(self, alert: str, state: NoticeState | None, limit: int) -> Sequence[NoticeView]: ...

    def send_again(self, notice: int) -> NoticeView:
        """Have a message sent that was given up."""
        ...

    # Links

    def link(self, job: str, at: float) -> ResultLink:
        """The way to a result."""
        ...

    def address(self, alert: AlertRecord) -> str:
        """Where an alert can be looked at; empty where it cannot."""
        ...
