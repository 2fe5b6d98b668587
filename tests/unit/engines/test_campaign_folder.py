"""What the folders of all engines have in common, and in what they differ."""

from __future__ import annotations

import stat
from dataclasses import dataclass

import pytest

from assay.engines.kubernetes.folder import PodFolder
from assay.engines.slurm.folder import SharedFolder
from assay.errors import StoreError, UsageError


@dataclass(frozen=True, slots=True)
class Written:
    name: str
    number: int = 0


KINDS = [
    pytest.param(SharedFolder, 0o644, "place.slurm.folder", id="slurm"),
    pytest.param(PodFolder, 0o600, "--store", id="kubernetes"),
]


@pytest.mark.parametrize(("kind", "mode", "named_by"), KINDS)
def test_what_is_written_is_read_again_and_bears_the_rights_of_its_engine(kind, mode, named_by, tmp_path):
    folder = kind(tmp_path / "c1")
    with pytest.raises(UsageError, match="no campaign in this folder") as caught:
        folder.read_campaign(Written)
    assert named_by in caught.value.problem.try_
    folder.write_campaign(Written("a", 7))
    assert folder.read_campaign(Written) == Written("a", 7)
    assert stat.S_IMODE(folder.campaign.stat().st_mode) == mode


@pytest.mark.parametrize(("kind", "mode", "named_by"), KINDS)
def test_a_line_that_was_cut_short_costs_itself_alone(kind, mode, named_by, tmp_path):
    folder = kind(tmp_path)
    assert list(folder.noted()) == []
    folder.note({"name": "jobs-é"})
    with folder.submitted.open("a") as file:
        file.write('{"name": "jo')
    folder.note({"name": "jobs-1"})
    assert list(folder.noted()) == [{"name": "jobs-é"}, {"name": "jobs-1"}]


@pytest.mark.parametrize(("kind", "mode", "named_by"), KINDS)
def test_a_disk_that_refuses_is_reported_with_what_to_do(kind, mode, named_by, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError) as caught:
        kind(tmp_path / "file" / "c1").write_campaign(Written("a"))
    assert named_by in caught.value.problem.try_
    assert str(tmp_path / "file") in caught.value.problem.at
