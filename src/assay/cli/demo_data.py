"""`assay demo-data`: a year of a fleet that never was, to look around in and to test with."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.output import say
from assay.cli.serve import DatabaseOption, FolderOption

if TYPE_CHECKING:
    from assay.store.store import Store


def demo_data(
    folder: FolderOption = None,
    database_url: DatabaseOption = None,
    campaigns: Annotated[int, typer.Option("--campaigns", min=10, max=100_000, help="How many campaigns.")] = 200,
    agents: Annotated[int, typer.Option("--agents", min=10, max=1000, help="How many machines.")] = 20,
    days: Annotated[int, typer.Option("--days", min=30, max=3650, help="Over how many days.")] = 365,
    results: Annotated[
        int | None,
        typer.Option(
            "--results",
            min=1,
            max=10_000_000,
            help="At least so many results; those of the campaigns if left out.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of all numbers that are drawn.")] = 2026,
    alive: Annotated[
        bool, typer.Option("--alive", help="Then let the agents go on until Ctrl-C, for a server to show.")
    ] = False,
) -> None:
    """Fill a new store with simulated benchmarks, campaigns, results, series, alerts and agents.

    Nothing of it is measured: every benchmark has the label `demo: simulated`, every machine is called `demo-…`.
    """
    from assay.demo.fill import DemoSize, fill
    from assay.store.location import store_folder
    from assay.store.store import Store

    store = Store(store_folder(folder), database_url)
    try:
        if not _is_demo(store):
            amount = DemoSize(campaigns, agents, days, results, seed)
            say(fill(store, amount, _told if sys.stderr.isatty() else None).in_words)
        elif not alive:
            say(f"{store.folder} holds demo data already, and is left as it is")
        database = " and the same --database-url" if database_url else ""
        say(f"look around: assay serve --folder {store.folder}{database}")
        if alive:
            from assay.demo.keeper import Keeper

            say("the agents of the demo go on; Ctrl-C ends them")
            Keeper(store, seed).run()
    finally:
        store.close()


def _is_demo(store: Store) -> bool:
    """Whether a store holds demo data alone.

    Raises:
        UsageError: if it holds anything else.
    """
    from assay.errors import UsageError

    there = store.campaigns(1)
    if there and there[0].labels.get("demo") != "simulated":
        raise UsageError(
            f"the store {store.folder} holds results already",
            code="demo-data",
            try_="name a new folder with --store: simulated results must not stand beside measured ones",
        )
    return bool(there)


def _told(done: int, of: int) -> None:
    sys.stderr.write(f"\r{done} of {of} campaigns" + ("\n" if done == of else ""))
    sys.stderr.flush()
