"""Demo data is believable, whole, and says everywhere that it is simulated."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import func, select

from assay.analyse.records import MultiRunJobResult
from assay.campaign import kept_result
from assay.cli.demo_data import demo_data
from assay.demo.alive import Keeper
from assay.demo.bulk import Bulk
from assay.demo.calendar import cron_of, entries, shares
from assay.demo.machines import FLEET, enrolment, fleet
from assay.demo.playing import Player, Settings
from assay.demo.studies import STUDIES
from assay.documents import from_json
from assay.errors import UsageError
from assay.history import SeriesStore
from assay.report.html import render_html
from assay.report.reading import read_campaign
from assay.run.probes.job import FILE
from assay.run.scoring.outputs import OUTPUTS, read_outputs
from assay.spec.load import load
from assay.store.listing import JobFilter, Listing
from assay.store.store import Store
from assay.store.tables import AttemptRow, CampaignRow, EventRow, JobRow
from assay.store.telemetry import read_telemetry
from assay.store.watch_tables import FiringRow, PointRow, SeriesRow

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SMALL = Settings(campaigns=16, agents=12, days=60, seed=7, now=NOW)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Player]]:
    store = Store(tmp_path_factory.mktemp("demo"))
    player = Player(store, SMALL)
    player.play()
    yield store, player
    store.close()


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
    assert "What was seen from the side" in text


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
    done = [one for one in Listing(store.engine).campaigns(benchmark="demo image classifier").items
            if one.state in ("done", "partial", "running")]  # fmt: skip
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
        assert study.machine in {machine.name for machine in FLEET}
    machines = fleet(25)
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


def test_the_fleet_goes_on_while_somebody_looks(played: tuple[Store, Player], tmp_path: Path) -> None:
    store, _ = played
    keeper = Keeper(store, 7)
    before = Listing(store.engine).counts()["jobs"]
    for _ in range(30):
        keeper.step(tmp_path)
    after = Listing(store.engine).counts()["jobs"]
    assert after["done"] > before["done"]
    assert sum(after.values()) == sum(before.values())


def test_demo_data_never_stands_beside_measured_results(tmp_path: Path) -> None:
    store = Store(tmp_path / "mine")
    from assay.clock import SYSTEM_CLOCK
    from assay.plan.plan import make_plan

    document = {"benchmark": "mine", "target": {"model": "squeezenet"}}
    store.create_campaign(make_plan(load(document), lambda _: {}), document, {}, "", SYSTEM_CLOCK)
    store.close()
    with pytest.raises(UsageError, match="holds results already"):
        demo_data(folder=tmp_path / "mine")


def test_demo_data_is_made_once(played: tuple[Store, Player], capsys: pytest.CaptureFixture[str]) -> None:
    store, _ = played
    before = len(Listing(store.engine).campaigns(limit=500).items)
    demo_data(folder=store.folder)
    assert capsys.readouterr().out.splitlines() == [
        f"{store.folder} holds demo data already, and is left as it is",
        f"look around: assay serve --folder {store.folder}",
    ]
    assert len(Listing(store.engine).campaigns(limit=500).items) == before
