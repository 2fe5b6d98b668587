"""The database: an engine that two processes can share, brought to the newest migration before use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import DatabaseError, OperationalError

from assay.errors import StoreError

# The newest migration under `migrations/versions`; a test keeps the two equal.
HEAD = "0001"
_BUSY_MS = 30_000


def open_database(path: Path) -> Engine:
    """Open the SQLite file, creating or migrating it when needed.

    Raises:
        StoreError: if it cannot be opened, is damaged, or was written by a newer assay.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StoreError(f"cannot create the store: {problem.strerror}", at=str(path.parent), try_=_ELSEWHERE) from None
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": _BUSY_MS / 1000})
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    try:
        if _revision(engine) != HEAD:
            migrate(engine, str(path))
    except DatabaseError as problem:
        raise StoreError(f"cannot open the store: {problem.orig}", at=str(path), try_=_ELSEWHERE) from None
    return engine


_ELSEWHERE = "check the folder's permissions and space, or set another place with --store"


def migrate(engine: Engine, name: str) -> None:
    """Bring the tables to the newest migration; the first of two processes does it, the second waits."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except CommandError as problem:
        raise StoreError(f"the store was written by another version of assay: {problem}", at=name,
                         try_="update assay, or set another place with --store") from None  # fmt: skip


def _revision(engine: Engine) -> str | None:
    try:
        with engine.begin() as connection:
            return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    except OperationalError as problem:
        if "no such table" in str(problem):
            return None
        raise


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
