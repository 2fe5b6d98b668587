"""A store with a folder as its object store, and a file that its runs leave."""

from __future__ import annotations

import pytest

from assay.store.store import Store


@pytest.fixture
def place(tmp_path):
    """A folder that serves as object store; renamed, it is away."""
    return tmp_path / "objects"


@pytest.fixture
def store(tmp_path, place):
    opened = Store(tmp_path / "store", objects=str(place))
    yield opened
    opened.close()


@pytest.fixture
def left(tmp_path):
    path = tmp_path / "answers.txt"
    path.write_bytes(b"forty-two")
    return path
