"""`assay objects`: the object store behind a store's folder."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.options import StoreOption, TextFormat, TextFormatOption, Verbs, open_store, option_value
from assay.cli.output import say, say_json
from assay.errors import AssayError, StoreError, UsageError
from assay.units import show_bytes, size_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.store.objects.backing import Backing
    from assay.store.store import Store


app = Verbs(help="Keep samples and files in an S3-compatible object store.")

_SHOWN = 10


@app.command("use")
def use(
    url: Annotated[str, typer.Argument(metavar="URL", help="s3://bucket/prefix, or file:///folder.")],
    store: StoreOption = None,
    cache: Annotated[
        str, typer.Option("--cache", metavar="SIZE", help="How much the folder may hold of it, such as 20GB.")
    ] = "",
) -> None:
    """Put an object store behind the store, after it was tried; what lies in the folder is sent by `send`."""
    from dataclasses import replace

    from assay.store.location import store_folder
    from assay.store.objects.backing import Backing, ObjectSettings, chosen, remember, remembered
    from assay.store.objects.files import parse_place
    from assay.store.objects.transfer import tried
    from assay.store.store import Store

    folder, place, room = store_folder(store), parse_place(url), None
    if cache:
        room = option_value(size_bytes, cache, "--cache", code="size")
    previous = remembered(folder)
    moved = previous is not None and previous.place != place and previous.place.is_same_content(place)
    if not moved:
        chosen(folder, place.url)
    there = tried(Backing(folder, ObjectSettings(place)), folder)
    if previous is not None and moved:
        remember(folder, replace(previous, place=place))
    opened = Store(folder, objects=place.url, cache_bytes=room, prompt=False)
    waiting = opened.backing.outbox.count("send") if opened.backing else 0
    opened.close()
    say(f"{folder} is kept in {place.url}")
    if there and previous is None:
        say("files are there already: use it only if they belong to the same database")
    if waiting:
        say(f"{_files(waiting)} to send: `assay objects send`")


@app.command("status")
def status(store: StoreOption = None, form: TextFormatOption = TextFormat.text) -> None:
    """Say which object store it is, whether it answers, and what waits for it; exit code 1 if it does not answer."""
    from assay.store.objects.transfer import only_there

    with _opened(store) as (opened, backing):
        status: dict[str, Any] = {
            "url": backing.url,
            "cache_bytes": backing.settings.cache_bytes,
            "answers": True,
            "problem": "",
            "waiting": backing.outbox.count("send"),
            "to_delete": backing.outbox.count("delete"),
            "only_there": only_there(opened.engine, opened.shelves),
        }
        try:
            backing.attempted(lambda objects: next(objects.list("samples"), None))
        except AssayError as problem:
            status |= {"answers": False, "problem": problem.problem.message}
    if form is TextFormat.json:
        say_json(status)
    else:
        say(f"object store  {status['url']}")
        say(f"answers       {'yes' if status['answers'] else 'no: ' + str(status['problem'])}")
        say(f"to send       {status['waiting']}")
        say(f"to delete     {status['to_delete']}")
        say(f"not here      {status['only_there']}")
    if not status["answers"]:
        raise typer.Exit(1)


@app.command("send")
def send(store: StoreOption = None) -> None:
    """Send what waits, and delete what has to go; exit code 3 if something still waits."""
    with _opened(store) as (opened, backing):
        backing.wake()
        done = opened.work_off()
        if done is None:
            return
        if not done.problems:
            opened.trim()
    say(f"{_files(done.files)} sent, {show_bytes(done.size_bytes)}, {done.deleted} deleted, {done.waiting} waiting")
    if done.problems:
        first = done.problems[0]
        raise StoreError(first.message, code=first.code, at=first.at, try_=first.try_)
    if done.waiting:
        raise StoreError(
            "files still wait: another process is sending, or they came just now",
            code="busy",
            try_="ask again in a moment",
        )


@app.command("verify")
def verify(
    store: StoreOption = None,
    content: Annotated[bool, typer.Option("--content", help="Read every object and compare its SHA-256.")] = False,
    form: TextFormatOption = TextFormat.text,
) -> None:
    """Hold the object store against the records; exit code 1 if files are missing or damaged."""
    from dataclasses import asdict

    from assay.store.objects.transfer import verify as held_against

    with _opened(store) as (opened, backing):
        comparison = held_against(opened.engine, backing, opened.shelves, content=content)
    if form is TextFormat.json:
        say_json(asdict(comparison))
    else:
        say(f"{_files(comparison.named)} named by records, {comparison.in_objects} in {backing.url}")
        _list("on this machine alone, sent next", comparison.waiting)
        _list("missing", comparison.missing)
        _list("damaged", comparison.damaged)
        if comparison.replaced:
            say(f"{len(comparison.replaced)} of these whole on this machine: `assay objects send` replaces them")
        if comparison.unnamed:
            say(f"{_files(comparison.unnamed)} that no record names")
    if comparison.missing or comparison.damaged:
        raise typer.Exit(1)


@app.command("fetch")
def fetch(store: StoreOption = None) -> None:
    """Bring every file that records name into the folder; exit code 1 if some are nowhere or damaged."""
    from assay.store.objects.transfer import fetch_all

    with _opened(store) as (opened, _):
        fetched = fetch_all(opened.engine, opened.shelves, lambda _: None)
    say(f"{_files(fetched.count)} fetched")
    _list("missing", fetched.missing)
    _list("damaged in the object store", fetched.damaged)
    if fetched.missing or fetched.damaged:
        raise typer.Exit(1)


@app.command("forget")
def forget(store: StoreOption = None) -> None:
    """Have the folder alone again; refused while files are in the object store alone. Nothing is deleted there."""
    import shutil

    from assay.store.objects import backing as behind
    from assay.store.objects.transfer import only_there

    with _opened(store) as (opened, backing):
        left, folder = only_there(opened.engine, opened.shelves), opened.folder
    if left:
        raise UsageError(
            f"{_files(left)} would be lost to the store: only {backing.url} has them",
            code="objects-only",
            try_="`assay objects fetch` first",
        )
    behind.forget(folder)
    shutil.rmtree(backing.outbox.folder, ignore_errors=True)
    say(f"{folder} stands alone; what is in {backing.url} stays there")


@contextmanager
def _opened(folder: Path | None) -> Iterator[tuple[Store, Backing]]:
    """The store, which must have an object store behind it."""
    with open_store(folder) as store:
        if store.backing is None:
            raise UsageError(
                "this store has no object store behind it",
                code="no-objects",
                at=str(store.folder),
                try_="assay objects use s3://bucket/prefix",
            )
        yield store, store.backing


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _list(what: str, keys: Sequence[str]) -> None:
    if keys:
        say(f"{_files(len(keys))} {what}")
        for key in keys[:_SHOWN]:
            say(f"  {key}")
        if len(keys) > _SHOWN:
            say(f"  … and {len(keys) - _SHOWN} more")
