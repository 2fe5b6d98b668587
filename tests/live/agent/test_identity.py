"""Who an agent is: for ever, on one machine, alone in its folder."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay.agent.identity import hold_folder, identity, state_folder
from assay.errors import UsageError


def test_an_identity_is_made_once(tmp_path):
    first = identity(tmp_path, "machine-a")
    assert identity(tmp_path, "machine-a") == first
    assert len(first.id) == 32
    assert not first.note


def test_equal_machines_have_different_identities(tmp_path):
    assert identity(tmp_path / "a", "same").id != identity(tmp_path / "b", "same").id


def test_a_folder_copied_with_a_disk_image_gets_a_new_identity_and_says_so(tmp_path):
    before = identity(tmp_path, "machine-a")
    after = identity(tmp_path, "machine-b")
    assert after.id != before.id
    assert "another machine" in after.note
    again = identity(tmp_path, "machine-b")
    assert (again.id, again.note) == (after.id, "")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"id": "x"}'])
def test_a_damaged_file_gives_a_new_identity(tmp_path, content):
    (tmp_path / "identity.json").write_text(content)
    made = identity(tmp_path, "machine-a")
    assert "damaged" in made.note
    assert json.loads((tmp_path / "identity.json").read_text())["id"] == made.id


@pytest.mark.parametrize("content", ["", "{", "\0" * 100, None])
def test_a_damaged_or_lost_file_is_made_again_from_its_copy(tmp_path, content):
    """With a new identity the server would take the agent for another one, and refuse what it has still to deliver."""
    first = identity(tmp_path, "machine-a")
    if content is None:
        (tmp_path / "identity.json").unlink()
    else:
        (tmp_path / "identity.json").write_text(content)
    again = identity(tmp_path, "machine-a")
    assert again.id == first.id
    assert "copy" in again.note
    assert identity(tmp_path, "machine-a") == first


def test_a_copy_of_another_machine_is_not_taken(tmp_path):
    first = identity(tmp_path, "machine-a")
    (tmp_path / "identity.json").write_text("{")
    assert identity(tmp_path, "machine-b").id != first.id


def test_a_copy_is_made_for_an_identity_of_before(tmp_path):
    first = identity(tmp_path, "machine-a")
    (tmp_path / "identity.copy.json").unlink()
    identity(tmp_path, "machine-a")
    (tmp_path / "identity.json").write_text("")
    assert identity(tmp_path, "machine-a").id == first.id


def test_processes_that_start_together_agree(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        found = {one.id for one in pool.map(lambda _: identity(tmp_path, "m"), range(32))}
    assert len(found) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["identity.copy.json", "identity.json"]


def test_the_file_is_for_its_owner_alone(tmp_path):
    identity(tmp_path, "m")
    assert (tmp_path / "identity.json").stat().st_mode & 0o077 == 0


def test_a_folder_is_held_by_one_process(tmp_path):
    handle = hold_folder(tmp_path / "state")
    script = "import pathlib, sys; from assay.agent.identity import *; hold_folder(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", script, str(tmp_path / "state")]
    other = subprocess.run(command, capture_output=True, text=True)
    assert "another agent uses this state folder" in other.stderr
    import os

    os.close(handle)
    assert subprocess.run(command).returncode == 0


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        hold_folder(tmp_path / "file" / "state")


def test_the_state_folder_is_given_or_named_or_the_users(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_AGENT_STATE", str(tmp_path / "named"))
    assert state_folder(tmp_path / "given") == tmp_path / "given"
    assert state_folder() == tmp_path / "named"
    monkeypatch.delenv("ASSAY_AGENT_STATE")
    assert state_folder().parts[-2:] == ("assay", "agent")
