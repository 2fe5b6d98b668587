"""Stored benchmarks and their versions: what was once submitted can be read for ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, Select, select
from sqlalchemy.orm import Session

from assay.clock import Clock
from assay.documents import adapter
from assay.errors import UsageError
from assay.plan.digest import content_hash
from assay.plan.job import JobFile
from assay.store.database import insert_into, reading, writing
from assay.store.listing import Page, bounded, from_cursor, page_of
from assay.store.tables import BenchmarkRow, BenchmarkVersionRow

Files = Mapping[str, tuple[JobFile, ...]]
_LONGEST_NAME = 200
_FILES = adapter(dict[str, tuple[JobFile, ...]])


@dataclass(frozen=True, slots=True)
class StoredBenchmark:
    """A benchmark in one of its versions."""

    name: str
    version: int
    document: Mapping[str, Any]
    files: Files
    """Text of the document that names a file → the file, then files that lie beside it."""
    digest: str
    """Of document and files together: equal ones say the same."""
    created_at: float
    """When this version was made."""
    created_by: str
    newest: int
    """The newest version there is."""


@dataclass(frozen=True, slots=True)
class BenchmarkSummary:
    """One line of a list of stored benchmarks."""

    name: str
    version: int
    created_at: float
    changed_at: float


@dataclass(frozen=True, slots=True)
class Draft:
    """What a benchmark is to say."""

    document: Mapping[str, Any]
    files: Files = field(default_factory=dict)
    by: str = ""

    @property
    def digest(self) -> str:
        return content_hash([self.document, _FILES.dump_python(dict(self.files), mode="json")])


class Catalogue:
    """Keeping, reading, changing and deleting benchmarks."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def create(self, name: str, draft: Draft) -> StoredBenchmark:
        """Keep a new benchmark; one that was deleted goes on with its next version.

        Raises:
            UsageError: `exists` if there is one of this name, `name` if the name is empty or too long.
        """
        if not name.strip() or len(name) > _LONGEST_NAME:
            raise UsageError(f"a benchmark's name has 1 to {_LONGEST_NAME} characters", code="name")
        with writing(self._engine) as session:
            row = self._row_for(session, name)
            if row.version and not row.deleted:
                raise UsageError(
                    f"there is a benchmark {name!r} already",
                    code="exists",
                    try_="change that one, or choose another name",
                )
            return self._add(session, row, draft)

    def change(self, name: str, draft: Draft, expected: int | None = None) -> StoredBenchmark:
        """Keep a new version; what says the same as the newest one makes none.

        Raises:
            UsageError: `unknown-benchmark` if there is none, `precondition` if somebody changed it in between.
        """
        with writing(self._engine) as session:
            row = session.get(BenchmarkRow, name, with_for_update=True)
            if row is None or row.deleted:
                raise unknown_benchmark(name)
            if expected is not None and expected != row.version:
                raise UsageError(
                    f"{name!r} is at version {row.version}, not {expected}",
                    code="precondition",
                    try_="read it again and repeat the change",
                )
            found = session.execute(_version(name, row.version)).one()
            return _stored(found) if found[0].digest == draft.digest else self._add(session, row, draft)

    def get(self, name: str, version: int | None = None) -> StoredBenchmark:
        """A benchmark: its newest version, or the one given, which may be of a deleted one.

        Raises:
            UsageError: `unknown-benchmark` if there is none.
        """
        with reading(self._engine) as session:
            query = _version(name, version) if version is not None else _newest(name)
            found = session.execute(query).one_or_none()
        if found is None:
            raise unknown_benchmark(name, version)
        return _stored(found)

    def versions(self, name: str) -> tuple[StoredBenchmark, ...]:
        """Every version of a benchmark, the newest first.

        Raises:
            UsageError: `unknown-benchmark` if there is none.
        """
        query = _versions().where(BenchmarkVersionRow.name == name).order_by(BenchmarkVersionRow.version.desc())
        with reading(self._engine) as session:
            found = session.execute(query).all()
        if not found:
            raise unknown_benchmark(name)
        return tuple(map(_stored, found))

    def benchmarks(self, *, text: str = "", cursor: str | None = None, limit: int = 50) -> Page[BenchmarkSummary]:
        query = select(BenchmarkRow).where(BenchmarkRow.deleted.is_(False))
        if text:
            query = query.where(BenchmarkRow.name.icontains(text, autoescape=True))
        if cursor:
            query = query.where(BenchmarkRow.name > from_cursor(cursor, str)[0])
        with reading(self._engine) as session:
            rows = session.scalars(query.order_by(BenchmarkRow.name).limit(bounded(limit) + 1)).all()
        return page_of(rows, bounded(limit), lambda row: (row.name,), _summary)

    def delete(self, name: str) -> None:
        """Take a benchmark off the list; its versions stay readable for the campaigns made from them.

        Raises:
            UsageError: `unknown-benchmark` if there is none.
        """
        with writing(self._engine) as session:
            row = session.get(BenchmarkRow, name, with_for_update=True)
            if row is None or row.deleted:
                raise unknown_benchmark(name)
            row.deleted, row.changed_at = True, self._now()

    def _row_for(self, session: Session, name: str) -> BenchmarkRow:
        """The row of a benchmark, made when there is none; two who make it at once get the same one, in turn."""
        now = self._now()
        values = {"name": name, "version": 0, "created_at": now, "changed_at": now}
        session.execute(insert_into(session, BenchmarkRow).values(**values).on_conflict_do_nothing())
        return session.get_one(BenchmarkRow, name, with_for_update=True)

    def _add(self, session: Session, row: BenchmarkRow, draft: Draft) -> StoredBenchmark:
        row.version, row.deleted, row.changed_at = row.version + 1, False, self._now()
        session.add(
            BenchmarkVersionRow(
                name=row.name,
                version=row.version,
                document=dict(draft.document),
                files=_FILES.dump_json(dict(draft.files)).decode(),
                digest=draft.digest,
                created_at=row.changed_at,
                created_by=draft.by,
            )
        )
        session.flush()
        return _stored(session.execute(_version(row.name, row.version)).one())

    def _now(self) -> float:
        return self._clock.utc().timestamp()


def unknown_benchmark(name: str, version: int | None = None) -> UsageError:
    what = f"no benchmark {name!r} is stored" if version is None else f"{name!r} has no version {version}"
    return UsageError(what, code="unknown-benchmark", try_="`GET /api/v1/benchmarks` lists what is there")


def _versions() -> Select[BenchmarkVersionRow, int]:
    return select(BenchmarkVersionRow, BenchmarkRow.version).join(
        BenchmarkRow, BenchmarkRow.name == BenchmarkVersionRow.name
    )


def _version(name: str, version: int) -> Select[BenchmarkVersionRow, int]:
    return _versions().where(BenchmarkVersionRow.name == name, BenchmarkVersionRow.version == version)


def _newest(name: str) -> Select[BenchmarkVersionRow, int]:
    return _versions().where(
        BenchmarkVersionRow.name == name,
        BenchmarkVersionRow.version == BenchmarkRow.version,
        BenchmarkRow.deleted.is_(False),
    )


def _stored(found: Any) -> StoredBenchmark:  # noqa: ANN401  (a row of `_versions`)
    row, newest = found
    return StoredBenchmark(
        name=row.name,
        version=row.version,
        document=row.document,
        files=_FILES.validate_json(row.files),
        digest=row.digest,
        created_at=row.created_at,
        created_by=row.created_by,
        newest=newest,
    )


def _summary(row: BenchmarkRow) -> BenchmarkSummary:
    return BenchmarkSummary(row.name, row.version, row.created_at, row.changed_at)
