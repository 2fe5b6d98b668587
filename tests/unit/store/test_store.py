import multiprocessing
import os
import sqlite3

import numpy as np
import pytest
from alembic.script import ScriptDirectory

from assay.clock import SYSTEM_CLOCK
from assay.errors import StoreError, UsageError
from assay.plan.plan import make_plan
from assay.run.records import RunOutcome, SampleSet, SingleRunResult
from assay.spec.load import load
from assay.store import database
from assay.store.database import HEAD
from assay.store.listing import Listing
from assay.store.store import DATABASE, Store


def plan(batches=(1, 2)):
    document = {"benchmark": "s", "target": {"model": "m"}, "matrix": {"workload.batch": list(batches)}}
    return make_plan(load(document), lambda _: {})


def submit(store, made=None, surroundings="here"):
    return store.create_campaign(made or plan(), {"benchmark": "s"}, {"team": "x"}, surroundings, SYSTEM_CLOCK)


def outcome(run_id, value=1.0):
    samples = SampleSet("latency_ms", "measure", np.array([0], dtype=np.int64), np.array([value]))
    return RunOutcome(SingleRunResult(run_id, run_id == 0, "2026-01-01", "2026-01-01", 1.0), (samples,))


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "store")
    yield opened
    opened.close()


def test_a_campaign_and_its_runs_come_back(store):
    made = submit(store)
    job = made.jobs[0]
    store.move_job(job.id, "start")
    kept = store.keep_run(job.id, outcome(0, 3.5))
    assert store.runs(job.id) == (kept,)
    assert store.samples_of(job.id, 0)[0].value.tolist() == [3.5]
    store.end_job(job.id, "finish", verdict="valid", result="{}", seconds=2.5)
    summary, jobs = store.campaign(made.jobs[0].campaign)
    assert (summary.jobs, summary.jobs_ended, summary.labels) == (2, 1, {"team": "x"})
    assert [one.state for one in jobs] == ["done", "pending"]
    assert jobs[0].job == job
    assert store.known_seconds(job.digest) == 2.5
    summary = Listing(store.engine).job(job.id).summary
    assert summary.started_at <= summary.ended_at, "so that the dashboard shows how long it took"


def test_a_running_campaign_is_never_taken_over(store):
    made = submit(store)
    assert store.take_over_interrupted(made.digest, "here") is None


def test_an_interrupted_one_is_taken_over_once_and_only_in_the_same_surroundings(store):
    made = submit(store)
    campaign = made.jobs[0].campaign
    store.move_job(made.jobs[0].id, "start")
    store.end_campaign(campaign, "interrupted", SYSTEM_CLOCK)
    assert store.take_over_interrupted(made.digest, "elsewhere") is None
    assert store.take_over_interrupted(plan((1, 3)).digest, "here") is None
    assert store.take_over_interrupted(made.digest, "here") == campaign
    assert store.take_over_interrupted(made.digest, "here") is None
    assert [one.state for one in store.campaign(campaign)[1]] == ["pending", "pending"]


def test_a_campaign_whose_process_died_counts_as_interrupted(store):
    process = multiprocessing.get_context("spawn").Process(target=_submit_and_die, args=(store.folder,))
    process.start()
    process.join()
    assert process.exitcode == 9
    assert [one.state for one in store.campaigns()] == ["interrupted"]
    assert store.take_over_interrupted(plan().digest, "here") is not None


def _submit_and_die(folder):
    submit(Store(folder))
    os._exit(9)


def test_references(store):
    first, second = (submit(store).jobs[0].campaign for _ in range(2))
    assert store.find("latest") == second
    assert store.find("latest~1") == first
    assert store.find(first[:6] if first[:6] != second[:6] else first) == first
    with pytest.raises(UsageError, match="several"):
        store.find("c")
    with pytest.raises(UsageError, match="no campaign"):
        store.find("nothing")
    with pytest.raises(UsageError, match="no campaign"):
        store.find("latest~7")


def test_removing_keeps_samples_that_others_share(store):
    one, other = submit(store), submit(store)
    store.keep_run(one.jobs[0].id, outcome(0, 1.0))
    store.keep_run(one.jobs[1].id, outcome(0, 2.0))
    store.keep_run(other.jobs[0].id, outcome(0, 1.0))
    for made in (one, other):
        store.end_campaign(made.jobs[0].campaign, "done", SYSTEM_CLOCK)
    store.remove(one.jobs[0].campaign)
    assert store.samples_of(other.jobs[0].id, 0)[0].value.tolist() == [1.0]
    assert len(list((store.folder / "samples").rglob("*.parquet"))) == 1
    assert store.runs(one.jobs[0].id) == ()


def test_a_running_campaign_cannot_be_removed(store):
    with pytest.raises(UsageError, match="is running"):
        store.remove(submit(store).jobs[0].campaign)


def _write_many(folder, count):
    store = Store(folder)
    job = submit(store).jobs[0]
    for run_id in range(count):
        store.keep_run(job.id, outcome(run_id, os.getpid() + run_id))


@pytest.mark.live
def test_several_processes_write_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write_many, args=(tmp_path / "new", 20)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    store = Store(tmp_path / "new")
    jobs = [store.campaign(one.id)[1][0].job.id for one in store.campaigns()]
    assert [len(store.outcomes(job)) for job in jobs] == [20] * 4


def test_migrations_end_at_the_head_that_the_code_expects():
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(__import__("pathlib").Path(database.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_ten_thousand_jobs_are_submitted_in_a_few_statements(store):
    from sqlalchemy import event

    made = plan(range(1, 10_001))
    statements = []
    event.listen(store.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    submitted = store.submit_to_fleet(made, {}, {}, SYSTEM_CLOCK)
    assert len(statements) < 50
    assert store.campaigns()[0].counts == {"pending": 10_000}
    assert submitted.jobs[9_999].campaign == store.campaigns()[0].id


def test_a_damaged_or_foreign_file_is_reported(tmp_path):
    (tmp_path / DATABASE).write_text("this is no database, but long enough to be looked at as one" * 100)
    with pytest.raises(StoreError, match="cannot open"):
        Store(tmp_path)


def test_a_store_of_a_newer_version_is_reported(tmp_path):
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(StoreError, match="another version"):
        Store(tmp_path)


def test_a_folder_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot create"):
        Store(tmp_path / "file" / "store")
