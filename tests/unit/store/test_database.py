"""Databases: opened, migrated, shared, gone and back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from tests.unit.store.setups import HERE, POLICY, deliver, enroll, submit

from assay.documents import to_json
from assay.errors import StoreError
from assay.store.control import Control
from assay.store.database import HEAD, migrate_database, open_database, reading, writing
from assay.store.listing import Listing
from assay.store.store import Store
from assay.store.tables import Table


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.live)])
def empty(request, tmp_path):
    """The URL of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'assay.db'}"
    return request.getfixturevalue("postgresql")()


def downgrade(engine, revision):
    from pathlib import Path

    from alembic import command
    from alembic.config import Config

    from assay.store import database

    config = Config()
    config.set_main_option("script_location", str(Path(database.__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)


def test_migrations_make_exactly_the_tables_of_the_code(empty):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    assert migrate_database(empty) == (None, HEAD)
    assert migrate_database(empty) == (HEAD, HEAD)
    engine = open_database(empty)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Table.metadata) == []
    engine.dispose()


def shape(engine):
    """All that a database knows of its tables, without the order in which columns were added."""
    seen = inspect(engine)
    return {
        table: {
            "columns": sorted(
                (one["name"], str(one["type"]), one["nullable"], one["default"], one["primary_key"])
                for one in seen.get_columns(table)
            ),
            "key": seen.get_pk_constraint(table),
            "foreign": sorted(map(str, seen.get_foreign_keys(table))),
            "unique": sorted(map(str, seen.get_unique_constraints(table))),
            "indexes": sorted(map(str, seen.get_indexes(table))),
            "checks": sorted(map(str, seen.get_check_constraints(table))),
        }
        for table in seen.get_table_names()
    }


def test_a_new_store_has_the_tables_that_the_migrations_make(tmp_path):
    made = open_database(tmp_path / "made.db")
    walked = open_database(tmp_path / "walked.db")
    downgrade(walked, "base")  # leaves a file that is not new, so that the migrations have to be walked
    assert set(inspect(walked).get_table_names()) == {"alembic_version"}
    assert migrate_database(tmp_path / "walked.db") == (None, HEAD)
    assert shape(made) == shape(walked)
    assert len(shape(made)) > 10
    with made.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == [HEAD]
    for engine in (made, walked):
        engine.dispose()


def test_two_processes_that_make_the_same_store_make_one(tmp_path):
    code = "import sys; from pathlib import Path; from assay.store.store import Store; Store(Path(sys.argv[1])).close()"
    both = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(3)]
    assert [one.wait(120) for one in both] == [0, 0, 0]
    engine = open_database(tmp_path / "assay.db")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM alembic_version")).scalar_one() == 1
    engine.dispose()


def test_a_database_that_must_be_migrated_says_so(empty):
    with pytest.raises(StoreError, match="no tables yet") as caught:
        open_database(empty, "check")
    assert caught.value.problem.code == "migration"
    assert "assay db upgrade" in caught.value.problem.try_
    engine = open_database(empty, "auto")
    downgrade(engine, "0002")
    engine.dispose()
    with pytest.raises(StoreError, match=f"at migration 0002, this assay needs {HEAD}"):
        open_database(empty, "check")
    migrate_database(empty)
    open_database(empty, "check").dispose()


@pytest.mark.live
def test_a_servers_database_is_never_migrated_by_the_way(postgresql, tmp_path):
    with pytest.raises(StoreError) as caught:
        Store(tmp_path, postgresql())
    assert caught.value.problem.code == "migration"


def test_what_is_in_it_outlives_a_migration(empty, tmp_path, clock):
    store = Store(tmp_path / "store", empty, migrate="auto")
    downgrade(store.engine, "0002")
    with store.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO campaigns "
                "(id, benchmark, digest, state, created_at, labels, document, surroundings, engine) "
                "VALUES ('c1', 'old', 'd', 'running', '2025', '{\"team\": \"x\"}', '{}', '', 'fleet')"
            )
        )
        connection.execute(
            text(
                "INSERT INTO jobs (id, campaign_id, position, digest, state, document, fence) "
                "VALUES ('c1-job-0', 'c1', 0, 'd', 'done', '{}', 3)"
            )
        )
        connection.execute(
            text(
                "INSERT INTO agents (id, identity, name, state, profile, device, enrolled_at, last_seen) "
                "VALUES ('agent-1', 'device-0', 'old agent', 'active', :profile, '{}', 1, 1)"
            ),
            {"profile": to_json(HERE)},
        )
    store.close()
    assert migrate_database(empty) == ("0002", HEAD)
    store = Store(tmp_path / "store", empty)
    (found,) = store.campaigns()
    assert (found.benchmark, found.labels, found.counts, found.spread) == ("old", {"team": "x"}, {"done": 1}, "any")
    (job,) = Listing(store.engine).jobs().items
    assert (job.fence, job.label, job.lost, job.reason, job.progress) == (3, "", 0, "", None)
    control = Control(store.engine, clock, POLICY)
    assert (control.agents()[0].slots, control.agents()[0].labels) == (1, {})
    submit(store, clock, batches=(1,))
    assert deliver(control, control.take(enroll(control).id)) == "accepted"
    downgrade(store.engine, "base")
    assert inspect(store.engine).get_table_names() == ["alembic_version"]
    store.close()


def test_readers_do_not_wait_for_a_writer(fleet, clock):
    """A list is read while another transaction has the write lock; without a reading transaction it would wait 30 s."""
    submit(fleet, clock)
    found = []
    with writing(fleet.engine) as session:
        session.execute(text("UPDATE campaigns SET priority = 7"))
        reader = threading.Thread(target=lambda: found.append(Listing(fleet.engine).campaigns().items[0].priority))
        reader.start()
        reader.join(timeout=120)
        assert found == [0]
    assert Listing(fleet.engine).campaigns().items[0].priority == 7


def test_writers_of_one_process_take_turns(fleet, clock):
    submit(fleet, clock)

    def add():
        for _ in range(25):
            with writing(fleet.engine) as session:
                before = session.execute(
                    text("SELECT priority FROM campaigns FOR UPDATE" if pg else plain)
                ).scalar_one()
                session.execute(text("UPDATE campaigns SET priority = :now"), {"now": before + 1})

    pg, plain = fleet.engine.dialect.name == "postgresql", "SELECT priority FROM campaigns"
    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Listing(fleet.engine).campaigns().items[0].priority == 200


def change(engine, meanwhile, then):
    with writing(engine) as session:
        session.execute(text("UPDATE campaigns SET priority = 7"))
        meanwhile()
        session.execute(text(then))


def test_a_transaction_that_breaks_leaves_nothing(fleet, clock):
    submit(fleet, clock)
    with pytest.raises(StoreError, match="did not answer"):
        change(fleet.engine, lambda: None, then="SELECT nonsense")
    assert Listing(fleet.engine).campaigns().items[0].priority == 0


@pytest.mark.live
@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_server_that_is_restarted_is_found_again(postgresql, tmp_path, clock, how):
    store = Store(tmp_path, postgresql.migrated())
    control = Control(store.engine, clock, POLICY)
    submit(store, clock, batches=(1,))
    agent = enroll(control)
    lease = control.take(agent.id)
    postgresql.restart(how)
    assert deliver(control, lease) == "accepted"
    store.close()


@pytest.mark.live
def test_a_server_that_is_gone_is_reported_in_words_and_nothing_is_half_done(postgresql, tmp_path, clock):
    store = Store(tmp_path, postgresql.migrated())
    control = Control(store.engine, clock, POLICY)
    submit(store, clock, batches=(1,))
    agent = enroll(control)
    try:
        with pytest.raises(StoreError):
            change(store.engine, postgresql.stop, then="UPDATE campaigns SET priority = 8")
        for ask in (lambda: control.take(agent.id), control.agents, control.expire, store.campaigns):
            with pytest.raises(StoreError, match="did not answer"):
                ask()
    finally:
        postgresql.start()
    assert store.campaigns()[0].priority == 0
    assert control.take(agent.id) is not None
    store.close()


@pytest.mark.live
def test_errors_never_show_the_password(postgresql, tmp_path):
    port = postgresql.port
    for url in (
        f"postgresql://nobody:very-secret@127.0.0.1:{port}/nothing",
        "postgresql://u:very-secret@127.0.0.1:1/x",
    ):
        with pytest.raises(StoreError) as caught:
            Store(tmp_path, url)
        assert "very-secret" not in str(caught.value)


def test_a_reading_transaction_of_sqlite_sees_one_moment(tmp_path, clock):
    fleet = Store(tmp_path)
    submit(fleet, clock)
    count = text("SELECT count(*) FROM campaigns")
    with reading(fleet.engine) as session:
        before = session.execute(count).scalar_one()
        submit(fleet, clock)
        assert session.execute(count).scalar_one() == before
    fleet.close()


@pytest.mark.live
def test_many_processes_may_create_one_store_at_the_same_moment(tmp_path):
    code = "import sys, pathlib; from assay.store.database import open_database as o; o(pathlib.Path(sys.argv[1]))"
    for round_ in range(3):
        path = tmp_path / str(round_) / "assay.db"
        started = [subprocess.Popen([sys.executable, "-c", code, str(path)], stderr=subprocess.PIPE) for _ in range(6)]
        said = [one.communicate()[1].decode() for one in started]
        assert [one.returncode for one in started] == [0] * 6, said


def test_a_store_that_is_a_file_is_reported_so(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="this is a file, and a store is a folder") as caught:
        Store(tmp_path / "file")
    assert caught.value.problem.at == str(tmp_path / "file")


@pytest.mark.skipif(os.name == "nt", reason="files have no such rights there")
def test_a_store_is_for_its_owner_alone_whatever_the_umask_says(tmp_path):
    before = os.umask(0o022)
    try:
        store = Store(tmp_path / "new" / "store")
        with writing(store.engine) as session:
            session.execute(text("UPDATE alembic_version SET version_num = version_num"))
        store.artefacts.take(Path(__file__))
        rights = {path.name: path.stat().st_mode & 0o777 for path in (store.folder, *store.folder.glob("assay.db*"))}
        files = [path for path in store.folder.rglob("*") if path.is_file()]
        assert {name: mode & 0o077 for name, mode in rights.items()} == dict.fromkeys(rights, 0)
        assert {"store", "assay.db", "assay.db-wal", "assay.db-shm"} <= rights.keys()
        assert all(path.stat().st_mode & 0o077 == 0 for path in files)
        store.close()
    finally:
        os.umask(before)


def test_rights_that_another_gave_a_store_stay(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    Store(folder).close()
    (folder / "assay.db").chmod(0o640)
    Store(folder).close()
    assert (folder.stat().st_mode & 0o777, (folder / "assay.db").stat().st_mode & 0o777) == (0o755, 0o640)
