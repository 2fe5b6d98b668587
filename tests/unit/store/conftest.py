"""A store of each kind that is supported, fresh for every test."""

from __future__ import annotations

import pytest
from tests.unit.store.setups import POLICY, FakeClock

from assay.store.control import Control
from assay.store.store import Store


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.live)])
def database(request, tmp_path):
    """A fresh database of each kind that is supported."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'assay.db'}"
    return request.getfixturevalue("postgresql").migrated()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def fleet(database, tmp_path):
    opened = Store(tmp_path / "store", url=database)
    yield opened
    opened.close()


@pytest.fixture
def control(fleet, clock):
    return Control(fleet.engine, clock, POLICY, seed=1)
