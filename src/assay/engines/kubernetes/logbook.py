"""The logs of a campaign's pods: read in turn while they run, and what has come out of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from assay.engines.kubernetes.client.api import SILENT, Api
from assay.engines.kubernetes.delivery import Delivery
from assay.engines.kubernetes.folder import PodFolder
from assay.engines.kubernetes.objects.plan import Group
from assay.engines.kubernetes.objects.pods import SERVICE
from assay.engines.kubernetes.reading import PodLog
from assay.engines.kubernetes.states.observed import PodSeen, Seen
from assay.errors import MeasureError
from assay.run.services.running import tail_of, told
from assay.spec.kubernetes import Kubernetes

# Logs are read so often while pods run: little is lost with a pod. All together no more than so many a second.
_READ_S, _READS_PER_S = 2.0, 10.0
# A node that does not give out a log is left alone for so long: it may take half a minute to say nothing.
_SILENT_S = 30.0


@dataclass(slots=True)
class Logbook:
    """What the pods of a campaign write."""

    api: Api
    folder: PodFolder
    section: Kubernetes
    tell: Callable[[str], None]
    _deliveries: dict[str, Delivery] = field(default_factory=dict)
    """Uid of a pod → what comes out of it."""
    _services: dict[str, PodLog] = field(default_factory=dict)
    _services_s: float = 0.0

    def deliveries(self, index: int, ranks: Mapping[int, PodSeen]) -> dict[int, Delivery]:
        """What comes out of the pods of a job, by rank."""
        for rank, pod in ranks.items():
            if pod.uid not in self._deliveries:
                server = self.section.server if self.section.results == "server" else None
                out, words = self.folder.rank_out(index, rank), self.folder.log(index, rank)
                self._deliveries[pod.uid] = Delivery.of(
                    self.api, pod.name, out, words, self.tell, python=self.section.python, server=server
                )
        return {rank: self._deliveries[pod.uid] for rank, pod in sorted(ranks.items())}

    def read(self, running: Iterable[Delivery]) -> None:
        """Read the logs of pods that run, those whose turn it is; whether a server is silent others find out.

        Raises:
            MeasureError: if this account may not read logs.
        """
        every = list(running)
        due_s = max(_READ_S, len(every) / _READS_PER_S)
        for one in every:
            if time.monotonic() - one.read_s < due_s or one.is_told:
                continue
            try:
                one.read()
            except MeasureError as problem:
                if problem.problem.code != SILENT:
                    raise
                one.read_s = time.monotonic() + _SILENT_S

    def is_time_for_services(self) -> bool:
        """Whether the logs of services are to be read again."""
        if time.monotonic() - self._services_s < 2 * _READ_S:
            return False
        self._services_s = time.monotonic()
        return True

    def read_service(self, group: Group, name: str, found: Seen) -> None:
        """Read what a service has written, as far as its node gives it out."""
        for pod in found.pods:
            if pod.uid not in self._services:
                self._services[pod.uid] = PodLog(self.api, pod.name, SERVICE, self.folder.service_log(group.name, name))
            with suppress(MeasureError):
                self._services[pod.uid].read()

    def last_words(self, group: Group, name: str) -> str:
        """What a service wrote last, as the end of a message; empty where nothing came out of it."""
        lines = tail_of(self.folder.service_log(group.name, name))
        return told(lines) if lines else ""

    def of_job(self, index: int, group: Group) -> dict[str, Path]:
        """What the pods of a job and its services wrote, as far as it was read."""
        own = {"pod.log": self.folder.log(index)}
        own |= {f"pod-{rank}.log": self.folder.log(index, rank) for rank in range(1, group.pods)}
        own |= {f"service-{one.name}.out": self.folder.service_log(group.name, one.name) for one in group.services}
        return {name: path for name, path in own.items() if path.is_file()}
