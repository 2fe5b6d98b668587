"""Code and files of a command travel with its job, by content, to wherever it is measured."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from assay.errors import MeasureError
from assay.plan.job import Job, JobFile, digest_of
from assay.run.code_archive import pack, unpack
from assay.run.inputs import LocalPart, files_of, fingerprints
from assay.run.job_files import local_paths, materialise, place_files
from assay.spec.benchmark import Definition


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "bench"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("print(1)")
    (folder / "data.csv").write_text("a,b\n")
    (folder / "train.py").write_text("print(2)")
    return folder


def definition(**target: Any) -> Definition:
    fetch = [{"src": "data.csv", "path": "/data/d.csv"}, {"src": "https://x/y", "path": "/y"}]
    wanted = {"command": "python {code}/src/train.py train.py", "code": "src", "fetch": fetch, **target}
    return Definition.model_validate_json(json.dumps({"target": wanted}))


def sent(found: dict[str, tuple[LocalPart, ...]], definition: Definition) -> Job:
    files = {
        text: tuple(JobFile(one.name, one.sha256, one.size_bytes) for one in parts) for text, parts in found.items()
    }
    return Job("b", "d", 0, definition, files=files)


def test_code_is_one_file_and_data_another(base: Path) -> None:
    found = files_of(definition(), base)
    assert {text: [part.name for part in parts] for text, parts in found.items()} == {
        "train.py": ["train.py"],
        "src": ["code.tar"],
        "data.csv": ["data.csv"],
    }
    assert local_paths(definition()) == ("src", "data.csv")


def test_both_are_found_where_they_were_put(base: Path, tmp_path: Path) -> None:
    asked = definition()
    found = files_of(asked, base)
    here = {part.sha256: part.path for parts in found.values() for part in parts}
    job = materialise(sent(found, asked), tmp_path / "there", lambda file, path: shutil.copy(here[file.sha256], path))
    target: Any = job.definition.target
    assert target.code == "files/1/code.tar"
    assert (tmp_path / "there" / target.fetch[0].src).read_text() == "a,b\n"
    assert target.fetch[1].src == "https://x/y"
    assert (tmp_path / "there" / "train.py").read_text() == "print(2)"
    unpack(pack(tmp_path / "there" / target.code, tmp_path / "cache").path, tmp_path / "out")
    assert (tmp_path / "out" / "src" / "train.py").read_text() == "print(1)"


def test_a_job_is_distinguished_by_its_code(base: Path) -> None:
    def digest(asked: Definition) -> str:
        return digest_of(asked, fingerprints(asked, base))

    before = digest(definition())
    shutil.copytree(base / "src", base / "lib" / "src")
    assert digest(definition(code="lib/src")) == before, "the same code, wherever it lies"
    (base / "src" / "train.py").write_text("print(3)")
    assert digest(definition()) != before


def test_in_a_container_words_name_files_of_the_image(base: Path) -> None:
    boxed = definition(image="x:1", cwd="/work")
    found = files_of(boxed, base)
    assert set(found) == {"src", "data.csv"}
    assert [place for _, place in place_files(sent(found, boxed)).places] == ["files/1/code.tar", "files/2/data.csv"]


def test_code_that_is_not_there_is_left_to_the_run_and_code_that_cannot_be_packed_is_said(base: Path) -> None:
    assert "nowhere" not in files_of(definition(code="nowhere"), base)
    (base / "src" / "out").symlink_to("/etc/hostname")
    with pytest.raises(MeasureError, match="leads out of the code"):
        files_of(definition(), base)
