"""Demo data is believable, whole, and says everywhere that it is simulated."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Float, func, select

from assay.analyse.records import MultiRunJobResult
from assay.cli.serve import DatabaseOptions
from assay.cli.sim import demo_data
from assay.clock import iso
from assay.demo.fill import Bulk
from assay.demo.keeper import Keeper
from assay.demo.machines import enrolment
from assay.demo.player import DemoSize, Player, SimulatedClock
from assay.demo.scenario import SCENARIO, STUDIES, cron_of, entries, fleet, shares
from assay.documents import from_json
from assay.errors import UsageError
from assay.report.html import render_html
from assay.report.result import kept_result, read_campaign
from assay.run.probes import FILE
from assay.run.scoring.outputs import OUTPUTS, read_outputs
from assay.series.repository import SeriesStore
from assay.spec.load import load
from assay.store.catalogue import Catalogue, Draft
from assay.store.control import Control
from assay.store.listing import JobFilter, Listing
from assay.store.records import JobDetail
from assay.store.store import Store
from assay.store.tables import AttemptRow, CampaignRow, EventRow, FiringRow, JobRow, PointRow, SeriesRow, Table
from assay.store.telemetry import read_telemetry

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SMALL = DemoSize(campaigns=16, agents=12, days=60, seed=7, now=NOW)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with demo data, to be copied."""
    folder = tmp_path_factory.mktemp("demo") / "filled"
    store = Store(folder)
    Player(store, SMALL).play()
    store.close()
    return folder


@pytest.fixture(scope="module")
def played(filled: Path) -> Iterator[tuple[Store, Player]]:
    store = Store(shutil.copytree(filled, filled.parent / "played"))
    yield store, Player(store, SMALL)
    store.close()


@pytest.fixture
def mine(filled: Path, tmp_path: Path) -> Iterator[Store]:
    """Demo data that another process made."""
    store = Store(shutil.copytree(filled, tmp_path / "mine"))
    yield store
    store.close()


# Columns of numbers that are no moments, and moments that lie ahead by their meaning: a lease, a wait, a snooze.
_NO_MOMENT = {"value", "standard_error", "seconds", "per_hour", "owner_started"}
_AHEAD = {"expires_at", "not_before", "deadline", "snoozed_until", "taken_until"}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:\+00:00|Z)")


def after(store: Store, now: datetime) -> list[str]:
    """Everything in a store that says it happened after a moment: `table.column what`."""
    found = []
    with store.engine.connect() as connection:
        for name, table in Table.metadata.tables.items():
            for row in connection.execute(select(table)).mappings():
                for column in table.columns.values() if name != "artefacts" else ():  # files are as old as they are
                    value = row[column.name]
                    if isinstance(column.type, Float) and column.name not in _NO_MOMENT | _AHEAD:
                        found += [f"{name}.{column.name} {value}"] if (value or 0) > now.timestamp() else []
                    else:
                        text = value if isinstance(value, str) else json.dumps(value, default=str)
                        late = [one for one in _MOMENT.findall(text) if datetime.fromisoformat(one) > now]
                        found += [f"{name}.{column.name} {one}" for one in late]
    return found


def newest(store: Store, benchmark: str) -> str:
    page = Listing(store.engine).campaigns(benchmark=benchmark, limit=10)
    return next(one.id for one in page.items if one.state in ("done", "partial"))


def test_everything_says_that_it_is_simulated(played: tuple[Store, Player]) -> None:
    store, player = played
    listing = Listing(store.engine)
    campaigns = listing.campaigns(limit=100).items
    assert len(campaigns) >= SMALL.campaigns
    assert all(one.labels["demo"] == "simulated" and one.benchmark.startswith("demo ") for one in campaigns)
    agents = player.control.agents()
    assert len(agents) == SMALL.agents
    assert all(one.name.startswith("demo-") and one.profile.labels["demo"] == "simulated" for one in agents)
    for one in listing.results(limit=20).items:
        result = from_json(MultiRunJobResult, one.result, source=one.job.id)
        assert "simulated" in result.environment
        assert all(run.facts["simulated"] for run in result.runs)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_kind_of_job_has_a_whole_report(played: tuple[Store, Player], study) -> None:
    store, _ = played
    record = read_campaign(store, newest(store, study.name))
    done = [job for job in record.jobs if job.state == "done"]
    assert done
    assert all(job.metrics and job.checks and job.verdict for job in done)
    kept = kept_result(store.folder, record)
    text = render_html(record, kept.samples, kept.file)
    assert text.count("<svg") >= 2
    assert "Telemetry, run" in text


def test_samples_telemetry_and_answers_of_new_jobs_are_kept(played: tuple[Store, Player]) -> None:
    store, _ = played
    record = read_campaign(store, newest(store, "demo chat capacity"))
    run = record.jobs[-1].runs[0]
    sets = {one.metric: one.value.size for one in store.samples_of(record.jobs[-1].job, 0)}
    assert sets["ttft_ms"] == run.sample_counts["ttft_ms"] > 100
    telemetry = store.file_of(record.jobs[-1].job, 0, FILE)
    answers = store.file_of(record.jobs[-1].job, 0, OUTPUTS)
    assert telemetry is not None
    assert answers is not None
    recording = read_telemetry(telemetry.read_bytes())
    assert {"job", "gpu:0"} <= set(recording.sources)
    assert "measure" in [one.name for one in recording.phases]
    said = list(read_outputs(answers))
    assert len(said) == sets["rouge_l"] == sets["ttft_ms"]  # every answer has its score
    assert all(one.reference and one.text in one.reference and one.more["prompt"] for one in said)


def test_campaigns_end_as_their_jobs_do_and_some_have_not_ended(played: tuple[Store, Player]) -> None:
    store, _ = played
    campaigns = Listing(store.engine).campaigns(limit=100).items
    for one in campaigns:
        is_open = one.jobs_ended < one.jobs
        assert is_open == (one.state == "running"), one
    running = Listing(store.engine).jobs(JobFilter(state="running")).items
    assert len(running) == 3
    assert all(job.progress for job in running)


def test_schedules_fired_what_they_submitted(played: tuple[Store, Player]) -> None:
    store, _ = played
    with store.engine.connect() as connection:
        fired = connection.execute(select(FiringRow.campaign_id, FiringRow.outcome)).all()
        by_schedule = connection.execute(select(CampaignRow.id).where(CampaignRow.origin == "schedule")).scalars()
        assert {campaign for campaign, _ in fired} == set(by_schedule)
    assert {outcome for _, outcome in fired} == {"submitted"}


def test_series_have_a_point_for_every_result(played: tuple[Store, Player]) -> None:
    store, _ = played
    known = SeriesStore(store)
    series = known.list(benchmark="demo image classifier", metric="latency_ms")
    assert len(series) == 9
    done = [
        one
        for one in Listing(store.engine).campaigns(benchmark="demo image classifier").items
        if one.state in ("done", "partial", "running")
    ]
    assert max(len(known.points(one.id)) for one in series) in (len(done), len(done) - 1)


def test_the_same_seed_gives_the_same_numbers(tmp_path: Path, played: tuple[Store, Player]) -> None:
    first = newest(played[0], "demo vector search")
    store = Store(tmp_path / "again")
    try:
        player = Player(store, SMALL)
        player.enrol()
        planned = entries(SMALL.campaigns, SMALL.days, SMALL.now, SMALL.seed)
        entry = [one for one in planned if one.study.name == "demo vector search"][-1]
        again = player.campaign(entry, tmp_path)
        pairs = zip(read_campaign(played[0], first).jobs, read_campaign(store, again).jobs, strict=True)
        assert all(one.metrics == other.metrics for one, other in pairs)
    finally:
        store.close()


def test_shares_and_schedules_make_as_many_campaigns_as_asked() -> None:
    for count, days in ((16, 60), (200, 365), (300, 365), (60, 30)):
        assert sum(shares(count).values()) == count
        assert len(entries(count, days, NOW, 1)) == count, (count, days)
    assert cron_of(STUDIES[0], 52, 365) == "30 3 * * 1"


def test_every_file_is_valid_and_every_machine_can_be_enrolled() -> None:
    for study in STUDIES:
        assert load(dict(study.pinned)).benchmark.benchmark == study.name
        assert study.host in SCENARIO.hosts
    machines = fleet(25).values()
    assert len({enrolment(machine).identity for machine in machines}) == 25


def test_more_campaigns_come_in_bulk_and_look_like_others(tmp_path: Path) -> None:
    store = Store(tmp_path / "bulk")
    try:
        player = Player(store, SMALL)
        player.enrol()
        done = Bulk(store, 60, 7).copy(60, 1200)
        assert (done.campaigns, done.jobs) == (60, 1200)
        with store.engine.connect() as connection:
            for table, rows in ((JobRow, 1200), (AttemptRow, 1200), (PointRow, 1200), (CampaignRow, 60)):
                assert connection.scalar(select(func.count()).select_from(table)) == rows
            assert connection.scalar(select(func.count()).select_from(EventRow)) == 1260
            assert connection.scalar(select(func.count()).select_from(SeriesRow)) == 40 * 20
        page = Listing(store.engine).results(limit=30)
        for one in page.items:
            result = from_json(MultiRunJobResult, one.result, source=one.job.id)
            assert result.job == one.job.id
            assert result.point == one.job.point
            assert one.job.benchmark.startswith("demo sweep ")
        detail = Listing(store.engine).job(page.items[0].job.id)
        assert (detail.job.id, detail.job.benchmark) == (page.items[0].job.id, page.items[0].job.benchmark)
    finally:
        store.close()


def test_the_fleet_continues_while_another_looks(played: tuple[Store, Player], tmp_path: Path) -> None:
    store, _ = played
    keeper = Keeper(store, 7)
    before = Listing(store.engine).counts()["jobs"]
    for _ in range(30):
        keeper.step(tmp_path)
    after = Listing(store.engine).counts()["jobs"]
    assert after["done"] > before["done"]
    assert sum(after.values()) == sum(before.values())


def test_the_fleet_of_another_process_continues_for_a_day(
    mine: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.demo.keeper._STEPS", 1)  # jobs are short, so that a day takes few steps
    clock = SimulatedClock(NOW)
    stored = Catalogue(mine.engine, clock).benchmarks().items
    keeper = Keeper(mine, 7, clock)
    for _ in range(24 * 6):
        clock.forward(600)
        keeper.step(tmp_path)
    begun = [one for one in Listing(mine.engine).campaigns(limit=500).items if one.created_at > iso(NOW)]
    assert {one.benchmark for one in begun} == {one.name for one in STUDIES} - {"demo edge classifier"}  # pi-03 is away
    assert max(one.created_at for one in begun) > iso(clock.utc() - timedelta(hours=5))
    assert sum(one.state == "done" for one in begun) >= len(begun) - 1, [one.state for one in begun]
    assert Catalogue(mine.engine, clock).benchmarks().items == stored
    assert all(one.version == 2 for one in begun)
    assert not after(mine, clock.utc())


def test_the_fleet_leaves_alone_what_people_changed(
    mine: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.demo.keeper._STEPS", 1)
    clock = SimulatedClock(NOW)
    catalogue, control = Catalogue(mine.engine, clock), Control(mine.engine, clock)
    for study in STUDIES:
        catalogue.change(study.name, Draft({**study.pinned, "description": "mine"}, by="dora"))
    keeper = Keeper(mine, 7, clock)
    reads, read = iter([False, True]), Listing.job

    def removed_once(listing: Listing, job: str) -> JobDetail:
        """A job that somebody removes after it was listed."""
        if next(reads, False):
            raise UsageError(f"no job {job!r} in the store", code="unknown-job")
        return read(listing, job)

    monkeypatch.setattr(Listing, "job", removed_once)
    for step in range(40):
        if step == 5:
            control.remove_agent(next(one.id for one in control.agents() if one.name == "demo-xeon-01"))
        clock.forward(600)
        keeper.step(tmp_path)
    assert all(catalogue.get(study.name).created_by == "dora" for study in STUDIES)
    later = [one for one in Listing(mine.engine).campaigns(limit=500).items if one.created_at > iso(NOW)]
    assert len(later) >= 3
    assert "demo vector search" not in {one.benchmark for one in later}  # its machine is gone
    assert all(one.version == 2 for one in later)  # the one that says what was submitted


@pytest.mark.parametrize(
    "now",
    [
        NOW.replace(hour=3, minute=33),  # just after a schedule is due, before the hours of people
        NOW.replace(hour=1, minute=10, second=1),  # one second after another
    ],
    ids=["schedule-just-due", "second-after"],
)
def test_nothing_of_the_demo_lies_in_the_future(tmp_path: Path, now: datetime) -> None:
    store = Store(tmp_path / "now")
    try:
        Player(store, replace(SMALL, now=now)).play()
        assert not after(store, now)
        jobs = Listing(store.engine).counts()["jobs"]
        assert jobs["done"] > 50
        assert jobs["running"] >= 3
    finally:
        store.close()


def test_bulk_campaigns_with_many_jobs_have_ended_by_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.demo.fill._VARIANTS", 1)
    store = Store(tmp_path / "bulk")
    try:
        Player(store, SMALL).enrol()
        Bulk(store, 1, 7).copy(1, 400)
        assert not after(store, datetime.now(UTC))
    finally:
        store.close()


def test_demo_data_never_stands_beside_measured_results(tmp_path: Path) -> None:
    store = Store(tmp_path / "mine")
    from assay.clock import SYSTEM_CLOCK
    from assay.plan.plan import make_plan

    document = {"benchmark": "mine", "target": {"model": "squeezenet"}}
    store.create_campaign(make_plan(load(document), lambda _: {}), document, {}, "", SYSTEM_CLOCK)
    store.close()
    with pytest.raises(UsageError, match="holds results already"):
        demo_data(where=DatabaseOptions(folder=tmp_path / "mine"))


def test_demo_data_is_made_once(played: tuple[Store, Player], capsys: pytest.CaptureFixture[str]) -> None:
    store, _ = played
    before = len(Listing(store.engine).campaigns(limit=500).items)
    demo_data(where=DatabaseOptions(folder=store.folder))
    assert capsys.readouterr().out.splitlines() == [
        f"{store.folder} holds demo data already, and is left as it is",
        f"look around: assay serve --store {store.folder}",
    ]
    assert len(Listing(store.engine).campaigns(limit=500).items) == before
