"""The material of a digest, read from a server through its public API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.alert.digest.material import DigestInput, began, has_unmeasured, read, unmeasured
from assay.alert.digest.records import ResultLink
from assay.alert.records import AlertRecord
from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.documents import adapter, from_json
from assay.place.fleet.client import FleetClient
from assay.series.collect import KnownFinding, Point, SeriesRecord

_PAGE = 500


def read_server(client: FleetClient, since: float, until: float) -> DigestInput:
    """Read the material of a digest from a server."""
    return read(ServerSource(client), since, until)


class ServerSource:
    """A server, by its API."""

    def __init__(self, client: FleetClient) -> None:
        self._client = client

    @property
    def name(self) -> str:
        return self._client.url

    def series(self) -> Iterator[SeriesRecord]:
        for one in self._client.pages("/series", {"limit": _PAGE}):
            yield adapter(SeriesRecord).validate_python(one)

    def findings(self, *, since: float | None = None, series: str = "") -> Iterator[KnownFinding]:
        """Findings of all series or one, those found since a moment."""
        asked = {"limit": _PAGE, "since": since, "series": series or None}
        for one in self._client.pages("/findings", asked):
            yield adapter(KnownFinding).validate_python(one)

    def points(self, series: str, newest: int | None = None) -> Sequence[Point]:
        """The points of a series, oldest first."""
        found = [
            adapter(Point).validate_python(one)
            for one in self._client.pages(f"/series/{series}/points", {"limit": _PAGE})
        ]
        return found if newest is None else found[-newest:]

    def alerts(self, since: float) -> Iterator[AlertRecord]:
        """Alerts that stand, and those that changed since a moment."""
        seen: set[str] = set()
        for which in ({"state": "active"}, {"since": since}):
            for one in self._client.pages("/alerts", {"limit": _PAGE, **which}):
                if one["id"] not in seen:
                    seen.add(one["id"])
                    yield adapter(AlertRecord).validate_python(one)

    def failed(self, since: float) -> Iterator[tuple[str, MultiRunJobResult]]:
        """Jobs without numbers of campaigns that began since a moment."""
        for one in self._client.pages("/campaigns", {"limit": _PAGE}):
            if began(one["created_at"]) < since:
                return
            if has_unmeasured(one["counts"]):
                text = self._client.text(f"/campaigns/{one['id']}/result")
                record = from_json(CampaignRecord, text, source=one["id"])
                yield from unmeasured(record.benchmark, record.created_at, record.jobs)

    def link(self, job: str, at: float) -> ResultLink:
        """The address of a result."""
        return ResultLink(job, at, href=f"{self._client.url}/api/v1/jobs/{job}/result")

    def address(self, alert: AlertRecord) -> str:
        return f"{self._client.url}/api/v1/alerts/{alert.id}"
