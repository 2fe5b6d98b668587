"""Lists of campaigns, jobs and results, a page at a time. No page reads samples; only results read documents."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from sqlalchemy import ColumnElement, Engine, Row, Select, String, Text, func, or_, select, tuple_
from sqlalchemy import cast as sql_cast
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute, Session, defer
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.sql.functions import GenericFunction

from assay.documents import from_json
from assay.errors import UsageError
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL, State
from assay.run.processes import is_alive
from assay.store.database import reading
from assay.store.fleet.transactions import unknown_campaign, unknown_job
from assay.store.records import CampaignSummary, JobDetail, JobSummary, StoredResult
from assay.store.tables import AgentRow, CampaignRow, JobRow

T = TypeVar("T")
R = TypeVar("R")

LARGEST_PAGE = 1000
# A benchmark of which one campaign in so many is has many.
_OFTEN = 100


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list, and where the next part begins."""

    items: tuple[T, ...]
    next: str | None = None
    """Cursor of the next page; None on the last one."""


def page_of(rows: Sequence[R], limit: int, key: Callable[[R], tuple[object, ...]], make: Callable[[R], T]) -> Page[T]:
    """Make a page of rows that were asked for with one more than fits."""
    more = len(rows) > limit
    shown = rows[:limit]
    return Page(tuple(make(row) for row in shown), to_cursor(key(shown[-1])) if more else None)


def bounded(limit: int) -> int:
    """A page size within reason."""
    return max(1, min(limit, LARGEST_PAGE))


def to_cursor(key: tuple[object, ...]) -> str:
    """Write a sort key as text that nobody needs to understand."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def from_cursor(cursor: str, *kinds: type) -> tuple[object, ...]:
    """Read a sort key back; its parts have the kinds given.

    Raises:
        UsageError: if it is no cursor of this list.
    """
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
    document, key = (compiler.process(one, **how) for one in clauses)
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


class Listing:
    """Reading the store in lists."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def campaigns(
        self,
        *,
        state: str = "",
        benchmark: str = "",
        text: str = "",
        origin: str = "",
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[CampaignSummary]:
        """Campaigns, the newest first.

        Args:
            text: part of the id, the benchmark's name, who submitted it, or a label.

        Raises:
            UsageError: `cursor` if it is not one of this list.
        """
        query = select(CampaignRow).options(defer(CampaignRow.document))
        query = query.where(*_campaigns_like(state, benchmark, text, origin))
        if cursor:
            before = tuple_(*from_cursor(cursor, str, str))
            query = query.where(tuple_(CampaignRow.created_at, CampaignRow.id) < before)
        query = query.order_by(CampaignRow.created_at.desc(), CampaignRow.id.desc()).limit(bounded(limit) + 1)
        with reading(self._engine) as session:
            rows = session.scalars(query).all()
            counts = count_jobs(session, [row.id for row in rows])
        return page_of(
            rows,
            bounded(limit),
            lambda row: (row.created_at, row.id),
            lambda row: campaign_summary(row, counts.get(row.id, {})),
        )

    def campaign(self, campaign: str) -> CampaignSummary:
        """One campaign.

        Raises:
            UsageError: `unknown-campaign` if there is none.
        """
        with reading(self._engine) as session:
            row = session.get(CampaignRow, campaign, options=[defer(CampaignRow.document)])
            if row is None:
                raise unknown_campaign(campaign)
            return campaign_summary(row, count_jobs(session, [campaign]).get(campaign, {}))

    def campaign_document(self, campaign: str) -> dict[str, Any]:
        """The benchmark file of a campaign, as it was read."""
        with reading(self._engine) as session:
            row = session.get(CampaignRow, campaign)
            if row is None:
                raise unknown_campaign(campaign)
            return row.document

    def jobs(self, which: JobFilter | None = None, *, cursor: str | None = None, limit: int = 50) -> Page[JobSummary]:
        """Jobs: of one campaign in the order of its matrix, else the newest first.

        Raises:
            UsageError: `cursor` if it is not one of this list.
        """
        wanted = which or JobFilter()
        with reading(self._engine) as session:
            rows = _page(session, job_rows(), wanted, cursor, bounded(limit))
        return page_of(rows, bounded(limit), _key(wanted), job_summary)

    def results(
        self, which: JobFilter | None = None, *, cursor: str | None = None, limit: int = 50
    ) -> Page[StoredResult]:
        """Jobs that left a result, with their documents, in the order of `jobs`.

        Raises:
            UsageError: `cursor` if it is not one of this list.
        """
        wanted = which or JobFilter()
        left_one = JobRow.result.is_not(None)
        with reading(self._engine) as session:
            rows = _page(session, job_rows(JobRow.result), wanted, cursor, bounded(limit), left_one)
        return page_of(rows, bounded(limit), _key(wanted), lambda row: StoredResult(job_summary(row), row.result))

    def counts(self) -> dict[str, dict[str, int]]:
        """How many `jobs`, `agents` and `campaigns` there are in each state."""
        tables = {"jobs": JobRow.state, "agents": AgentRow.state, "campaigns": CampaignRow.state}
        with reading(self._engine) as session:
            return {
                name: dict(session.execute(select(state, func.count()).group_by(state)).all())
                for name, state in tables.items()
            }

    def job(self, job_id: str) -> JobDetail:
        """One job with its documents.

        Raises:
            UsageError: `unknown-job` if there is none.
        """
        query = job_rows(JobRow.document, JobRow.result).where(JobRow.id == job_id)
        with reading(self._engine) as session:
            row = session.execute(query).one_or_none()
        if row is None:
            raise unknown_job(job_id)
        return JobDetail(job_summary(row), from_json(Job, row.document, source=job_id), row.result)


def campaign_summary(row: CampaignRow, counts: Mapping[str, int]) -> CampaignSummary:
    """A campaign's row as a line of a list."""
    state = row.state
    if state == "running" and row.engine == "local" and not has_owner(row):
        state = "interrupted"
    return CampaignSummary(
        id=row.id,
        benchmark=row.benchmark,
        state=state,
        created_at=row.created_at,
        completed_at=row.completed_at,
        jobs=sum(counts.values()),
        jobs_ended=sum(counts.get(one, 0) for one in FINAL),
        labels=row.labels,
        counts=dict(counts),
        engine=row.engine,
        priority=row.priority,
        submitted_by=row.submitted_by,
        deadline=row.deadline,
        unplaceable=row.unplaceable,
        spread=row.spread,
        origin=row.origin,
        version=row.version,
    )


def has_owner(row: CampaignRow) -> bool:
    """Whether the process that measures a local campaign is alive."""
    return row.owner_pid is not None and row.owner_started is not None and is_alive(row.owner_pid, row.owner_started)


def job_summary(row: Row[Any]) -> JobSummary:
    """A job's row as a line of a list."""
    return JobSummary(
        id=row.id,
        campaign=row.campaign_id,
        benchmark=row.benchmark,
        index=row.position,
        label=row.label,
        state=cast("State", row.state),
        verdict=row.verdict,
        agent=row.agent_id,
        agent_name=row.agent_name,
        fence=row.fence,
        submitted_at=row.submitted_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        reason=row.reason,
        progress=row.progress,
        lost=row.lost,
        not_before=row.not_before,
        point=json.loads(row.point) if row.point else {},
    )


def count_jobs(session: Session, campaigns: list[str]) -> dict[str, dict[str, int]]:
    """How many jobs of each campaign are in which state."""
    found: dict[str, dict[str, int]] = {}
    query = select(JobRow.campaign_id, JobRow.state, func.count()).where(JobRow.campaign_id.in_(campaigns))
    for campaign, state, count in session.execute(query.group_by(JobRow.campaign_id, JobRow.state)):
        found.setdefault(campaign, {})[state] = count
    return found


def _campaigns_like(state: str, benchmark: str, text: str, origin: str) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if state:
        found.append(CampaignRow.state == state)
    if benchmark:
        found.append(CampaignRow.benchmark == benchmark)
    if origin:
        found.append(CampaignRow.origin == origin)
    if text:
        columns = (
            CampaignRow.id,
            CampaignRow.benchmark,
            CampaignRow.submitted_by,
            sql_cast(CampaignRow.labels, String),
        )
        found.append(or_(*(column.icontains(text, autoescape=True) for column in columns)))
    return found


def _conditions(session: Session, wanted: JobFilter) -> list[ColumnElement[bool]]:
    equal = ((JobRow.state, wanted.state), (JobRow.verdict, wanted.verdict), (JobRow.campaign_id, wanted.campaign))
    found: list[ColumnElement[bool]] = [column == value for column, value in equal if value]
    if wanted.benchmark:
        found.append(_of_benchmark(session, wanted.benchmark))
    if wanted.agent:
        # Asked first: a choice between a value and a question keeps databases from using an index.
        named = session.scalars(select(AgentRow.id).where(AgentRow.name == wanted.agent)).all()
        found.append(JobRow.agent_id.in_([wanted.agent, *named]))
    if wanted.text:
        of_campaign = (
            column.icontains(wanted.text, autoescape=True) for column in (CampaignRow.id, CampaignRow.benchmark)
        )
        campaigns = select(CampaignRow.id).where(or_(*of_campaign))
        label = JobRow.label.icontains(wanted.text, autoescape=True)
        found.append(or_(label, JobRow.id == wanted.text, JobRow.campaign_id.in_(campaigns)))
    return found


def _of_benchmark(session: Session, benchmark: str) -> ColumnElement[bool]:
    """The jobs of a benchmark, asked for in the way that suits how many it has."""
    its_own = CampaignRow.benchmark == benchmark
    counts = (select(func.count()).where(its_own), select(func.count()).select_from(CampaignRow))
    own, all_ = (session.scalar(one) or 0 for one in counts)
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


def _page(
    session: Session, query: Select[Any], wanted: JobFilter, cursor: str | None, limit: int, *more: ColumnElement[bool]
) -> Sequence[Row[Any]]:
    """One page of jobs: which ones is answered from indexes, and only those are read."""
    order = _order(wanted)
    conditions = [*_conditions(session, wanted), *more]
    if cursor and wanted.campaign:
        conditions.append(JobRow.position > from_cursor(cursor, int)[0])
    elif cursor:
        conditions.append(tuple_(JobRow.submitted_at, JobRow.id) < tuple_(*from_cursor(cursor, float, str)))
    these = select(JobRow.id).where(*conditions).order_by(*order).limit(limit + 1)
    return session.execute(query.where(JobRow.id.in_(these)).order_by(*order)).all()


def _order(wanted: JobFilter) -> tuple[ColumnElement[Any], ...]:
    newest = (JobRow.submitted_at.desc(), JobRow.id.desc())
    return (JobRow.position.asc(),) if wanted.campaign else newest


def _key(wanted: JobFilter) -> Any:  # noqa: ANN401  (a function of a row)
    return (lambda row: (row.position,)) if wanted.campaign else (lambda row: (row.submitted_at, row.id))
