from __future__ import annotations

import pytest

from assay.run.programs import advice_for


@pytest.fixture
def path(tmp_path) -> str:
    for folder, name in (("a", "python3"), ("b", "trainer")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch(mode=0o755)
    (tmp_path / "b" / "pyhton").touch(mode=0o644)  # no program
    return f"{tmp_path}/a:{tmp_path}/none:{tmp_path}/b"


def test_a_misspelt_program_is_recognized(path):
    assert advice_for("pyhton3", FileNotFoundError(), path) == "did you mean python3?"
    assert advice_for("trainr", FileNotFoundError(), path) == "did you mean trainer?"


@pytest.mark.parametrize("word", ["wget", "./python", "/usr/bin/pyhton3"])
def test_what_is_like_none_or_has_a_folder_is_left_to_the_reader(word, path):
    assert advice_for(word, FileNotFoundError(), path).startswith("check the command and cwd")


def test_another_problem_than_a_missing_file_is_not_blamed_on_the_name(path):
    assert advice_for("pyhton3", PermissionError(), path).startswith("check the command and cwd")
