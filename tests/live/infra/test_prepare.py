"""A database is made ready for its server: tables, tokens, and patience with one that only starts."""

from __future__ import annotations

import pytest

from assay.clock import SYSTEM_CLOCK
from assay.errors import StoreError
from assay.infra.prepare import prepare
from assay.store.database import HEAD, current_revision, open_database
from assay.store.store import DATABASE
from assay.store.tokens import TokenStore


def verified(folder, secret):
    engine = open_database(folder / DATABASE)
    try:
        token = TokenStore(engine, SYSTEM_CLOCK).verify(secret)
        return token and token.role
    finally:
        engine.dispose()


def test_tables_are_made_and_tokens_known_and_it_can_be_repeated(tmp_path):
    environ = {
        "ASSAY_SERVER_FOLDER": str(tmp_path),
        "ASSAY_INFRA_TOKEN_ADMIN": "assay_a\n",
        "ASSAY_INFRA_TOKEN_AGENT": "assay_b",
        "ASSAY_INFRA_TOKEN_READER": "",
    }
    assert prepare(environ) == f"tables from nothing to {HEAD}; tokens for admin, agent"
    assert current_revision(tmp_path / DATABASE) == HEAD
    assert verified(tmp_path, "assay_a") == "admin"
    assert verified(tmp_path, "assay_b") == "agent"
    assert verified(tmp_path, "") is None
    assert prepare(environ) == f"tables at {HEAD} already; tokens for admin, agent"
    engine = open_database(tmp_path / DATABASE)
    assert TokenStore(engine, SYSTEM_CLOCK).count() == 2
    engine.dispose()


def test_without_tokens_it_makes_none(tmp_path):
    assert prepare({"ASSAY_SERVER_FOLDER": str(tmp_path)}).endswith("tokens for no role")


def test_it_waits_for_a_database_that_starts_and_gives_up_in_time():
    paused = []
    url = "postgresql://assay:secret@127.0.0.1:1/assay"
    with pytest.raises(StoreError) as problem:
        prepare({"ASSAY_SERVER_DATABASE_URL": url}, within_s=3.0, pause=paused.append, now=lambda: float(len(paused)))
    assert len(paused) == 4
    assert "secret" not in str(problem.value)
