"""The database: an engine that several processes can share, brought to the newest migration before use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError

from assay.errors import StoreError, UsageError

# The newest migration under `migrations/versions`; a test keeps the two equal.
HEAD = "0003"
_BUSY_MS = 30_000
# Any number, as long as all servers take the same one while they migrate.
_MIGRATION_LOCK = 7_203_114
_ELSEWHERE = "check the folder's permissions and space, or set another place with --store"


def open_database(location: Path | str) -> Engine:
    """Open a SQLite file or a database by its URL, creating or migrating its tables when needed.

    Raises:
        StoreError: if it cannot be opened, is damaged, or was written by a newer assay.
    """
    engine = _sqlite(location) if isinstance(location, Path) else _by_url(location)
    name = engine.url.render_as_string(hide_password=True)
    try:
        if _revision(engine) != HEAD:
            migrate(engine, name)
    except DatabaseError as problem:
        raise StoreError(f"cannot open the store: {problem.orig}", at=name, try_=_ELSEWHERE) from None
    return engine


def _sqlite(path: Path) -> Engine:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StoreError(f"cannot create the store: {problem.strerror}", at=str(path.parent), try_=_ELSEWHERE) from None
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": _BUSY_MS / 1000})
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _by_url(location: str) -> Engine:
    """An engine for a URL; the error never shows the password in it."""
    try:
        url = make_url(location)
    except ArgumentError:
        raise UsageError("the database URL cannot be read", code="database", try_=_URLS) from None
    if url.get_backend_name() == "sqlite" and url.database:
        return _sqlite(Path(url.database))
    if url.get_backend_name() != "postgresql":
        raise UsageError(f"databases of kind {url.get_backend_name()!r} are not supported", code="database", try_=_URLS)
    try:
        return create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    except ImportError:
        raise UsageError(
            "the PostgreSQL driver is missing", code="database", try_="pip install 'assay[server]'"
        ) from None


_URLS = "use postgresql://user@host/name or sqlite:///path"


def migrate(engine: Engine, name: str) -> None:
    """Bring the tables to the newest migration; the first of two processes does it, the second waits."""
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


def _revision(engine: Engine) -> str | None:
    with engine.begin() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _on_connect(connection: Any, record: object) -> None:  # noqa: ANN401, ARG001  (SQLAlchemy's signature)
    # SQLAlchemy, not the driver, begins transactions: only then is creating tables part of one.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def _on_begin(connection: Any) -> None:  # noqa: ANN401
    # Take the write lock at once: a transaction that reads first and writes later can fail where this one waits.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
