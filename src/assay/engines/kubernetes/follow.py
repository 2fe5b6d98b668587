"""Following a campaign through Kubernetes until every job has ended: submits what is due, takes in what has come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from assay.clock import Clock
from assay.engines.base import FailureReason
from assay.engines.collect import Ended, collect, has_result
from assay.engines.kubernetes.client.api import SILENT, Api
from assay.engines.kubernetes.client.watch import Watching, watching
from assay.engines.kubernetes.failures import DELETED, lost_node
from assay.engines.kubernetes.folder import KubernetesCampaign, PodFolder
from assay.engines.kubernetes.objects.plan import Group
from assay.engines.kubernetes.observation import Observation
from assay.engines.kubernetes.phases import phase_of
from assay.engines.kubernetes.pod_logs import Delivery, Logbook
from assay.engines.kubernetes.ranks import refused_by_rank
from assay.engines.kubernetes.shown import Shown
from assay.engines.kubernetes.submit import Submitter
from assay.engines.kubernetes.teardown import remove_job, remove_shared
from assay.engines.kubernetes.telling import standing
from assay.engines.kubernetes.told import Looker, environment_of, has_ended, lasted, pods_by_rank
from assay.engines.node.progress import Progress
from assay.engines.reporting import NullReporter, Reporter
from assay.errors import MeasureError
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL
from assay.report.live import View
from assay.store.store import Store

# Kubernetes says by itself when something changes; in between logs are read, and clocks looked at.
_PAUSE_S = 1.0
# A job whose first pod is done waits so long for its other pods to end by themselves.
_OTHERS_S = 30.0
# A node that does not give out what a job left, while the cluster answers, is asked for so long.
_UNREAD_S = 60.0
# How often a server is told how the jobs stand.
_RELAY_S = 2.0
_CANCELLED = "cancelled"


@dataclass(slots=True)
class Follower:
    """One process that follows one campaign."""

    store: Store
    folder: PodFolder
    campaign: KubernetesCampaign
    api: Api
    view: View
    clock: Clock
    submitter: Submitter
    relay: Reporter = field(default_factory=NullReporter)
    _open: dict[int, Job] = field(default_factory=dict)
    """Jobs that have not ended, as the store has them."""
    _running: set[int] = field(default_factory=set)
    _doomed: dict[str, FailureReason] = field(default_factory=dict)
    """Group → why its services cannot be used."""
    _ended_groups: set[str] = field(default_factory=set)
    _done_s: dict[int, float] = field(default_factory=dict)
    """Job → since when its first pod has handed everything out."""
    _unread_s: dict[int, float] = field(default_factory=dict)
    """Job that ended → since when its node does not give out what it left."""
    _stands: dict[int, Observation] = field(default_factory=dict)
    """Job that was submitted and has not ended → what was last seen of it."""
    _relayed_s: float = -_RELAY_S
    _parts: tuple[Shown, Looker, Logbook] | None = None

    def follow(self) -> None:
        """Look until every job has ended.

        Raises:
            MeasureError: if Kubernetes refuses for good what is asked of it.
            StoreError: if results cannot be kept.
        """
        _, stored = self.store.campaign(self.campaign.campaign)
        self._open = {one.job.index: one.job for one in stored if one.state not in FINAL}
        self._running = {one.job.index for one in stored if one.state == "running"}
        with watching(self.api, self.campaign.campaign) as watch:
            logbook = Logbook(self.api, self.folder, self.campaign.section, self.view.note)
            self._parts = (Shown(self.view), Looker(self.api, self.campaign, watch), logbook)
            watch.wait_listed()
            self.submitter.adopt(watch.objects("Job"))
            while self._open:
                self._patient_step(watch)
                if self._open:
                    watch.wait(_PAUSE_S)
            self._patiently_end_groups(watch)

    def _patient_step(self, watch: Watching) -> None:
        """Look once; a server that is silent now is waited for."""
        try:
            watch.refuse_lasting()
            self.step()
            problem = watch.trouble()
        except MeasureError as told:
            if told.problem.code not in (SILENT, _CANCELLED):
                raise
            problem = told if told.problem.code == SILENT else None
        if problem is None:
            self._shown.forget("silent")
        else:
            self._shown.once("silent", f"{problem.problem.message}; the campaign goes on, waiting for the server")

    def _patiently_end_groups(self, watch: Watching) -> None:
        """Remove the services of the last groups, however long the server is silent."""
        while True:
            self._patient_step(watch)
            if all(group.name in self._ended_groups for group in self.campaign.groups):
                return
            watch.wait(_PAUSE_S)

    @property
    def _shown(self) -> Shown:
        return self._begun[0]

    @property
    def _look(self) -> Looker:
        return self._begun[1]

    @property
    def _logbook(self) -> Logbook:
        return self._begun[2]

    @property
    def _begun(self) -> tuple[Shown, Looker, Logbook]:
        if self._parts is None:
            raise AssertionError("following begins with follow()")
        return self._parts

    def step(self) -> None:
        """Submit what is due, take in what has ended, look after services."""
        cancelled = self.folder.is_cancelled
        if not cancelled:
            self._submit_due()
        self._look.look()
        waiting, running = self._consider_all(cancelled=cancelled)
        self._care_for_services()
        self._end_groups()
        now, total = self.clock.utc(), len(self.submitter.jobs)
        self._shown.look(waiting, running, list(self._progress()), total - len(self._open), total, now)
        self._relay_standings()

    def _relay_standings(self) -> None:
        """Tell a server how the jobs stand; seldom, since nobody reads faster."""
        now_s = time.monotonic()
        if isinstance(self.relay, NullReporter) or now_s - self._relayed_s < _RELAY_S:
            return
        self._relayed_s, now = now_s, self.clock.utc()
        self.relay.stands(
            standing(self._open[index], found, self._far(index, found), now) for index, found in self._stands.items()
        )

    def _far(self, index: int, found: Observation) -> Progress | None:
        first = self._deliveries(index, found).get(0) if index in self._running else None
        return None if first is None else first.progress

    # Submitting

    def _submit_due(self) -> None:
        """Submit jobs whose turn has come: groups in order, and of each only as many as may be there at once."""
        for group in self.campaign.groups:
            ahead = next((one for one in self.campaign.groups if one.name == group.after), None)
            here = [index for index in group.jobs if index in self._open]
            if not here or (ahead is not None and ahead.name not in self._ended_groups):
                continue
            left = [index for index in here if not self.submitter.is_begun(index)]
            room = len(left) if group.at_once is None else group.at_once - (len(here) - len(left))
            due = left[: max(0, room)]
            if due or group.name not in self.submitter.noted.groups:
                self.submitter.submit(group, due)

    def submit_first(self) -> int:
        """Hand over what may be there at once, without following it; return how many jobs are left for later.

        Raises:
            MeasureError: if Kubernetes refuses it or does not answer.
        """
        _, stored = self.store.campaign(self.campaign.campaign)
        self._open = {one.job.index: one.job for one in stored if one.state not in FINAL}
        self._submit_due()
        return sum(not self.submitter.is_begun(index) for index in self._open)

    # Jobs

    def _consider_all(self, *, cancelled: bool) -> tuple[list[Observation], list[Observation]]:
        """Take in every job that has ended; return those that wait and those that run."""
        waiting: list[Observation] = []
        running: list[Observation] = []
        self._logbook.read(
            one for index in self._running for one in self._deliveries(index, self._seen(index)).values()
        )
        for index in list(self._open):
            if self.submitter.is_begun(index):
                found = self._consider(index, by_us=cancelled)
                if found is not None:
                    self._stands[index] = found
                    (running if phase_of(found) == "running" else waiting).append(found)
            elif cancelled:
                told = FailureReason(_CANCELLED, "the campaign was cancelled before it was submitted", "run it again")
                self._collect(index, None, told, by_us=True)
        return waiting, running

    def _seen(self, index: int, *, events: bool = False, sure: bool = False) -> Observation:
        group, own = self.campaign.group_of(index), self.submitter.noted.jobs.get(index, {})
        return self._look.job(group, self.submitter.jobs[index], own, events=events, sure=sure)

    def _deliveries(self, index: int, found: Observation) -> dict[int, Delivery]:
        return self._logbook.deliveries(index, pods_by_rank(found.pods, self._look.documents(index)))

    def _lacking(self, index: int, found: Observation) -> dict[str, str]:
        """What did not come out of the first pod of a job, and why."""
        first = self._deliveries(index, found).get(0)
        return {} if first is None else first.absent

    def _consider(self, index: int, *, by_us: bool) -> Observation | None:
        """One job that was submitted: what is known of it while it goes on, None once it was taken in."""
        group, now, found = self.campaign.group_of(index), self.clock.utc(), self._seen(index)
        if has_ended(found, now, self._look.gone) or self._is_delivered(index, found):
            return None if self._is_finished(index, by_us=by_us) else found
        if phase_of(found) == "waiting":
            # Why no node is found stands in the pod itself; events tell why there is no pod, or none that starts.
            found = self._seen(index, events=not found.pods or any(pod.node for pod in found.pods))
            told = self._look.told_of(found, group, now) or self._doomed.get(group.name)
            if told is not None:
                self._collect(index, found, told, by_us=by_us)
                return None
        elif group.name in self._doomed:
            self._collect(index, found, self._doomed[group.name], by_us=by_us)
            return None
        elif index not in self._running:
            self._running.add(index)
            self.store.move_job(self._open[index].id, "start")
        return found

    def _is_delivered(self, index: int, found: Observation) -> bool:
        """Whether the first pod has handed out everything, and the others need not be waited for."""
        first = self._deliveries(index, found).get(0)
        if first is None or not first.is_told:
            return False
        since_s = self._done_s.setdefault(index, time.monotonic())
        others = sum(not pod.is_over for pod in found.pods) > 1
        return not others or time.monotonic() - since_s > _OTHERS_S

    def _is_finished(self, index: int, *, by_us: bool) -> bool:
        """Whether a job that ended could be taken in: a node that is silent now is asked again for a while.

        Raises:
            MeasureError: if the whole cluster is silent.
        """
        try:
            self._finish(index, by_us=by_us)
        except MeasureError as problem:
            if problem.problem.code != SILENT or self._look.watching.trouble() is not None:
                raise
            since_s = self._unread_s.setdefault(index, time.monotonic())
            if time.monotonic() - since_s < _UNREAD_S:
                return False
            self._finish(index, by_us=by_us, ask=False)
        return True

    def _finish(self, index: int, *, by_us: bool, ask: bool = True) -> None:
        """A job that ended: everything that can still be had of it, or why it left no result."""
        group, job = self.campaign.group_of(index), self.submitter.jobs[index]
        found = self._seen(index, sure=True)
        ranks = pods_by_rank(found.pods, self._look.documents(index))
        ask = ask and lost_node(found) is None  # nobody answers there
        for rank, one in self._deliveries(index, found).items():
            there = ask and ranks[rank].uid not in self._look.gone
            one.finish(runs=there and not ranks[rank].is_over, there=there)
        told = refused_by_rank(self.folder, group, job)
        if told is None and not has_result(self.folder, job):
            found = self._seen(index, events=True, sure=True)
            told = self._look.told_of(found, group, self.clock.utc()) or _no_result(found)
        self._collect(index, found, told, by_us=by_us)

    def _collect(self, index: int, found: Observation | None, told: FailureReason | None, *, by_us: bool) -> None:
        """Take in what a job left, and remove its objects."""
        group, job = self.campaign.group_of(index), self._open[index]
        if by_us and told is not None and told.code == DELETED:
            told = FailureReason(_CANCELLED, "the campaign was cancelled before it had ended", "run it again")
        services = {one.name: self._look.service(group, one.name) for one in group.services}
        for name, one in services.items():
            self._logbook.read_service(group, name, one)
        ranks = {} if found is None else pods_by_rank(found.pods, self._look.documents(index))
        about = {} if found is None else environment_of(found, group, self.campaign, services)
        lacking = {} if found is None else self._lacking(index, found)
        logs = self._logbook.of_job(index, group)
        ended = Ended(lasted(ranks.get(0)), told, logs, about, by_us, final=True, lacking=lacking)
        result = collect(self.store, self.folder, job, ended, self.clock.utc())
        self._open.pop(index, None)
        self._running.discard(index)
        self._stands.pop(index, None)
        self.view.job_done(result)
        self.relay.ended(index)
        remove_job(self.api, self.submitter.noted.jobs.get(index, {}))

    def _progress(self) -> Iterator[str]:
        for index in sorted(self._running)[:4]:
            far = self._far(index, self._seen(index))
            if far is not None:
                yield f"job {index} {far}"

    # Services

    def _care_for_services(self) -> None:
        """A service that cannot be used dooms the jobs that wait for it: nobody waits in vain."""
        read = self._logbook.is_time_for_services()
        for group in self.campaign.groups:
            if group.name in self._ended_groups or group.name not in self.submitter.noted.groups:
                continue
            for one in group.services:
                self._care_for(group, one.name, read=read)

    def _care_for(self, group: Group, name: str, *, read: bool) -> None:
        found = self._look.service(group, name)
        self._shown.service(name, found)
        if read:
            self._logbook.read_service(group, name, found)
        if not any(pod.ready for pod in found.pods) or _is_troubled(found):
            found = self._look.service(group, name, events=True)
        told = self._look.told_of_service(name, found, group, self.clock.utc())
        if told is not None and group.name not in self._doomed:
            self._logbook.read_service(group, name, found)
            told = replace(told, message=f"{told.message}{self._logbook.last_words(group, name)}")
            self._doomed[group.name] = told
            self._shown.once(f"doomed {group.name}", f"{told.message}; {told.try_}")

    def _end_groups(self) -> None:
        """Remove the services of a group once its jobs have ended."""
        for group in self.campaign.groups:
            if group.name in self._ended_groups or any(index in self._open for index in group.jobs):
                continue
            if (group.services or group.meets) and group.name in self.submitter.noted.groups:
                remove_shared(self.api, self.campaign.campaign, group.name)
            self._ended_groups.add(group.name)


def _is_troubled(found: Observation) -> bool:
    return any(box.restarts or box.state == "ended" for pod in found.pods for box in pod.containers)


def _no_result(found: Observation) -> FailureReason:
    """A job that ended well for all that Kubernetes knows, and whose result did not come."""
    return FailureReason(
        "kubernetes-failed",
        f"the Job {found.name} ended and its result did not come out of its pod",
        "look into its log with `assay logs`; does the node keep less than 10 MiB of a log (containerLogMaxSize)?",
    )
