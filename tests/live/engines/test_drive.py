"""The driver on an engine that does what a test says: every step of a campaign, without a cluster."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from assay.clock import SYSTEM_CLOCK
from assay.engines.base import (
    CANCELLED,
    FailureReason,
    FinishedJob,
    FollowOptions,
    Progress,
    RunningJob,
    Snapshot,
    WaitingJob,
)
from assay.engines.collect import Termination
from assay.engines.drive import CampaignDriver
from assay.engines.folder import CampaignFolder
from assay.engines.ledger import StoreLedger
from assay.errors import MeasureError, StoreError
from assay.plan.job import Job
from assay.report.live import PlainView
from assay.run.inputs import plan_of
from assay.spec.load import load
from assay.store.store import Store

GONE = FailureReason("gone", "its node is gone", "run it again")
WAITS = WaitingJob("batch job 1", "waiting: its resources are busy, since 3 s", "busy")
RUNS = RunningJob("batch job 1", ("n1",), Progress(1, 1, "load", 0.5))
ENDED = FinishedJob(GONE)
Look = Mapping[int, WaitingJob | RunningJob | FinishedJob] | BaseException


class Folder(CampaignFolder):
    """In the folder of the test."""

    NAMED_BY: ClassVar[str] = ""

    @staticmethod
    def unusable(path: Path, problem: OSError) -> StoreError:
        return StoreError(f"{path}: {problem}", code="disk")


@dataclass
class ScriptedEngine:
    """Shows what it is given, look by look; the last one stays."""

    NAME: ClassVar[str] = "scripted"
    TITLE: ClassVar[str] = "Scripted"
    TRANSIENT: ClassVar[Collection[str]] = ("silent",)
    RESUMABLE: ClassVar[Collection[str]] = ("silent", "missing")
    REQUEUES: ClassVar[bool] = True
    OUTLIVES: ClassVar[bool] = True
    IS_SERVED: ClassVar[bool] = False

    ledger: StoreLedger
    looks: list[Look]
    on_submit: Callable[[], None] = lambda: None
    where: str = "in a test"
    is_cancelled: bool = False
    calls: list[str] = field(default_factory=list)
    later: int = 0

    def submit(self) -> None:
        self.calls.append("submit")
        self.on_submit()

    def advance(self, jobs: Collection[int]) -> int:
        self.calls.append(f"advance {sorted(jobs)}")
        return self.later

    def snapshot(self, jobs: Mapping[int, Job]) -> Snapshot:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, BaseException):
            raise look
        return Snapshot({index: one for index, one in look.items() if index in jobs}, {"note": "a service is ready"})

    def fetch(self, job: Job, ended: FinishedJob) -> Termination | None:
        self.calls.append(f"fetch {job.index}")
        return Termination(None, ended.reason, {}, {}, final=True)

    def wait(self, *, moved: bool) -> None:
        self.calls.append("wait" if moved else "wait longer")

    def cancel(self) -> None:
        self.calls.append("cancel")
        self.is_cancelled = True

    def finish(self) -> bool:
        self.calls.append("finish")
        return True

    def tear_down(self) -> str:
        self.calls.append("tear down")
        return "a pod will not go"

    def settle(self) -> None:
        self.calls.append("settle")

    def close(self) -> None:
        self.calls.append("close")


@dataclass
class Campaign:
    """A campaign of two jobs in a store, and what was said about it."""

    store: Store
    id: str
    said: io.StringIO
    folder: Path

    def drive(self, *looks: Look, **more: object) -> ScriptedEngine:
        """Drive it to its end."""
        engine, driver = self.driver(*looks, **more)
        driver.run()
        return engine

    def driver(
        self, *looks: Look, options: FollowOptions | None = None, **more: object
    ) -> tuple[ScriptedEngine, CampaignDriver]:
        folder = Folder(self.folder)
        ledger = StoreLedger(self.store, self.id, SYSTEM_CLOCK, folder, folder)
        engine = ScriptedEngine(ledger, [*looks], **more)  # type: ignore[arg-type]
        return engine, CampaignDriver(engine, PlainView(self.said), options or FollowOptions())

    def states(self) -> list[str]:
        summary, jobs = self.store.campaign(self.id)
        return [summary.state, *(one.state for one in jobs)]


@pytest.fixture
def campaign(tmp_path):
    store = Store(tmp_path / "store")
    document = {"benchmark": "b", "target": {"command": "true"}, "matrix": {"target.env.N": ["0", "1"]}}
    plan = store.create_campaign(plan_of(load(document)), document, {}, "here", SYSTEM_CLOCK, "scripted")
    folder = tmp_path / "folder"
    folder.mkdir()
    yield Campaign(store, plan.jobs[0].campaign, io.StringIO(), folder)
    store.close()


def problem(code: str) -> MeasureError:
    return MeasureError("the cluster says no", code=code, try_="ask again")


def test_jobs_are_collected_as_they_end_and_everything_is_torn_down(campaign):
    engine = campaign.drive({0: WAITS, 1: WAITS}, {0: RUNS, 1: WAITS}, {0: ENDED, 1: RUNS}, {1: ENDED})
    assert campaign.states() == ["failed", "failed", "failed"]
    assert engine.calls[0] == "submit"
    assert [one for one in engine.calls if one.startswith("fetch")] == ["fetch 0", "fetch 1"]
    assert engine.calls[-5:] == ["advance []", "finish", "tear down", "settle", "close"]
    said = campaign.said.getvalue()
    assert "2 waiting: its resources are busy, since 3 s · 0 of 2 done" in said
    assert "1 running on n1 · 1 waiting" in said
    assert said.count("a service is ready") == 1
    assert "a pod will not go" in said


def test_looks_become_rarer_while_nothing_moves(campaign):
    engine = campaign.drive({0: RUNS}, {0: RUNS}, {0: ENDED, 1: ENDED})
    assert [one for one in engine.calls if one.startswith("wait")] == ["wait", "wait longer"]


def test_a_job_that_is_put_back_into_the_queue_waits_again(campaign):
    before: list[list[str]] = []
    engine, driver = campaign.driver({0: RUNS}, {0: WAITS}, {0: ENDED, 1: ENDED})
    wait = engine.wait
    engine.wait = lambda *, moved: (before.append(campaign.states()), wait(moved=moved))
    driver.run()
    assert [states[1] for states in before] == ["running", "pending"]
    assert "the batch job 1 was put back into the queue" in campaign.said.getvalue()


def test_a_silent_engine_is_waited_for_and_said_once_each_time(campaign):
    campaign.drive(problem("silent"), problem("silent"), {0: RUNS}, problem("silent"), {0: ENDED, 1: ENDED})
    assert campaign.said.getvalue().count("the campaign continues, waiting for Scripted") == 2
    assert campaign.states() == ["failed", "failed", "failed"]


@pytest.mark.parametrize("code", ["missing", "disk"])
def test_what_a_later_process_can_go_on_with_is_left_as_it_is(campaign, code):
    with pytest.raises(MeasureError):
        campaign.drive({0: RUNS}, problem(code))
    assert campaign.states() == ["running", "running", "pending"]
    assert f"`assay campaigns attach {campaign.id}` continues it" in campaign.said.getvalue()


def test_a_refusal_takes_everything_back(campaign):
    engine, driver = campaign.driver({0: RUNS}, problem("refused"))
    with pytest.raises(MeasureError):
        driver.run()
    assert campaign.states() == ["failed", "failed", "failed"]
    assert engine.calls[-3:] == ["cancel", "tear down", "close"]


def test_ctrl_c_while_it_is_submitted_takes_everything_back(campaign):
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign.drive({}, on_submit=interrupted)
    assert campaign.states() == [CANCELLED, CANCELLED, CANCELLED]


def test_ctrl_c_leaves_the_campaign_to_its_engine(campaign):
    engine, driver = campaign.driver({0: RUNS}, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        driver.run()
    assert campaign.states() == ["running", "running", "pending"]
    assert "continues in Scripted without this process" in campaign.said.getvalue()
    assert "tear down" not in engine.calls


def test_ctrl_c_ends_the_campaign_where_that_was_requested(campaign):
    looks = ({0: RUNS}, KeyboardInterrupt(), {0: ENDED, 1: ENDED})
    engine, driver = campaign.driver(*looks, options=FollowOptions(cancel_on_interrupt=True))
    with pytest.raises(KeyboardInterrupt):
        driver.run()
    assert campaign.states() == [CANCELLED, CANCELLED, CANCELLED]
    assert engine.calls.index("cancel") < engine.calls.index("fetch 0")


def test_who_detaches_submits_and_leaves(campaign):
    engine = campaign.drive({}, options=FollowOptions(detach=True), later=3)
    assert engine.calls == ["submit", "advance [0, 1]", "close"]
    assert campaign.states()[0] == "running"
    assert "3 jobs are submitted when those before them have ended" in campaign.said.getvalue()


def test_a_campaign_that_another_process_cancelled_is_torn_down_and_collected(campaign):
    engine = campaign.drive({0: ENDED, 1: ENDED}, is_cancelled=True)
    assert "submit" not in engine.calls
    assert campaign.states() == [CANCELLED, CANCELLED, CANCELLED]


def test_a_campaign_that_has_ended_is_only_read(campaign):
    campaign.drive({0: ENDED, 1: ENDED})
    assert campaign.drive({0: ENDED}).calls == ["close"]
