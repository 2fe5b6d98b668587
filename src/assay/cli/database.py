"""`assay db` and `assay tokens`: the tables of a server's database, and who may use the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import Verbs
from assay.cli.output import say
from assay.cli.serve import DatabaseOption, FolderOption

if TYPE_CHECKING:
    from pathlib import Path

    from assay.store.tokens import TokenStore

db_app = Verbs(help="Bring a database up to date, and say where it is.")


@db_app.command("upgrade")
def upgrade(database_url: DatabaseOption = None, folder: FolderOption = None) -> None:
    """Bring the tables to the newest migration; safe to repeat, and while servers run."""
    from assay.store.database import migrate_database

    before, after = migrate_database(location(database_url, folder))
    say(f"at {after} already" if before == after else f"from {before or 'nothing'} to {after}")


@db_app.command("current")
def current(database_url: DatabaseOption = None, folder: FolderOption = None) -> None:
    """Say which migration the tables are at, and which one this version needs."""
    from assay.store.database import HEAD, current_revision

    found = current_revision(location(database_url, folder))
    say(f"at {found or 'nothing'}; this version needs {HEAD}")
    if found != HEAD:
        raise typer.Exit(1)


def location(database_url: str | None, folder: Path | None) -> Path | str:
    """Where a server's database is: by URL, else the SQLite file in its folder."""
    from assay.store.location import store_folder
    from assay.store.store import DATABASE

    return database_url or store_folder(folder) / DATABASE


tokens_app = Verbs(help="Make, list and revoke tokens of a server, in its database.")


class Role(StrEnum):
    """What a token allows."""

    admin = "admin"
    user = "user"
    reader = "reader"
    agent = "agent"


@tokens_app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Who or what will use it.")],
    role: Annotated[Role, typer.Option("--role", "-r", help="What it allows.")] = Role.user,
    expires_in: Annotated[str, typer.Option("--expires-in", help="How long it is valid, such as 30d or 12h.")] = "",
    database_url: DatabaseOption = None,
    folder: FolderOption = None,
) -> None:
    """Make a token and print its secret: it is shown once and kept nowhere."""
    with _tokens(database_url, folder) as tokens:
        _, secret = tokens.create(name, role.value, _seconds(expires_in) if expires_in else None)
    say(secret)


@tokens_app.command("list")
def list_tokens(database_url: DatabaseOption = None, folder: FolderOption = None) -> None:
    """List tokens, without their secrets."""
    from assay.cli.output import moment, say_table

    with _tokens(database_url, folder) as tokens:
        found = tokens.list()
    rows = [
        (one.id, one.role, moment(one.created_at), moment(one.expires_at) or "never", moment(one.last_used), one.name)
        for one in found
    ]
    say_table(("token", "role", "created", "ends", "last used", "name"), rows, "no tokens", flexible="name")


@tokens_app.command("revoke")
def revoke(
    tokens: Annotated[list[str], typer.Argument(metavar="TOKEN...", help="Ids from `assay tokens list`.")],
    database_url: DatabaseOption = None,
    folder: FolderOption = None,
) -> None:
    """Take rights away; a running server follows within seconds."""
    with _tokens(database_url, folder) as known:
        for one in tokens:
            known.revoke(one)
            say(f"revoked {one}")


@contextmanager
def _tokens(database_url: str | None, folder: Path | None) -> Iterator[TokenStore]:
    from assay.clock import SYSTEM_CLOCK
    from assay.store.database import WriteAheadLog, open_database
    from assay.store.tokens import TokenStore

    engine = open_database(location(database_url, folder))
    try:
        yield TokenStore(engine, SYSTEM_CLOCK)
        if (log := WriteAheadLog.of(engine)) is not None:
            log.sync()
    finally:
        engine.dispose()


def _seconds(text: str) -> float:
    from assay.errors import UsageError
    from assay.units import seconds

    try:
        found = seconds(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 100 * 365 * 86400:
        raise UsageError(f"{text!r} is no span of time", code="expires-in", at="--expires-in", try_="write 30d or 12h")
    return found
