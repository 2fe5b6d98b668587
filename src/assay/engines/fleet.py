"""The same campaign on a server's fleet: upload what it needs, submit it, follow it, read its results back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.clock import wall_time
from assay.documents import from_json
from assay.errors import MeasureError, UsageError
from assay.hardware.environment import git_state
from assay.place.fleet.client import AWAY, FleetClient, read_token
from assay.place.fleet.protocol import Submission
from assay.plan.job import JobFile
from assay.plan.lifecycle import FINAL
from assay.report.live import View
from assay.report.result import CampaignResult
from assay.report.sheet import plain
from assay.run.inputs import LocalPart, files_of
from assay.run.job_files import local_paths
from assay.run.models.sources import existing, hub_name
from assay.run.records import SampleSet
from assay.spec.load import Loaded

# While nothing is pushed, how often to ask; also the wait before asking again after the server went away.
POLL_S = 1.0
_PAGE = 500


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """How a campaign should be placed, beside what its file says."""

    priority: int | None = None
    deadline_s: float | None = None
    agent: str = ""
    spread: Literal["any", "spread", "pack"] | None = None
    unplaceable: Literal["wait", "fail"] | None = None


def run_on(server: str, loaded: Loaded, view: View) -> CampaignResult:
    """Measure a benchmark on a server's fleet and return its results, those of shared loads put together."""
    from assay.engines.shared_load import beside_parts

    client = FleetClient(server, read_token())
    client.greet()
    return beside_parts(follow(client, submit(loaded, client, PlacementOptions(), view), view))


def submit(loaded: Loaded, client: FleetClient, wishes: PlacementOptions, view: View) -> str:
    """Hand a benchmark to a server, with the files it names; return the campaign's id."""
    answer = client.submit(submission_of(loaded, client, wishes, view))
    for line in placement_lines(answer["placement"]):
        view.note(line)
    if scheduled := answer.get("schedule"):
        view.note(_schedule_line(scheduled))
    return str(answer["id"])


def submission_of(loaded: Loaded, client: FleetClient, wishes: PlacementOptions, view: View) -> Submission:
    """What to hand to a server; the files that it names are uploaded first."""
    parts = _local_files(loaded)
    _upload(parts, client, view)
    return Submission(
        document=loaded.source.document,
        files={text: tuple(_described(one) for one in found) for text, found in parts.items()},
        priority=wishes.priority,
        deadline_s=wishes.deadline_s,
        unplaceable=wishes.unplaceable,
        spread=wishes.spread,
        agent=wishes.agent,
        git=git_state(loaded.base) or {},
    )


def follow(
    client: FleetClient, campaign: str, view: View, pause: Callable[[float], None] = time.sleep
) -> CampaignResult:
    """Watch a campaign until it ends and return its results; a server that goes away for a while is waited for."""
    follower = _Follower(client, campaign, view)
    try:
        while not follower.step():
            pause(POLL_S)
    except KeyboardInterrupt:
        view.note(f"campaign {campaign} goes on; `assay campaigns attach {campaign}` follows it, `cancel` ends it")
        raise
    finally:
        view.close()
    return read(client, campaign)


def find(client: FleetClient, reference: str) -> str:
    """The server's campaign that a reference names: an id, a unique beginning of one, `latest` or `latest~2`.

    Raises:
        UsageError: if it names none or several.
    """
    name, _, back = reference.partition("~")
    if name == "latest" and (back.isdigit() or not back):
        number = int(back or 0)
        listed = client.pages("/campaigns", {"limit": min(number + 1, _PAGE)})
        found = [one["id"] for one in islice(listed, number, number + 1)]
    else:
        listed = client.pages("/campaigns", {"text": reference, "limit": _PAGE})
        found = [one["id"] for one in listed if one["id"].startswith(reference)]
    if not found:
        raise UsageError(
            f"the server has no campaign {reference!r}",
            code="unknown-campaign",
            at=client.url,
            try_="`assay campaigns list` shows what is there",
        )
    if len(found) > 1 and reference not in found:
        raise UsageError(
            f"{reference!r} begins several campaigns: {', '.join(found[:5])}",
            code="ambiguous",
            at=client.url,
            try_="give more of the id",
        )
    return reference if reference in found else str(found[0])


def read(client: FleetClient, campaign: str) -> CampaignResult:
    """The results of a campaign as the server has them now."""
    record = from_json(CampaignRecord, client.text(f"/campaigns/{campaign}/result"), source=campaign)
    return CampaignResult(
        record,
        client.url,
        lambda job, run: read_samples(client, job, run),
        lambda job, run, name: read_file(client, job, run, name),
    )


def placement_lines(placement: Mapping[str, Any]) -> list[str]:
    """What a person must know about where jobs can run: nothing when every job has a machine."""
    lines = []
    for group in placement.get("groups", ()):
        machines = group.get("machines", 1)
        if len(group["agents"]) >= machines:
            continue
        jobs = "1 job that needs" if group["jobs"] == 1 else f"{group['jobs']} jobs that need"
        who = f"only {', '.join(group['agents'])}" if group["agents"] else "no agent"
        lines.append(f"{who} can take {jobs} {group['needs']}")
        lines += [f"{name}: {'; '.join(lacking)}" for name, lacking in group["missing"].items()]
    return [plain(line) for line in lines]


def _schedule_line(schedule: Mapping[str, Any]) -> str:
    """What the server keeps beside the campaign when the file has a schedule."""
    if not schedule["next"]:
        return f'its schedule is kept as it is here, and stays paused; `assay schedule resume "{schedule["name"]}"`'
    coming = wall_time(schedule["next"][0]["local"])
    return f'the server runs it again by itself, next {coming}; see `assay schedule show "{schedule["name"]}"`'


def _local_files(loaded: Loaded) -> dict[str, tuple[LocalPart, ...]]:
    """Every file that a point of the benchmark names on this machine."""
    from assay.run.inputs import plan_of

    found: dict[str, tuple[LocalPart, ...]] = {}
    for job in plan_of(loaded).jobs:
        here = files_of(job.definition, loaded.base)
        for name in local_paths(job.definition):
            if name not in here and name != hub_name(job.definition.target):
                existing(name, loaded.base)  # says what is wrong with it, and what may have been meant
        found |= here
    return found


def _upload(parts: Mapping[str, tuple[LocalPart, ...]], client: FleetClient, view: View) -> None:
    distinct = {part.sha256: part for found in parts.values() for part in found}
    for part in distinct.values():
        if not client.has(part.sha256):
            view.note(f"uploading {part.name} ({part.size_bytes / 1e6:.1f} MB)")
            client.upload(part.path, part.sha256, part.name)


def _described(part: LocalPart) -> JobFile:
    return JobFile(part.name, part.sha256, part.size_bytes)


def read_samples(client: FleetClient, job: str, run: int) -> tuple[SampleSet, ...]:
    from assay.store.samples import decode

    content = client.content(f"/jobs/{job}/runs/{run}/samples", missing_ok=True)
    return decode(content) if content else ()


def read_file(client: FleetClient, job: str, run: int, name: str) -> bytes | None:
    """A file that a run left, by its name; None when there is none."""
    result = from_json(MultiRunJobResult, client.text(f"/jobs/{job}/result"), source=job)
    digest = next((one.files.get(name) for one in result.runs if one.run_id == run), None)
    return client.content(f"/artefacts/{digest}", missing_ok=True) if digest else None


@dataclass(slots=True)
class _Follower:
    """Turns what the server says about a campaign into what a view shows."""

    client: FleetClient
    campaign: str
    view: View
    _begun: bool = False
    _away: bool = False
    _counts: Mapping[str, int] = field(default_factory=dict)
    _shown: dict[str, str] = field(default_factory=dict)  # job → state that was shown
    _runs: dict[str, int] = field(default_factory=dict)  # job → run that was shown

    def step(self) -> bool:
        """Look once; True when the campaign has ended and everything was shown."""
        try:
            summary = self.client.get(f"/campaigns/{self.campaign}")
            self._begin(summary)
            for job in self._jobs(summary):
                self._show(job, summary["jobs"])
        except MeasureError as away:
            if away.problem.code != AWAY:
                raise
            if not self._away:
                self.view.note(f"{away.problem.message}; the campaign goes on there, waiting for the server")
            self._away = True
            return False
        self._away = False
        return bool(summary["state"] != "running")

    def _begin(self, summary: Mapping[str, Any]) -> None:
        if not self._begun:
            self._begun = True
            self.view.campaign(self.campaign, summary["jobs"], summary["runs"], f"on {self.client.url}")

    def _jobs(self, summary: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """The jobs of the campaign; those beyond the first page only when the counts say that some have moved."""
        listed = summary["job_list"]
        if len(listed) == summary["jobs"]:
            yield from listed
        elif summary["counts"] != self._counts or summary["state"] != "running":
            yield from self.client.pages("/jobs", {"campaign": self.campaign, "limit": 500})
        self._counts = summary["counts"]

    def _show(self, job: Mapping[str, Any], of: int) -> None:
        state, name = job["state"], job["id"]
        if state == "pending":
            return
        if self._shown.get(name) not in ("running", state):
            self.view.job(name, job["label"], job["index"], of)
        if state in FINAL and self._shown.get(name) != state:
            self._show_result(name)
        elif state == "running" and job["progress"]:
            self._progress(name, job["progress"])
        self._shown[name] = state

    def _progress(self, name: str, progress: Mapping[str, Any]) -> None:
        if self._runs.get(name) != progress["run"]:
            self._runs[name] = progress["run"]
            self.view.run(progress["run"], progress["runs"])
        self.view.phase(progress["phase"])
        self.view.progress(progress["share"], progress["note"])

    def _show_result(self, job: str) -> None:
        result = from_json(MultiRunJobResult, self.client.text(f"/jobs/{job}/result"), source=job)
        for run in result.runs:
            self.view.run(run.run_id, result.total_runs)
            self.view.run_done(run)
        self.view.job_done(result)
