"""A store of each kind that is supported, fresh for every test, and a clock that only moves when told."""

from __future__ import annotations

import pytest
from tests.unit.store.setups import FakeClock

from assay.store.store import Store


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.live)])
def store(request, tmp_path):
    """A fresh store on each kind of database."""
    url = request.getfixturevalue("postgresql").migrated() if request.param == "postgresql" else None
    opened = Store(tmp_path / "store", url)
    yield opened
    opened.close()


@pytest.fixture
def clock():
    return FakeClock()
