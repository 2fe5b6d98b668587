"""`assay.run`: one benchmark on this machine, on a server's fleet or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.clock import SYSTEM_CLOCK, Clock
from assay.engines import drive
from assay.engines.base import Engine, FollowOptions, PlacementOptions, RunOptions, engine_named
from assay.hardware.fitness.lock import mode_from
from assay.report.live import SilentView, View
from assay.report.result import CampaignResult
from assay.spec.benchmark import Benchmark
from assay.spec.load import Loaded, load
from assay.store.location import store_folder
from assay.store.store import Store

if TYPE_CHECKING:
    from assay.place.fleet.client import FleetClient


def run(
    benchmark: str | Path | Mapping[str, Any] | Benchmark | Loaded,
    *,
    store: str | Path | None = None,
    fresh: bool = False,
    view: View | None = None,
    clock: Clock = SYSTEM_CLOCK,
    server: str | FleetClient | None = None,
    lock: str | None = None,
    control: bool = True,
    follow: FollowOptions | None = None,
    placement: PlacementOptions | None = None,
    objects: str | None = None,
) -> CampaignResult:
    """Run a benchmark on this machine, on a server's fleet or on a cluster, and return its results.

    Args:
        benchmark: a file, what else `assay run` takes (a model, the URL of an endpoint), a mapping of the same shape
            as a file, a `Benchmark`, or one that was loaded before.
        store: folder that results are kept in; the user's own by default.
        fresh: measure everything again, even where an interrupted campaign could be continued.
        view: shows progress; nothing by default.
        server: URL of a server whose agents measure; its token is read from ASSAY_TOKEN. For a benchmark on a cluster,
            progress is reported to it.
        lock: what to do about a device on which another process measures: `wait`, `try` (measure anyway; a check then
            fails) or `off`; from ASSAY_LOCK, else `wait`, when left out.
        control: whether the control workload is timed, where the benchmark has it.
        follow: on a fleet or cluster, whether to stay until the end and what Ctrl-C means.
        placement: how a fleet should place the jobs, beside what the file says.
        objects: object store that samples and files also go to; from ASSAY_OBJECTS, else as the store remembers it.

    Raises:
        SpecError: if the benchmark is wrong, with all its problems.
        StoreError: if results cannot be kept.
    """
    loaded = benchmark if isinstance(benchmark, Loaded) else _loaded(benchmark)
    client = _connected(server) if isinstance(server, str) else server
    follow = replace(follow or FollowOptions(), server=client)
    options = RunOptions(fresh, lock, control, follow, placement or PlacementOptions())
    result = measure(loaded, options, view or SilentView(), clock, store=store, objects=objects)
    if not engine_for(loaded, client).IS_SERVED:
        return result
    from assay.engines.shared_load import beside_parts

    return beside_parts(result)


def measure(
    loaded: Loaded,
    options: RunOptions,
    view: View,
    clock: Clock = SYSTEM_CLOCK,
    *,
    store: str | Path | None = None,
    objects: str | None = None,
) -> CampaignResult:
    """Run a benchmark on the engine that it and a server name; loads that machines shared are left in their parts."""
    mode_from(options.lock)  # a wrong word is refused before anything else happens
    client = options.follow.server
    engine = engine_for(loaded, client)
    if engine.IS_SERVED and client is not None:
        return drive.run(engine, loaded, client, view, clock, options)
    with closing(Store(store_folder(store), objects=objects)) as results:
        return drive.run(engine, loaded, results, view, clock, options)


def engine_for(loaded: Loaded, client: FleetClient | None) -> type[Engine[Any, Any]]:
    """The engine that a benchmark runs on: the fleet of a server that was named, unless its file names a cluster."""
    place = loaded.benchmark.place
    return engine_named("fleet" if client is not None and not place.on_cluster else place.engine)


def _loaded(benchmark: str | Path | Mapping[str, Any] | Benchmark) -> Loaded:
    if not isinstance(benchmark, str):
        return load(benchmark)
    from assay.api.one_line import RunRequest, load_request

    return load_request(RunRequest((benchmark,)))


def _connected(server: str) -> FleetClient:
    from assay.place.fleet.client import FleetClient, read_token

    client = FleetClient(server, read_token())
    client.greet()
    return client
