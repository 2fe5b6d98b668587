"""The database: an engine that several processes can share, its migrations, and its transactions."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from urllib.parse import quote
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, Executable, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError, DataError, DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from assay.clock import SYSTEM_CLOCK, Clock
from assay.errors import StoreError, UsageError
from assay.files import make_private_folder, sync_folder

if TYPE_CHECKING:
    from sqlalchemy.dialects.sqlite import Insert
    from sqlalchemy.orm import DeclarativeBase

# The newest migration under `migrations/versions`; a test keeps the two equal.
HEAD = "0008"
_BUSY_MS = 30_000
# Connections that stay open; twice as many again may be opened when it is busy.
_POOL: dict[str, Any] = {"pool_size": 10, "max_overflow": 20}
_POOL_WAIT_S = 10
# Any number, as long as all servers take the same one while they migrate.
_MIGRATION_LOCK = 7_203_114
_ELSEWHERE = "check that it runs and has space and permissions, or set another place with --store"
_URLS = "use postgresql://user@host/name or sqlite:///path"


def open_database(location: Path | str, migrate: Literal["auto", "check"] | None = None) -> Engine:
    """Open a SQLite file or a database by its URL.

    Args:
        migrate: `auto` brings the tables to the newest migration; `check` refuses when they are not. Left out,
            a SQLite file is migrated and a server's database is not: its operator decides when.
    """
    engine = _engine(location)
    try:
        with _in_words(engine, "open"):
            revision = _revision(engine)
            if revision != HEAD:
                _refuse_to_migrate(engine, revision, location, migrate)
                _migrate(engine)
    except StoreError:
        engine.dispose()
        raise
    return engine


def migrate_database(location: Path | str) -> tuple[str | None, str]:
    """Bring a database to the newest migration; return where it was and where it is now."""
    engine = _engine(location)
    try:
        with _in_words(engine, "migrate"):
            before = _revision(engine)
            _migrate(engine)
    finally:
        engine.dispose()
    return before, HEAD


def current_revision(location: Path | str) -> str | None:
    engine = _engine(location)
    try:
        with _in_words(engine, "open"):
            return _revision(engine)
    finally:
        engine.dispose()


def is_read_only(location: Path) -> bool:
    """Whether a SQLite file is there and may only be read: itself, or the folder that its log would lie in."""
    return location.is_file() and not (os.access(location, os.W_OK) and os.access(location.parent, os.W_OK))


def shown_name(engine: Engine) -> str:
    """The database's URL without its password."""
    return engine.url.render_as_string(hide_password=True)


def _refuse_to_migrate(
    engine: Engine, revision: str | None, location: Path | str, migrate: Literal["auto", "check"] | None
) -> None:
    if isinstance(location, Path) and is_read_only(location):
        word = f"at migration {revision}, and this assay needs {HEAD}" if revision else "without tables"
        message = f"the store is read-only and {word}"
        tip = "copy its folder to a place that can be written, and name that with --store"
    elif (migrate or ("auto" if engine.dialect.name == "sqlite" else "check")) == "check":
        word = f"is at migration {revision}, this assay needs {HEAD}" if revision else "has no tables yet"
        message, tip = f"the database {word}", "run `assay db upgrade` with the same --database-url"
    else:
        return
    raise StoreError(message, code="migration", at=shown_name(engine), try_=tip)


@contextmanager
def _in_words(engine: Engine, what: str) -> Iterator[None]:
    try:
        yield
    except DatabaseError as problem:
        raise StoreError(f"cannot {what} the store: {problem.orig}", at=shown_name(engine), try_=_ELSEWHERE) from None


def _engine(location: Path | str) -> Engine:
    return _sqlite(location) if isinstance(location, Path) else _by_url(location)


def _sqlite(path: Path) -> Engine:
    try:
        make_private_folder(path.parent)
        _make_private_file(path)
    except FileExistsError:
        raise StoreError(
            "cannot create the store: this is a file, and a store is a folder",
            at=str(path.parent),
            try_="name a folder with --store",
        ) from None
    except OSError as problem:
        raise StoreError(f"cannot create the store: {problem.strerror}", at=str(path.parent), try_=_ELSEWHERE) from None
    if is_read_only(path):
        return _sqlite_to_read(path)
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": _BUSY_MS / 1000}, **_POOL)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _sqlite_to_read(path: Path) -> Engine:
    """An engine for a file that may only be read.

    SQLite reads a write-ahead log only beside its index, and here it can make neither. Where both are there, another
    process may be writing, and they are used; otherwise the file is read as it is.
    """
    log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    alive = log.is_file() and index.is_file()
    uri = f"file:{quote(str(path.absolute()))}?mode=ro{'' if alive else '&immutable=1'}"
    engine = create_engine(
        f"sqlite:///{path}",
        creator=lambda: sqlite3.connect(uri, uri=True, timeout=_BUSY_MS / 1000, check_same_thread=False),
        **_POOL,
    )
    event.listen(engine, "connect", _on_connect_to_read)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect_to_read(connection: Any, record: object) -> None:  # noqa: ANN401, ARG001  (SQLAlchemy's signature)
    connection.isolation_level = None


def _make_private_file(path: Path) -> None:
    """Make the file before SQLite does: it holds token hashes, logs and results, and its log gets the same rights."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:  # it is there, and stays as it is; what else is wrong, SQLite tells
        return


def _by_url(location: str) -> Engine:
    """Make an engine for a URL; the error never shows the password in it."""
    try:
        url = make_url(location)
    except ArgumentError:
        raise UsageError("the database URL cannot be read", code="database", try_=_URLS) from None
    if url.get_backend_name() == "sqlite" and url.database:
        return _sqlite(Path(url.database))
    if url.get_backend_name() != "postgresql":
        raise UsageError(f"databases of kind {url.get_backend_name()!r} are not supported", code="database", try_=_URLS)
    try:
        return create_engine(
            url.set(drivername="postgresql+psycopg"),
            # A server that was restarted leaves dead connections behind: each is tried before it is used.
            pool_pre_ping=True,
            **_POOL,
            pool_timeout=_POOL_WAIT_S,
            connect_args={"connect_timeout": _POOL_WAIT_S, "application_name": "assay"},
        )
    except ImportError:
        raise UsageError(
            "the PostgreSQL driver is missing", code="database", try_="pip install 'assay-bench[server]'"
        ) from None


def _migrate(engine: Engine) -> None:
    """Bring the tables to the newest migration; the first of two processes does it, the second waits."""
    if engine.dialect.name == "sqlite" and _create(engine):
        return
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except CommandError as problem:
        raise StoreError(
            f"the store was written by another version of assay: {problem}",
            at=shown_name(engine),
            try_="update assay, or set another place with --store",
        ) from None


def _create(engine: Engine) -> bool:
    """Create all tables directly in a file that has none; False when there is something to migrate.

    The first `assay run` of a store need not load and walk all migrations; a test keeps both ways to the same tables.
    """
    from assay.store.tables import SeriesRow  # with its module, every table is known

    with engine.begin() as connection:  # the write lock: a second process finds the tables made
        if inspect(connection).get_table_names():
            return False
        SeriesRow.metadata.create_all(connection, checkfirst=False)
        connection.exec_driver_sql(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
            "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
        connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:head)"), {"head": HEAD})
    return True


def _revision(engine: Engine) -> str | None:
    with engine.execution_options(reading=True).begin() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _on_connect(connection: Any, record: object) -> None:  # noqa: ANN401, ARG001  (SQLAlchemy's signature)
    # SQLAlchemy, not the driver, begins transactions: only then is creating tables part of one.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    _use_wal(cursor)
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def _use_wal(cursor: Any) -> None:  # noqa: ANN401
    """Switch to the write-ahead log; while two processes switch a new file concurrently, SQLite does not wait."""
    until = time.monotonic() + _BUSY_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as busy:
            if "locked" not in str(busy) or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


def _on_begin(connection: Any) -> None:  # noqa: ANN401
    # Take the write lock now: a transaction that reads first and writes later can fail where this one waits.
    # One that only reads needs no lock and waits for no other.
    reading = connection.get_execution_options().get("reading")
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


@dataclass(slots=True)
class _Writers:
    """Who writes to a database: on SQLite one at a time in this process, as its own lock has no order."""

    turn: AbstractContextManager[object]
    commits: int = 0


_writers: WeakKeyDictionary[Engine, _Writers] = WeakKeyDictionary()
R = TypeVar("R")


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """One transaction that may change something; committed at the end, undone on any error."""
    writers = _writers_to(engine)
    with _failures_in_words(engine), writers.turn:
        with Session(engine, expire_on_commit=False) as session, session.begin():
            yield session
        writers.commits += 1


def commits(engine: Engine) -> int:
    """How often this process has committed to a SQLite file; of another database the number says nothing."""
    return _writers_to(engine).commits


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """One transaction that changes nothing and waits for no writer; raises as `writing` does."""
    bind = engine.execution_options(reading=True)
    with _failures_in_words(engine), Session(bind, expire_on_commit=False) as session, session.begin():
        yield session


def ahead_s(engine: Engine, clock: Clock) -> float:
    """How far the clock of a database is ahead of this machine's; 0 for a SQLite file, which has none of its own."""
    if engine.dialect.name != "postgresql":
        return 0.0
    with reading(engine) as session:
        session.execute(text("SELECT 1"))  # connecting may take a while
        database_s = float(session.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
        return database_s - clock.utc().timestamp()


def insert_into(session: Session, table: type[DeclarativeBase]) -> Insert:
    """An insert that can say what to do about a row that is there already.

    Both kinds of database have the same words for it; the module of the one that is not asked is not loaded.
    """
    if session.get_bind().dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return cast("Insert", postgresql.insert(table))
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def _writers_to(engine: Engine) -> _Writers:
    if writers := _writers.get(engine):
        return writers
    turn = threading.Lock() if engine.dialect.name == "sqlite" else nullcontext()
    return _writers.setdefault(engine, _Writers(turn))


@contextmanager
def _failures_in_words(engine: Engine) -> Iterator[None]:
    try:
        yield
    except (DataError, UnicodeEncodeError, OverflowError) as problem:
        cause = problem.orig if isinstance(problem, DataError) else problem
        raise UsageError(f"the store cannot hold this value: {cause}", code="value") from None
    except SQLAlchemyError as problem:
        cause = problem.orig if isinstance(problem, DBAPIError) else problem
        raise StoreError(f"the store did not answer: {cause}", at=shown_name(engine), try_=_ELSEWHERE) from None


class TableAccess:
    """Base of what reads and writes tables; each public method is one short transaction."""

    def __init__(self, engine: Engine, clock: Clock = SYSTEM_CLOCK) -> None:
        self._engine = engine
        self._clock = clock

    def _now(self) -> float:
        return self._clock.utc().timestamp()

    def _writing(self) -> AbstractContextManager[Session]:
        return writing(self._engine)

    def _reading(self) -> AbstractContextManager[Session]:
        return reading(self._engine)

    def _rows(self, query: Executable) -> Sequence[Any]:
        with reading(self._engine) as session:
            return session.execute(query).all()

    def _scalars(self, query: Executable) -> Sequence[Any]:
        with reading(self._engine) as session:
            return session.scalars(query).all()

    def _scalar(self, query: Executable) -> Any:  # noqa: ANN401  (whatever the column holds)
        """The first column of the first row; None where there is no row."""
        with reading(self._engine) as session:
            return session.scalar(query)


def record_from(kind: type[R], row: object, **values: object) -> R:
    """A record (a dataclass) whose fields are the columns of a row of the same names, but for those that are given."""
    columns = {field.name: getattr(row, field.name) for field in fields(kind) if field.name not in values}  # type: ignore[arg-type]
    return kind(**columns, **values)


def parts_of(values: Sequence[R], size: int = 500) -> Iterator[Sequence[R]]:
    """Values in parts: databases limit the number of parameters of a query."""
    return (values[start : start + size] for start in range(0, len(values), size))


class WriteAheadLog:
    """The log of one SQLite file, and how much of it is known to be on disk."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._path = Path(f"{engine.url.database}-wal")
        self._lock = threading.Lock()
        self._synced = -1
        self._lost = ""

    @classmethod
    def of(cls, engine: Engine) -> WriteAheadLog | None:
        """The log of a database; None for a server's database, which syncs its commits itself."""
        return cls(engine) if engine.dialect.name == "sqlite" else None

    @property
    def committed(self) -> int:
        return commits(self._engine)

    def has(self, commit: int) -> bool:
        return self._synced >= commit and not self._lost

    def sync(self) -> None:
        """Return when everything that was committed before is on disk.

        Raises:
            StoreError: `disk` if the disk did not take it. A sync that fails may lose what was written, and a second
                one says nothing about it: from then on every sync fails.
        """
        with self._lock:
            until = self.committed
            if not self._lost and self._synced < until:
                self._lost = self._flush()
            if self._lost:
                raise StoreError(
                    f"the disk did not take what was written: {self._lost}",
                    code="disk",
                    at=str(self._path),
                    try_="check the disk, then start the server again",
                )
            self._synced = until

    def _flush(self) -> str:
        """Sync the log; return what went wrong."""
        try:
            # Gone means that the last connection was closed, which brought everything into the database.
            with suppress(FileNotFoundError):
                _sync_file(self._path)
            if self._synced < 0:
                sync_folder(self._path.parent)
                sync_folder(self._path.parent.parent)
        except OSError as problem:
            return str(problem.strerror or problem)
        return ""


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)  # Windows syncs no file that is open for reading alone
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
