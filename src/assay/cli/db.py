"""`assay db`: the tables of a server's database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from assay.cli.options import Verbs
from assay.cli.output import say
from assay.cli.serve import DatabaseOption, FolderOption

if TYPE_CHECKING:
    from pathlib import Path

app = Verbs(help="Bring a database up to date, and say where it is.")


@app.command("upgrade")
def upgrade(database_url: DatabaseOption = None, folder: FolderOption = None) -> None:
    """Bring the tables to the newest migration; safe to repeat, and while servers run."""
    from assay.store.database import migrate_database

    before, after = migrate_database(location(database_url, folder))
    say(f"at {after} already" if before == after else f"from {before or 'nothing'} to {after}")


@app.command("current")
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
