"""Everything that the programs of a job need, at hand for as long as it is measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from assay.plan.job import Job
from assay.run.fetching.having import Had, Progress, have
from assay.run.fetching.placing import placed, service_placed
from assay.run.packing import pack
from assay.run.scratch import scratch_folder
from assay.spec.benchmark import Definition, Service
from assay.spec.fetching import Fetch, in_folders
from assay.spec.paths import fetches
from assay.spec.target import CommandTarget

Facts = dict[str, JsonValue]


@contextmanager
def at_hand(
    job: Job,
    cache: Path,
    *,
    begin: Callable[[], None] = lambda: None,
    on_progress: Progress | None = None,
    running: Collection[str] = (),
) -> Iterator[tuple[Job, Facts]]:
    """Fetch what the programs of a job need and pack its code, and give the job that finds both.

    Costs nothing where a job needs neither.

    Args:
        running: services that run already, which need nothing more.

    Raises:
        MeasureError: if something cannot be had, or is another file than its digest says.
    """
    there = {f"services.{name}" for name in running}
    wanted = {owner: every for owner, every in fetches(job.definition).items() if owner not in there}
    if not wanted and getattr(job.definition.target, "code", None) is None:
        yield job, {}
        return
    begin()
    base = Path(job.base)
    definition, facts = _with_code(job.definition, base, cache)
    with scratch_folder() as folder:
        if wanted:
            had = {owner: _had(owner, every, base, cache, on_progress) for owner, every in wanted.items()}
            definition = placed(definition, had, folder)
            facts["fetched"] = {owner: [one.facts() for one in every] for owner, every in had.items()}
        yield replace(job, definition=definition), facts


@contextmanager
def service_at_hand(name: str, service: Service, base: Path, cache: Path) -> Iterator[Service]:
    """Fetch what one service needs, where it is started by itself, and give the service that finds it.

    Raises:
        MeasureError: if something cannot be had, or is another file than its digest says.
    """
    if not service.fetch:
        yield service
        return
    owner = f"services.{name}"
    with scratch_folder() as folder:
        yield service_placed(service, _had(owner, service.fetch, base, cache, None), folder / owner)


def _with_code(definition: Definition, base: Path, cache: Path) -> tuple[Definition, Facts]:
    """The definition whose code is the packed file, the same for all runs, and what that file is."""
    target = definition.target
    if not isinstance(target, CommandTarget) or target.code is None:
        return definition, {}
    packed = pack(base / Path(target.code).expanduser(), cache)
    told: Facts = {"name": target.code, "sha256": packed.sha256, "size_bytes": packed.size_bytes, "files": packed.files}
    found = target.model_copy(update={"code": str(packed.path.absolute())})
    return definition.model_copy(update={"target": found}), {"code": told}


def _had(
    owner: str, wanted: tuple[Fetch, ...], base: Path, cache: Path, on_progress: Progress | None
) -> tuple[Had, ...]:
    return tuple(
        had
        for index, one in enumerate(in_folders(wanted))
        for had in have(one, f"{owner}.fetch[{index}]", base, cache, on_progress)
    )
