"""Types of machines: the table of the package, and one of the user's own that wins over it."""

from __future__ import annotations

import csv
from importlib.resources import files
from pathlib import Path

import pytest

from assay.errors import UsageError
from assay.spec.benchmark import Needs
from assay.spec.importers.fields import COLUMNS, VARIABLE, find_instance

HEAD = ",".join(COLUMNS)


def test_a_type_has_processors_memory_and_gpus() -> None:
    found = find_instance("g4dn.12xlarge", {})
    assert found is not None
    assert (found.cpus, found.memory_gib, found.gpus, found.gpu_model, found.gpu_memory_gib) == (48, 192, 4, "T4", 16)
    plain = find_instance("t3.nano", {})
    assert plain is not None
    assert plain.needs() == {"cpus": 2, "memory": "460MiB"}
    assert find_instance("t3.nanobot", {}) is None


def test_every_row_of_the_table_is_a_machine_once() -> None:
    rows = list(csv.DictReader((files("assay.spec.importers") / "instances.csv").read_text().splitlines()))
    names = [row["instance_type"] for row in rows]
    assert len(set(names)) == len(names) > 150
    for name in names:
        found = find_instance(name, {})
        assert found is not None
        assert bool(found.gpus) == bool(found.gpu_model) == bool(found.gpu_memory_gib)
        assert bool(found.gpus) == (name[0] in "gp")
        Needs.model_validate(found.needs())


def test_a_table_of_ones_own_adds_and_wins(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text(f"{HEAD}\nlab.gpu,64,512,2,H100,80\nt3.nano,4,1,,,\n")
    known = {VARIABLE: str(own)}
    lab = find_instance("lab.gpu", known)
    assert lab is not None
    assert lab.needs() == {
        "cpus": 64,
        "memory": "471859MiB",
        "gpus": 2,
        "gpu_model": "H100",
        "gpu_memory": "73728MiB",
    }
    nano = find_instance("t3.nano", known)
    assert nano is not None
    assert (nano.cpus, nano.gpus) == (4, 0)
    assert find_instance("m5.large", known) == find_instance("m5.large", {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,cpus\nx,1\n", "has other columns than"),
        (f"{HEAD}\nx,many,1,0,,\n", "a number is wrong"),
        (f"{HEAD}\nx,0,1,0,,\n", "a size that no machine has"),
        (f"{HEAD}\nx,1,nan,0,,\n", "a size that no machine has"),
        (f"{HEAD}\nx,1\n", "a number is wrong"),
    ],
)
def test_a_table_that_is_wrong_is_said(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "own.csv").write_text(text)
    with pytest.raises(UsageError) as caught:
        find_instance("x", {VARIABLE: str(tmp_path / "own.csv")})
    assert words in caught.value.problem.message


def test_a_table_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        find_instance("x", {VARIABLE: str(tmp_path / "none.csv")})
