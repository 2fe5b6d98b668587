"""Holds one service of a group on a node: `python -m assay.engines.slurm.node.service FOLDER GROUP NAME`.

It publishes the service when it is ready and its model is warm, and holds it until the group's `stop` file, a signal
or the loss of its parent asks for the end. A service that fails says so in a file, so that no job waits for it.
Whatever ends this process, the keeper below it ends everything that the service started.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from assay.engines.node import TerminationRequest, TerminationWatch, warm_facts
from assay.engines.slurm.folder import SharedFolder
from assay.engines.slurm.node.context import CODE, NodeCampaign, SubmissionWatch, job_at, read_known
from assay.engines.slurm.node.monitor import watched
from assay.engines.slurm.node.publication import await_services, publish, publish_failure
from assay.errors import AssayError, MeasureError, Problem
from assay.folders import cache_folder
from assay.plan.job import Job
from assay.run.endpoint import metrics_url
from assay.run.fetch import fetched_service
from assay.run.scratch import scratch_folder
from assay.run.services import RunningService, exit_of, held, refuse_ended, service_spec
from assay.run.services.discovery import node_address, node_name
from assay.run.services.plan import named
from assay.spec.benchmark import Service
from assay.spec.target import Served, ServiceTarget

FAILED, ENDED_BY_SIGNAL = 1, 143


def main(arguments: list[str]) -> int:
    """Hold a service until it is to end."""
    folder, group, name = SharedFolder(Path(arguments[0])), arguments[1], arguments[2]
    watchman = TerminationWatch(folder.stop(group), SubmissionWatch(folder, f"{group}-end").abandoned)
    watchman.listen()
    try:
        campaign = read_known(folder)
        if campaign.group(group).kind == "steps":  # one batch job holds all of it, and ends with its clients
            watchman.in_good_hands()
        _Holding(folder, group, name, _job(folder, campaign, group, name), watchman).hold()
    except TerminationRequest:
        return _ended(folder, group, name, watchman)
    except AssayError as failure:
        _say(str(failure))
        publish_failure(folder, group, name, failure.problem)
        return FAILED
    except Exception as failure:
        publish_failure(folder, group, name, Problem("service", f"{type(failure).__name__}: {failure}"))
        raise
    return 0


@dataclass(slots=True)
class _Holding:
    """One service of a group."""

    folder: SharedFolder
    group: str
    name: str
    job: Job
    watchman: TerminationWatch

    @property
    def section(self) -> Service:
        return self.job.definition.services[self.name]

    def hold(self) -> None:
        """Start the service, publish it, and hold it."""
        logs = self.folder.services(self.group)
        logs.mkdir(parents=True, exist_ok=True)
        for old in (self.folder.service(self.group, self.name), self.folder.failed_service(self.group, self.name)):
            old.unlink(missing_ok=True)  # a requeued job starts from scratch
        self.watchman.check()
        named, host = self._those_named(), node_address()
        with (
            watched(
                self.folder,
                {"group": self.group},
                who=f"{self.group}-{self.name}",
                services=[self.name],
                paths=self._paths(),
                host=host,
                notify=_say,
            ),
            scratch_folder() as scratch,
            fetched_service(self.name, self.section, Path(self.job.base), cache_folder()) as section,
            held(
                {self.name: section},
                Path(self.job.base),
                scratch,
                known=named,
                notify=self._notify,
                host=host,
                logs=logs,
            ) as running,
        ):
            self._publish(running[self.name])
            self._until_it_ends(running[self.name])

    def _paths(self) -> dict[str, str]:
        """Where the service's own metrics are, if the file says so."""
        target = self.job.definition.target
        own = isinstance(target, ServiceTarget) and target.service == self.name
        return {self.name: target.metrics} if own and isinstance(target, Served) and target.metrics else {}

    def _those_named(self) -> dict[str, RunningService]:
        """The services whose address this one wants to know, once they are ready."""
        others = named(service_spec(self.name, self.section))
        services = {
            name: self.job.definition.services[name] for name in sorted(others & set(self.job.definition.services))
        }
        return await_services(self.folder, self.group, services, notify=_say, unless=self.watchman.check)

    def _publish(self, running: RunningService) -> None:
        facts = warm_facts(self.name, running.base_url, self.job.definition, self.watchman.check)
        refuse_ended([running])
        publish(
            self.folder,
            self.group,
            replace(running, facts={**running.facts, **facts}),
            node=node_name(),
            slurm_job=os.environ.get("SLURM_JOB_ID", ""),
            metrics=metrics_url(self._paths().get(self.name), running.base_url),
        )
        _say(f"{self.name} is ready at {running.base_url}, {running.start_to_ready_s:.1f} s after its start")

    def _until_it_ends(self, running: RunningService) -> None:
        while exit_of(running) is None:
            self.watchman.wait()
        # A batch system signals all processes of a job together: the service may end before our own signal arrives.
        for _ in range(_LAST_READS):
            self.watchman.wait()
        refuse_ended([running])

    def _notify(self, note: str) -> None:
        _say(note)
        self.watchman.check()


_LAST_READS = 3


def _job(folder: SharedFolder, known: NodeCampaign, group: str, name: str) -> Job:
    job = job_at(folder, known.group(group), 0)
    if name not in job.definition.services:
        there = ", ".join(job.definition.services) or "none"
        raise MeasureError(f"there is no service {name!r} in group {group} (there is {there})", code="service")
    return job


def _ended(folder: SharedFolder, group: str, name: str, watchman: TerminationWatch) -> int:
    _say(f"{name} was ended: {watchman.why}")
    if watchman.stopped:
        return 0
    if watchman.left_alone:
        message = f"the service {name} ended by itself: {watchman.why}"
        problem = Problem(CODE, message, f"services.{name}", "attach to the campaign, which submits it again")
    else:
        message = f"the service {name} was ended from outside ({watchman.why})"
        problem = Problem(
            "service-ended", message, f"services.{name}", "raise the time limit of its batch job, or run again"
        )
    publish_failure(folder, group, name, problem)
    return ENDED_BY_SIGNAL


def _say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
