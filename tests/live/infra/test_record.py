"""Where systems lie, and that their folders go without a trace."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from assay.errors import MeasureError, UsageError
from assay.infra import record
from assay.infra.record import base_folder, folder_of, keep, kept, make_folder, remove_folder


@dataclass(frozen=True, slots=True)
class Note:
    text: str


def test_each_system_has_a_folder_of_its_own(place):
    assert folder_of("local", "default") == place / "local" / "default"
    assert folder_of("aws", "two") == place / "aws" / "two"


@pytest.mark.parametrize("name", ["", "Big", "1st", "a/b", "..", "a-", "x" * 21, "a b"])
def test_names_that_would_be_paths_or_no_dns_names_are_refused(place, name):
    with pytest.raises(UsageError) as wrong:
        folder_of("local", name)
    assert wrong.value.problem.code == "name"


def test_root_has_its_systems_where_other_accounts_can_reach_them(monkeypatch):
    monkeypatch.delenv("ASSAY_INFRA", raising=False)
    monkeypatch.setattr(record, "is_root", lambda: True)
    assert str(base_folder()) == "/var/lib/assay/infra"
    monkeypatch.setattr(record, "is_root", lambda: False)
    assert base_folder().parts[-2:] == ("assay", "infra")


def test_folders_that_were_made_are_removed_again_and_others_stay(place):
    place.parent.parent.joinpath("mine").mkdir()
    folder = folder_of("local", "default")
    made = make_folder(folder)
    assert list(made) == [str(place / "local"), str(place), str(place.parent)]
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "file").write_text("x")
    remove_folder(folder, made)
    assert not place.parent.exists()
    assert place.parent.parent.joinpath("mine").is_dir()


def test_a_folder_above_that_another_system_uses_stays(place):
    first, second = folder_of("local", "one"), folder_of("local", "two")
    made = make_folder(first)
    assert make_folder(second) == ()
    remove_folder(first, made)
    assert second.is_dir()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may remove everything")
def test_what_cannot_be_removed_is_reported(place):
    folder = folder_of("local", "default")
    make_folder(folder)
    (folder / "closed").mkdir()
    (folder / "closed" / "file").write_text("x")
    (folder / "closed").chmod(0o500)
    with pytest.raises(MeasureError, match="could not be removed"):
        remove_folder(folder)
    (folder / "closed").chmod(0o700)


def test_records_are_kept_and_read_and_a_missing_one_is_none(place):
    folder = folder_of("local", "default")
    make_folder(folder)
    assert kept(folder, "note.json", Note) is None
    keep(folder, "note.json", Note("x"))
    assert kept(folder, "note.json", Note) == Note("x")
    (folder / "note.json").write_text("{")
    with pytest.raises(UsageError, match="not a Note document"):
        kept(folder, "note.json", Note)
