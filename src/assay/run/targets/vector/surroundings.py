"""What happens around a load: the service that answers, its processor time, and what probes see of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from assay.run.contract import Order
from assay.run.probes import ServiceProbe, service_probe
from assay.run.services import RunningService, refuse_ended
from assay.run.targets.vector.report import Findings
from assay.spec.target import Tls


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a search is answered. A library is answered in this process and has none of this."""

    service: RunningService | None = None
    """The service that is measured, where we started it."""
    pid: int | None = None
    """First process of what answers, where it runs on this machine."""
    shared: Mapping[str, RunningService] = field(default_factory=dict)
    """Services that all runs of the job share."""
    metrics_url: str | None = None
    metrics_address: str | None = None
    """Where the metrics are read, where that was checked."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """As they stand in the file: secrets are references."""
    tls: Tls = field(default_factory=Tls)

    def cpu_s(self) -> float:
        """Processor time of this process and of what answers: both belong to the measurement."""
        own = time.process_time()
        if self.pid is None:
            return own
        try:
            first = psutil.Process(self.pid)
            return own + sum(sum(one.cpu_times()[:2]) for one in (first, *first.children(recursive=True)))
        except psutil.Error:
            return own

    def describe(self, found: Findings) -> None:
        """Note how the service came up."""
        if self.service is None:
            return
        shared = self.service.name in self.shared
        found.facts["service"] = {
            "name": self.service.name,
            "how": self.service.how,
            **dict(self.service.facts),
            "shared": shared,
        }
        if shared:
            found.absent["start_to_ready_s"] = "all runs of the job share the service, so its start is not theirs"
        else:
            found.metrics["start_to_ready_s"] = self.service.start_to_ready_s

    @contextmanager
    def watched(self, order: Order) -> Iterator[ServiceProbe | None]:
        """Watch a service of ours, or the metrics that it shows; a plain endpoint is left alone."""
        scrapes = {} if self.metrics_url is None else {"service": self.metrics_url}
        pids = {"service": self.service.pid} if self.service is not None and self.service.pid else {}
        if not scrapes and not pids:
            yield None
            return
        ca = None if self.tls.ca is None else str(Path(order.job.base) / self.tls.ca)
        addresses = {} if self.metrics_address is None else {"service": self.metrics_address}
        with service_probe(
            scratch=Path(order.scratch),
            scrapes=scrapes,
            pids=pids,
            headers=self.headers,
            verify=self.tls.verify,
            ca=ca,
            addresses=addresses,
        ) as probe:
            yield probe

    def keep(self, probe: ServiceProbe | None, window: tuple[int, int], found: Findings) -> None:
        """Keep what a probe saw in the measured window.

        Raises:
            MeasureError: if the service has ended by itself meanwhile.
        """
        refuse_ended([self.service] if self.service is not None else [])
        if probe is None:
            return
        seen = probe.finish(window)
        found.facts["telemetry"] = dict(seen.facts)
        if seen.server_view:
            found.facts["server_view"] = {source: dict(view) for source, view in seen.server_view.items()}
        found.absent |= dict(seen.absent)
        if seen.file is not None:
            found.files[seen.file.name] = seen.file
