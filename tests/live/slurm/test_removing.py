"""What is left of a campaign on a cluster when its results are removed: nothing, or a word about it."""

from __future__ import annotations

import pytest

from assay.engines.drive import refuse_followed
from assay.engines.slurm.folder import (
    SharedFolder,
    SlurmCampaign,
    is_on_cluster,
    remember_folder,
    remove_folder,
)
from assay.errors import UsageError
from assay.run.scratch import held
from assay.spec.slurm import Slurm


@pytest.fixture
def shared(tmp_path) -> SharedFolder:
    made = SharedFolder(tmp_path / "shared" / "c1")
    made.make()
    made.write_campaign(SlurmCampaign("c1", "b", "", Slurm(), (), ()))
    remember_folder(tmp_path / "store", "c1", made)
    return made


def test_the_shared_folder_goes_with_the_results(shared, tmp_path):
    store = tmp_path / "store"
    assert remove_folder(store, "c1") == f"removed {shared.path}"
    assert not shared.path.exists()
    assert not is_on_cluster(store, "c1")
    assert remove_folder(store, "c1") == ""


def test_a_folder_that_is_not_known_to_be_its_own_stays(shared, tmp_path):
    shared.write_campaign(SlurmCampaign("c2", "b", "", Slurm(), (), ()))
    assert remove_folder(tmp_path / "store", "c1").startswith(f"left {shared.path}")
    assert shared.campaign.is_file()


def test_nothing_is_removed_below_a_process_that_follows_it(shared, tmp_path):
    with held(shared.path), pytest.raises(UsageError, match="a process follows"):
        refuse_followed(tmp_path / "store", "c1")
    refuse_followed(tmp_path / "store", "c1")
    refuse_followed(tmp_path / "store", "another")
