"""Engines are found by name: ours, and those that another package registers."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from assay.engines.base import GROUP, OURS, engine_in, engine_named, engines
from assay.engines.slurm.folder import SharedFolder, remember_folder
from assay.errors import UsageError


@pytest.mark.parametrize("name", OURS)
def test_ours_are_called_as_files_call_them(name):
    assert name == engine_named(name).NAME


def test_ours_are_registered_too():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][GROUP] == OURS


def test_a_name_that_no_package_has_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match="no engine 'nomad'") as refused:
        engine_named("nomad")
    assert "slurm" in refused.value.problem.try_


def test_another_package_may_bring_one(monkeypatch):
    theirs = EntryPoint("nomad", "assay.engines.slurm.engine:SlurmEngine", GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [theirs])
    assert engine_named("nomad") is engine_named("slurm")
    assert [engine.NAME for engine in engines()] == [*OURS, "slurm"]


def test_a_campaign_is_found_by_the_engine_that_keeps_a_folder_of_it(tmp_path):
    assert engine_in(tmp_path, "c1") is engine_named("local")
    remember_folder(tmp_path, "c1", SharedFolder(tmp_path / "shared"))
    assert engine_in(tmp_path, "c1") is engine_named("slurm")
