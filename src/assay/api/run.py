"""`assay.run`: one benchmark on this machine, on a server's fleet or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.clock import SYSTEM_CLOCK, Clock
from assay.engines.local import run_here
from assay.hardware.fitness.lock import mode_from
from assay.hardware.fitness.session import DeviceSession
from assay.report.live import SilentView, View
from assay.report.result import CampaignResult, kept_result
from assay.spec.benchmark import Benchmark
from assay.spec.load import Loaded, load
from assay.store.location import cache_folder, store_folder
from assay.store.store import Store

if TYPE_CHECKING:
    from assay.engines.base import FollowOptions


def run(
    benchmark: str | Path | Mapping[str, Any] | Benchmark | Loaded,
    *,
    store: str | Path | None = None,
    fresh: bool = False,
    view: View | None = None,
    clock: Clock = SYSTEM_CLOCK,
    server: str | None = None,
    lock: str | None = None,
    control: bool = True,
    manner: FollowOptions | None = None,
    objects: str | None = None,
) -> CampaignResult:
    """Run a benchmark on this machine, on a server's fleet or on a cluster, and return its results.

    Args:
        benchmark: a file, a mapping of the same shape, a `Benchmark`, or one that was loaded before.
        store: folder that results are kept in; the user's own by default.
        fresh: measure everything again, even where an interrupted campaign could go on.
        view: shows progress; nothing by default.
        server: URL of a server whose agents measure; its token is read from ASSAY_TOKEN. For a benchmark on a cluster,
            progress is reported to it.
        lock: what to do about a device on which another process measures: `wait`, `try` (go on beside it; a check then
            fails) or `off`; from ASSAY_LOCK, else `wait`, when left out.
        control: whether the control workload is timed, where the benchmark has it.
        manner: on a cluster, whether to stay until the end and what Ctrl-C means.
        objects: object store that samples and files also go to; from ASSAY_OBJECTS, else as the store remembers it.

    Raises:
        SpecError: if the benchmark is wrong, with all its problems.
        StoreError: if results cannot be kept.
    """
    loaded = benchmark if isinstance(benchmark, Loaded) else load(benchmark)
    clustered = loaded.benchmark.place.on_cluster
    if server is not None and not clustered:
        from assay.engines.fleet import run_on

        return run_on(server, loaded, view or SilentView())
    view, folder, mode = view or SilentView(), store_folder(store), mode_from(lock)
    with closing(Store(folder, objects=objects)) as results:
        if clustered:
            from assay.engines import drive
            from assay.engines.base import FollowOptions, RunOptions

            follow = _reporting(server, manner or FollowOptions())
            options = RunOptions(fresh=fresh, lock=lock, control=control, follow=follow)
            record = drive.run(loaded, results, view, clock, options)
        else:
            devices = DeviceSession(mode, cache_folder(), view.waiting, control=control)
            record = run_here(loaded, results, view, clock, devices, fresh=fresh)
    return kept_result(folder, record)


def _reporting(server: str | None, options: FollowOptions) -> FollowOptions:
    if server is None:
        return options
    from assay.place.fleet.client import FleetClient, read_token

    return replace(options, server=FleetClient(server, read_token()))
