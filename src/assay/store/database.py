"""The database: an engine that several processes can share, its migrations, and its transactions."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError, DataError, DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from assay.errors import StoreError, UsageError

if TYPE_CHECKING:
    from sqlalchemy.dialects.sqlite import Insert
    from sqlalchemy.orm import DeclarativeBase

# The newest migration under `migrations/versions`; a test keeps the two equal.
HEAD = "0007"
_BUSY_MS = 30_000
# Connections that stay open; twice as many again may be opened when it is busy.
_POOL = 10
_POOL_WAIT_S = 10
# Any number, as long as all servers take the same one while they migrate.
_MIGRATION_LOCK = 7_203_114
_ELSEWHERE = "check that it runs and has space and permissions, or set another place with --store"


def open_database(location: Path | str, migrate: Literal["auto", "check"] | None = None) -> Engine:
    """Open a SQLite file or a database by its URL.

    Args:
        location: a SQLite file, or a URL.
        migrate: `auto` brings the tables to the newest migration; `check` refuses when they are not. Left out,
            a SQLite file is migrated and a server's database is not: there somebody else decides when.

    Raises:
        StoreError: if it cannot be opened, is damaged, was written by a newer assay, or must be migrated first.
    """
    engine = _sqlite(location) if isinstance(location, Path) else _by_url(location)
    name = shown_name(engine)
    try:
        found = _revision(engine)
        if found != HEAD:
            if (migrate or ("auto" if engine.dialect.name == "sqlite" else "check")) == "check":
                raise _not_migrated(found, name)
            _migrate(engine, name)
    except DatabaseError as problem:
        engine.dispose()
        raise StoreError(f"cannot open the store: {problem.orig}", at=name, try_=_ELSEWHERE) from None
    except StoreError:
        engine.dispose()
        raise
    return engine


def migrate_database(location: Path | str) -> tuple[str | None, str]:
    """Bring a database to the newest migration; return where it was and where it is now.

    Raises:
        StoreError: if it cannot be opened, is damaged, or was written by a newer assay.
    """
    engine = _sqlite(location) if isinstance(location, Path) else _by_url(location)
    name = shown_name(engine)
    try:
        before = _revision(engine)
        _migrate(engine, name)
    except DatabaseError as problem:
        raise StoreError(f"cannot migrate the store: {problem.orig}", at=name, try_=_ELSEWHERE) from None
    finally:
        engine.dispose()
    return before, HEAD


def current_revision(location: Path | str) -> str | None:
    """Which migration a database is at; None when it has no tables yet.

    Raises:
        StoreError: if it cannot be opened.
    """
    engine = _sqlite(location) if isinstance(location, Path) else _by_url(location)
    try:
        return _revision(engine)
    except DatabaseError as problem:
        raise StoreError(f"cannot open the store: {problem.orig}", at=shown_name(engine), try_=_ELSEWHERE) from None
    finally:
        engine.dispose()


def shown_name(engine: Engine) -> str:
    """The database's URL without its password."""
    return engine.url.render_as_string(hide_password=True)


def _not_migrated(found: str | None, name: str) -> StoreError:
    word = f"is at migration {found}, this assay needs {HEAD}" if found else "has no tables yet"
    return StoreError(f"the database {word}", code="migration", at=name,
                      try_="run `assay db upgrade` with the same --database-url")  # fmt: skip


def _sqlite(path: Path) -> Engine:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise StoreError("cannot create the store: this is a file, and a store is a folder", at=str(path.parent),
                         try_="name a folder with --store") from None  # fmt: skip
    except OSError as problem:
        raise StoreError(f"cannot create the store: {problem.strerror}", at=str(path.parent), try_=_ELSEWHERE) from None
    engine = create_engine(
        f"sqlite:///{path}", connect_args={"timeout": _BUSY_MS / 1000}, pool_size=_POOL, max_overflow=2 * _POOL
    )
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


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
            pool_size=_POOL,
            max_overflow=2 * _POOL,
            pool_timeout=_POOL_WAIT_S,
            connect_args={"connect_timeout": _POOL_WAIT_S, "application_name": "assay"},
        )
    except ImportError:
        raise UsageError(
            "the PostgreSQL driver is missing", code="database", try_="pip install 'assay[server]'"
        ) from None


_URLS = "use postgresql://user@host/name or sqlite:///path"


def _migrate(engine: Engine, name: str) -> None:
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
        raise StoreError(f"the store was written by another version of assay: {problem}", at=name,
                         try_="update assay, or set another place with --store") from None  # fmt: skip


def _create(engine: Engine) -> bool:
    """Make all tables at once in a file that has none; False when there is something to migrate.

    The first `assay run` of a store need not load and walk all migrations; a test keeps both ways to the same tables.
    """
    from assay.store.watch_tables import SeriesRow  # with its module, every table is known

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
    """Switch to the write-ahead log; while a new file is switched by two processes at once, SQLite does not wait."""
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
    # Take the write lock at once: a transaction that reads first and writes later can fail where this one waits.
    # One that only reads needs no lock, and waits for nobody.
    reading = connection.get_execution_options().get("reading")
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


_writers: WeakKeyDictionary[Engine, threading.Lock] = WeakKeyDictionary()


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """One transaction that may change something; committed at the end, undone on any error.

    Raises:
        StoreError: if the database does not answer.
        UsageError: if it cannot hold a value that it was given.
    """
    with _told(engine), _turn(engine), Session(engine, expire_on_commit=False) as session, session.begin():
        yield session


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """One transaction that changes nothing and waits for no writer.

    Raises:
        StoreError: if the database does not answer.
        UsageError: if it cannot hold a value that it was given.
    """
    bind = engine.execution_options(reading=True)
    with _told(engine), Session(bind, expire_on_commit=False) as session, session.begin():
        yield session


def insert_into(session: Session, table: type[DeclarativeBase]) -> Insert:
    """An insert that can be told what to do about a row that is there already.

    Both kinds of database have the same words for it; the module of the one that is not asked is not loaded.
    """
    if session.get_bind().dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return cast("Insert", postgresql.insert(table))
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def _turn(engine: Engine) -> AbstractContextManager[object]:
    """Writers of one process to one SQLite file queue up here: its own lock is asked again and again, without order."""
    if engine.dialect.name != "sqlite":
        return nullcontext()
    return _writers.setdefault(engine, threading.Lock())


@contextmanager
def _told(engine: Engine) -> Iterator[None]:
    try:
        yield
    except (DataError, UnicodeEncodeError, OverflowError) as problem:
        cause = problem.orig if isinstance(problem, DataError) else problem
        raise UsageError(f"the store cannot hold this value: {cause}", code="value") from None
    except SQLAlchemyError as problem:
        cause = problem.orig if isinstance(problem, DBAPIError) else problem
        raise StoreError(f"the store did not answer: {cause}", at=shown_name(engine), try_=_ELSEWHERE) from None
