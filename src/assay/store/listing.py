"""Lists of campaigns, jobs and results, a page at a time. No page reads samples; only results read documents."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Row, Select, String, Text, func, or_, select, tuple_
from sqlalchemy import cast as sql_cast
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute, Session, defer
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.sql.functions import GenericFunction

from assay.documents import from_json
from assay.errors import UsageError
from assay.plan.job import FINAL, Job
from assay.run.processes import is_alive
from assay.store.database import TableAccess, record_from
from assay.store.records import CampaignSummary, JobDetail, JobSummary, StoredResult
from assay.store.tables import AgentRow, CampaignRow, JobRow

T = TypeVar("T")
R = TypeVar("R")

LARGEST_PAGE = 1000
# How many items are read in one query where all of a list is wanted.
_PORTION = 500
# A benchmark with more than one campaign in this many is a frequent one.
_OFTEN = 100


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list, and where the next part begins."""

    items: tuple[T, ...]
    next: str | None = None
    """Cursor of the next page; None on the last one."""

    def map(self, make: Callable[[T], R]) -> Page[R]:
        """The same page of other things."""
        return Page(tuple(map(make, self.items)), self.next)


def every(page: Callable[[str | None, int], Page[T]], limit: int | None = None) -> Iterator[T]:
    """The items of all pages of a list, or the first few of them; a page is read when it is needed.

    Args:
        page: reads one: cursor and size.
    """

    def items() -> Iterator[T]:
        cursor: str | None = None
        while True:
            read = page(cursor, min(limit or _PORTION, _PORTION))
            yield from read.items
            if (cursor := read.next) is None:
                return

    return islice(items(), limit)


def page_query(
    query: Select[*tuple[Any, ...]],
    order: Sequence[InstrumentedAttribute[Any]],
    cursor: str | None,
    limit: int,
    *,
    newest_first: bool = False,
) -> Select[*tuple[Any, ...]]:
    """A query for one page, and one row more, in the order of some columns that tell rows apart."""
    if cursor:
        last = from_cursor(cursor, *(column.type.python_type for column in order))
        here, there = (order[0], last[0]) if len(order) == 1 else (tuple_(*order), tuple_(*last))
        query = query.where(here < there if newest_first else here > there)
    return query.order_by(*_sorted(order, newest_first)).limit(bounded(limit) + 1)


def _sorted(order: Sequence[InstrumentedAttribute[Any]], newest_first: bool) -> list[Any]:
    return [column.desc() if newest_first else column.asc() for column in order]


def page_of(rows: Sequence[Any], order: Sequence[InstrumentedAttribute[Any]], limit: int) -> Page[Any]:
    """A page of the rows that `page_query` found."""
    shown = tuple(rows[: bounded(limit)])
    more = len(rows) > len(shown)
    return Page(shown, to_cursor(tuple(getattr(shown[-1], column.key) for column in order)) if more else None)


def read_page(
    session: Session,
    query: Select[Any],
    order: Sequence[InstrumentedAttribute[Any]],
    cursor: str | None,
    limit: int,
    *,
    newest_first: bool = False,
) -> Page[Any]:
    """A page of the objects that a query is about."""
    rows = session.scalars(page_query(query, order, cursor, limit, newest_first=newest_first)).all()
    return page_of(rows, order, limit)


def find_by_beginning(session: Session, table: type[Any], reference: str, name: str, unknown: UsageError) -> Any:  # noqa: ANN401
    """The row whose id is, or alone begins with, a reference."""
    begins = table.id.startswith(reference, autoescape=True)
    rows = session.scalars(select(table).where(begins).order_by(table.id).limit(5)).all()
    if not rows or not reference:
        raise unknown
    if len(rows) > 1:
        raise ambiguous(reference, name, [row.id for row in rows])
    return rows[0]


def ambiguous(reference: str, name: str, ids: Sequence[str]) -> UsageError:
    return UsageError(
        f"{reference!r} begins several {name}: {', '.join(ids)}", code="ambiguous", try_="give more of the id"
    )


def bounded(limit: int) -> int:
    """A page size within reason."""
    return max(1, min(limit, LARGEST_PAGE))


def to_cursor(key: tuple[object, ...]) -> str:
    """A sort key as opaque text."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def from_cursor(cursor: str, *kinds: type) -> tuple[object, ...]:
    """Read a sort key back; its parts have the kinds given."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        key = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        key = None
    if not isinstance(key, list) or len(key) != len(kinds) or not all(map(_is_a, key, kinds)):
        raise UsageError("the cursor is not one that this list gave out", code="cursor", try_="begin without a cursor")
    return tuple(key)


def _is_a(part: object, kind: type) -> bool:
    if kind is float:
        return isinstance(part, int | float) and not isinstance(part, bool)
    return isinstance(part, kind) and not isinstance(part, bool)


class json_part(GenericFunction[str]):  # noqa: N801  (a function of SQL)
    """The value of a key of the outermost mapping, as JSON text; null where there is none."""

    inherit_cache = True
    type = Text()


@compiles(json_part, "sqlite")
def _of_sqlite(element: FunctionElement[Any], compiler: SQLCompiler, **how: Any) -> str:  # noqa: ANN401
    document, key = _arguments(element, compiler, how)
    return f"json_extract({document}, '$.' || {key})"


@compiles(json_part, "postgresql")
def _of_postgresql(element: FunctionElement[Any], compiler: SQLCompiler, **how: Any) -> str:  # noqa: ANN401
    document, key = _arguments(element, compiler, how)
    return f"CAST(CAST({document} AS json) -> {key} AS text)"


def _arguments(element: FunctionElement[Any], compiler: SQLCompiler, how: dict[str, Any]) -> tuple[str, str]:
    clauses: list[ColumnElement[Any]] = list(element.clauses)
    document, key = (compiler.process(clause, **how) for clause in clauses)
    return document, key


_SHOWN = (
    JobRow.id, JobRow.campaign_id, CampaignRow.benchmark, JobRow.position, JobRow.label, JobRow.state, JobRow.verdict,
    JobRow.agent_id, AgentRow.name.label("agent_name"), JobRow.fence, JobRow.submitted_at, JobRow.started_at,
    JobRow.ended_at, JobRow.reason, JobRow.progress, JobRow.lost, JobRow.not_before,
    json_part(JobRow.document, "point").label("point"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; what is empty does not count."""

    state: str = ""
    benchmark: str = ""
    """Name of the benchmark."""
    campaign: str = ""
    agent: str = ""
    """Name or id of the agent that holds it or held it last."""
    text: str = ""
    """Part of its label, of its campaign's id or of its benchmark's name; or its id."""
    verdict: str = ""


class Listing(TableAccess):
    def campaigns(
        self,
        *,
        state: str = "",
        benchmark: str = "",
        text: str = "",
        origin: str = "",
        cursor: str | None = None,
        limit: int = 50,
        verdicts: bool = False,
    ) -> Page[CampaignSummary]:
        """Campaigns, the newest first; verdicts are counted only on request, since that reads every job."""
        equal = ((CampaignRow.state, state), (CampaignRow.benchmark, benchmark), (CampaignRow.origin, origin))
        query = select(CampaignRow).options(defer(CampaignRow.document))
        query = query.where(*(column == value for column, value in equal if value))
        if text:
            labels = sql_cast(CampaignRow.labels, String)
            columns = (CampaignRow.id, CampaignRow.benchmark, CampaignRow.submitted_by, labels)
            query = query.where(or_(*(column.icontains(text, autoescape=True) for column in columns)))
        order = (CampaignRow.created_at, CampaignRow.id)
        with self._reading() as session:
            page = read_page(session, query, order, cursor, limit, newest_first=True)
            shown = [row.id for row in page.items]
            counts = count_jobs(session, shown)
            judged = count_verdicts(session, shown) if verdicts else {}
        return page.map(lambda row: campaign_summary(row, counts.get(row.id, {}), judged.get(row.id, {})))

    def campaign(self, campaign: str) -> CampaignSummary:
        with self._reading() as session:
            row = session.get(CampaignRow, campaign, options=[defer(CampaignRow.document)])
            if row is None:
                raise unknown_campaign(campaign)
            return campaign_summary(row, count_jobs(session, [campaign]).get(campaign, {}))

    def campaign_document(self, campaign: str) -> dict[str, Any]:
        document: dict[str, Any] | None = self._scalar(select(CampaignRow.document).where(CampaignRow.id == campaign))
        if document is None:
            raise unknown_campaign(campaign)
        return document

    def jobs(self, which: JobFilter | None = None, *, cursor: str | None = None, limit: int = 50) -> Page[JobSummary]:
        """Jobs: of one campaign in the order of its matrix, else the newest first."""
        with self._reading() as session:
            return _page_of_jobs(session, job_rows(), which or JobFilter(), cursor, limit).map(job_summary)

    def results(
        self, which: JobFilter | None = None, *, cursor: str | None = None, limit: int = 50
    ) -> Page[StoredResult]:
        """Jobs that left a result, with their documents, in the order of `jobs`."""
        query, left_one = job_rows(JobRow.result), JobRow.result.is_not(None)
        with self._reading() as session:
            page = _page_of_jobs(session, query, which or JobFilter(), cursor, limit, left_one)
        return page.map(lambda row: StoredResult(job_summary(row), row.result))

    def counts(self) -> dict[str, dict[str, int]]:
        """How many `jobs`, `agents` and `campaigns` there are in each state."""
        tables = {"jobs": JobRow.state, "agents": AgentRow.state, "campaigns": CampaignRow.state}
        with self._reading() as session:
            return {
                name: dict(session.execute(select(state, func.count()).group_by(state)).all())
                for name, state in tables.items()
            }

    def job(self, job_id: str) -> JobDetail:
        rows = self._rows(job_rows(JobRow.document, JobRow.result).where(JobRow.id == job_id))
        if not rows:
            raise unknown_job(job_id)
        row = rows[0]
        return JobDetail(job_summary(row), from_json(Job, row.document, source=job_id), row.result)


def unknown_job(job_id: str) -> UsageError:
    return UsageError(
        f"no job {job_id!r} in the store", code="unknown-job", try_="`assay jobs list` shows what is there"
    )


def unknown_campaign(campaign: str) -> UsageError:
    return UsageError(
        f"no campaign {campaign!r} in the store",
        code="unknown-campaign",
        try_="`assay campaigns list` shows what is there",
    )


def campaign_summary(
    row: CampaignRow, counts: Mapping[str, int], verdicts: Mapping[str, int] = MappingProxyType({})
) -> CampaignSummary:
    orphaned = row.state == "running" and row.engine == "local" and not has_owner(row)
    return record_from(
        CampaignSummary,
        row,
        state="interrupted" if orphaned else row.state,
        jobs=sum(counts.values()),
        jobs_ended=sum(counts.get(state, 0) for state in FINAL),
        counts=dict(counts),
        verdicts=dict(verdicts),
    )


def has_owner(row: CampaignRow) -> bool:
    """Whether the process that measures a local campaign is alive."""
    return row.owner_pid is not None and row.owner_started is not None and is_alive(row.owner_pid, row.owner_started)


def job_summary(row: Row[Any]) -> JobSummary:
    point = json.loads(row.point) if row.point else {}
    return record_from(JobSummary, row, campaign=row.campaign_id, index=row.position, agent=row.agent_id, point=point)


def count_jobs(session: Session, campaigns: list[str]) -> dict[str, dict[str, int]]:
    return _counted(session, campaigns, JobRow.state)


def count_verdicts(session: Session, campaigns: list[str]) -> dict[str, dict[str, int]]:
    return _counted(session, campaigns, JobRow.verdict, JobRow.state == "done")


def _counted(
    session: Session, campaigns: list[str], kind: InstrumentedAttribute[Any], *which: ColumnElement[bool]
) -> dict[str, dict[str, int]]:
    """How many jobs of each campaign there are of each kind; those of none are left out."""
    counts: dict[str, dict[str, int]] = {}
    query = select(JobRow.campaign_id, kind, func.count()).where(JobRow.campaign_id.in_(campaigns), *which)
    for campaign, word, count in session.execute(query.group_by(JobRow.campaign_id, kind)):
        if word:
            counts.setdefault(campaign, {})[word] = count
    return counts


def _conditions(session: Session, wanted: JobFilter) -> list[ColumnElement[bool]]:
    equal = ((JobRow.state, wanted.state), (JobRow.verdict, wanted.verdict), (JobRow.campaign_id, wanted.campaign))
    conditions: list[ColumnElement[bool]] = [column == value for column, value in equal if value]
    if wanted.benchmark:
        conditions.append(_of_benchmark(session, wanted.benchmark))
    if wanted.agent:
        # Asked first: a choice between a value and a question keeps databases from using an index.
        named = session.scalars(select(AgentRow.id).where(AgentRow.name == wanted.agent)).all()
        conditions.append(JobRow.agent_id.in_([wanted.agent, *named]))
    if wanted.text:
        label, campaign, benchmark = (
            column.icontains(wanted.text, autoescape=True)
            for column in (JobRow.label, CampaignRow.id, CampaignRow.benchmark)
        )
        campaigns = select(CampaignRow.id).where(or_(campaign, benchmark))
        conditions.append(or_(label, JobRow.id == wanted.text, JobRow.campaign_id.in_(campaigns)))
    return conditions


def _of_benchmark(session: Session, benchmark: str) -> ColumnElement[bool]:
    """The jobs of a benchmark, asked for in the way that suits how many it has."""
    its_own = CampaignRow.benchmark == benchmark
    counts = (select(func.count()).where(its_own), select(func.count()).select_from(CampaignRow))
    own, all_ = (session.scalar(count_query) or 0 for count_query in counts)
    # Among the newest jobs of all there soon is a page of a benchmark that has many; where its campaigns were looked up
    # one by one, all its jobs would have to be sorted. What is no plain column is not looked up.
    campaign = JobRow.campaign_id + "" if own * _OFTEN >= all_ else JobRow.campaign_id
    return campaign.in_(select(CampaignRow.id).where(its_own))


def job_rows(*more: InstrumentedAttribute[Any]) -> Select[Any]:
    """A question for jobs as lists show them, and for more of their columns."""
    shown: Select[Any] = select(*_SHOWN, *more)
    return shown.join(CampaignRow, CampaignRow.id == JobRow.campaign_id).outerjoin(
        AgentRow, AgentRow.id == JobRow.agent_id
    )


def _page_of_jobs(
    session: Session, query: Select[Any], wanted: JobFilter, cursor: str | None, limit: int, *more: ColumnElement[bool]
) -> Page[Row[Any]]:
    """One page of jobs: which ones is answered from indexes, and only those are read."""
    order = (JobRow.position,) if wanted.campaign else (JobRow.submitted_at, JobRow.id)
    newest_first = not wanted.campaign
    ids = page_query(
        select(JobRow.id).where(*_conditions(session, wanted), *more), order, cursor, limit, newest_first=newest_first
    )
    rows = session.execute(query.where(JobRow.id.in_(ids)).order_by(*_sorted(order, newest_first))).all()
    return page_of(rows, order, limit)
