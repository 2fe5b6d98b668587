"""Stored benchmarks and their versions: what was once submitted can be read for ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from assay.documents import adapter
from assay.errors import UsageError
from assay.plan.job import JobFile, content_hash
from assay.store.database import TableAccess, insert_into, record_from
from assay.store.listing import Page, read_page
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


class Catalogue(TableAccess):
    def create(self, name: str, draft: Draft) -> StoredBenchmark:
        if not name.strip() or len(name) > _LONGEST_NAME:
            raise UsageError(f"a benchmark's name has 1 to {_LONGEST_NAME} characters", code="name")
        with self._writing() as session:
            now = self._now()
            values = {"name": name, "version": 0, "created_at": now, "changed_at": now}
            # Two concurrent creations get the same row, in turn.
            session.execute(insert_into(session, BenchmarkRow).values(**values).on_conflict_do_nothing())
            row = session.get_one(BenchmarkRow, name, with_for_update=True)
            if row.version and not row.deleted:
                raise UsageError(
                    f"there is a benchmark {name!r} already",
                    code="exists",
                    try_="change that one, or choose another name",
                )
            return self._add(session, row, draft)

    def change(self, name: str, draft: Draft, expected: int | None = None) -> StoredBenchmark:
        """Keep a new version; what says the same as the newest one makes none."""
        with self._writing() as session:
            row = _locked(session, name)
            if expected is not None and expected != row.version:
                raise UsageError(
                    f"{name!r} is at version {row.version}, not {expected}",
                    code="precondition",
                    try_="read it again and repeat the change",
                )
            newest = session.execute(_version(row)).one()
            return _stored(newest) if newest[0].digest == draft.digest else self._add(session, row, draft)

    def get(self, name: str, version: int | None = None) -> StoredBenchmark:
        """A benchmark: its newest version, or the one given, which may be of a deleted one."""
        newest = (BenchmarkVersionRow.version == BenchmarkRow.version, BenchmarkRow.deleted.is_(False))
        which = newest if version is None else (BenchmarkVersionRow.version == version,)
        rows = self._rows(_versions(name).where(*which))
        if not rows:
            raise unknown_benchmark(name, version)
        return _stored(rows[0])

    def versions(self, name: str) -> tuple[StoredBenchmark, ...]:
        """Every version of a benchmark, the newest first."""
        rows = self._rows(_versions(name).order_by(BenchmarkVersionRow.version.desc()))
        if not rows:
            raise unknown_benchmark(name)
        return tuple(map(_stored, rows))

    def benchmarks(self, *, text: str = "", cursor: str | None = None, limit: int = 50) -> Page[BenchmarkSummary]:
        query = select(BenchmarkRow).where(BenchmarkRow.deleted.is_(False))
        if text:
            query = query.where(BenchmarkRow.name.icontains(text, autoescape=True))
        with self._reading() as session:
            page = read_page(session, query, (BenchmarkRow.name,), cursor, limit)
        return page.map(lambda row: record_from(BenchmarkSummary, row))

    def delete(self, name: str) -> None:
        """Take a benchmark off the list; its versions stay readable for the campaigns made from them."""
        with self._writing() as session:
            row = _locked(session, name)
            row.deleted, row.changed_at = True, self._now()

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
        return _stored(session.execute(_version(row)).one())


def unknown_benchmark(name: str, version: int | None = None) -> UsageError:
    what = f"no benchmark {name!r} is stored" if version is None else f"{name!r} has no version {version}"
    return UsageError(what, code="unknown-benchmark", try_="`GET /api/v1/benchmarks` lists what is there")


def _locked(session: Session, name: str) -> BenchmarkRow:
    row = session.get(BenchmarkRow, name, with_for_update=True)
    if row is None or row.deleted:
        raise unknown_benchmark(name)
    return row


def _versions(name: str) -> Select[BenchmarkVersionRow, int]:
    query = select(BenchmarkVersionRow, BenchmarkRow.version)
    query = query.join(BenchmarkRow, BenchmarkRow.name == BenchmarkVersionRow.name)
    return query.where(BenchmarkVersionRow.name == name)


def _version(row: BenchmarkRow) -> Select[BenchmarkVersionRow, int]:
    return _versions(row.name).where(BenchmarkVersionRow.version == row.version)


def _stored(joined: Any) -> StoredBenchmark:  # noqa: ANN401  (a row of `_versions`)
    row, newest = joined
    return record_from(StoredBenchmark, row, files=_FILES.validate_json(row.files), newest=newest)
