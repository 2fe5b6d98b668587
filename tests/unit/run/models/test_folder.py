"""Language models in folders: which files count, and what is refused."""

from __future__ import annotations

import hashlib
import json

import pytest

from assay.errors import MeasureError
from assay.plan.job import Job, JobFile
from assay.run.inputs import files_of, fingerprints
from assay.run.job_files import place_files
from assay.run.models import resolve
from assay.run.models.sources import is_folder
from assay.spec.benchmark import Definition
from assay.spec.target import ModelTarget


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "model"
    (made / "1_Pooling").mkdir(parents=True)
    contents = {
        "config.json": "{}",
        "model.safetensors": "weights",
        "tokenizer.json": "words",
        "own.py": "code",
        "README.md": "read",
        "1_Pooling/config.json": "pool",
        ".hidden.json": "no",
    }
    for name, text in contents.items():
        (made / name).write_text(text)
    return made


def found(tmp_path, model="model", **more):
    return resolve(ModelTarget(model=model, runtime="transformers", **more), tmp_path, cache=tmp_path / "cache")


def test_one_digest_for_what_makes_the_model(folder, tmp_path):
    local = found(tmp_path)
    assert local.path == folder
    names = ["config.json", "1_Pooling/config.json", "model.safetensors", "tokenizer.json"]
    lines = "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    assert local.sha256 == hashlib.sha256(lines.encode()).hexdigest()
    assert found(tmp_path, sha256=local.sha256) == local
    assert found(tmp_path, "model/config.json") == local
    (folder / "README.md").write_text("other")
    assert found(tmp_path).sha256 == local.sha256
    assert found(tmp_path, remote_code=True).sha256 != local.sha256
    (folder / "model.safetensors").write_text("other weights")
    assert found(tmp_path).sha256 != local.sha256
    with pytest.raises(MeasureError, match=r"target\.sha256"):
        found(tmp_path, sha256=local.sha256)


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors", "config.json", "1_Pooling"])
def test_a_link_out_of_the_folder_is_refused_before_it_is_read(folder, tmp_path, opened_files, name):
    secret = tmp_path / "secret" / "config.json"
    secret.parent.mkdir()
    secret.write_text("{}")
    target = folder / name
    if target.is_dir():
        (target / "config.json").unlink()
        target.rmdir()
        target.symlink_to(secret.parent)
    else:
        target.unlink()
        target.symlink_to(secret)
    opened_files.clear()
    with pytest.raises(MeasureError, match="is a link to"):
        found(tmp_path)
    with pytest.raises(MeasureError, match="is a link to"):
        fingerprints(Definition.model_validate({"target": {"model": "model", "runtime": "transformers"}}), tmp_path)
    assert str(secret) not in opened_files
    assert str(target) not in opened_files


def test_a_folder_of_the_hub_cache_is_made_of_links(folder, tmp_path):
    kept = tmp_path / "models--a--b" / "snapshots" / "rev"
    blobs = tmp_path / "models--a--b" / "blobs"
    kept.mkdir(parents=True)
    blobs.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).rename(blobs / name.replace(".", ""))
        (kept / name).symlink_to(blobs / name.replace(".", ""))
    assert found(tmp_path, str(kept)).path == kept


def test_shards_are_those_that_the_index_names(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}))
    (folder / "one.safetensors").write_text("1")
    with pytest.raises(MeasureError, match=r"names two\.safetensors"):
        found(tmp_path)
    (folder / "two.safetensors").write_text("2")
    (folder / "other.safetensors").write_text("3")
    assert "other.safetensors" not in found(tmp_path).external
    index.write_text(json.dumps({"weight_map": {"a": "../one.safetensors"}}))
    with pytest.raises(MeasureError, match="not in that folder"):
        found(tmp_path)
    index.write_text("{")
    with pytest.raises(MeasureError, match="cannot be read"):
        found(tmp_path)


@pytest.mark.parametrize(
    ("file", "words", "hint"),
    [
        ("pytorch_model.bin", "a pickle file", "safetensors"),
        ("model.gguf", "llama.cpp", "services"),
        ("nothing.txt", "neither model.safetensors", "save_pretrained"),
    ],
)
def test_other_weights_are_refused_with_advice(folder, tmp_path, file, words, hint):
    (folder / "model.safetensors").unlink()
    (folder / file).write_text("x")
    with pytest.raises(MeasureError) as caught:
        found(tmp_path)
    assert words in caught.value.problem.message
    assert hint in caught.value.problem.try_


def test_folders_that_hold_no_whole_model(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "adapter_config.json").write_text("{}")
    with pytest.raises(MeasureError, match="adapter"):
        found(tmp_path, "a")
    (tmp_path / "b").mkdir()
    with pytest.raises(MeasureError, match=r"no config\.json"):
        found(tmp_path, "b")


def test_a_slip_in_a_path_is_no_question_to_the_network(folder, tmp_path):
    (tmp_path / "models").mkdir()
    assert not is_folder(ModelTarget(model="models/slip", runtime="transformers"), tmp_path)
    with pytest.raises(MeasureError, match="does not exist"):
        found(tmp_path, "models/slip")
    assert is_folder(ModelTarget(model="some/model", runtime="transformers"), tmp_path)
    assert not is_folder(ModelTarget(model="some/model"), tmp_path)


def test_a_changed_file_is_a_changed_job_and_a_folder_travels(folder, tmp_path):
    definition = Definition.model_validate({"target": {"model": "model", "runtime": "transformers"}}, strict=False)
    before = fingerprints(definition, tmp_path)
    assert before == {"model": found(tmp_path).sha256}
    parts = files_of(definition, tmp_path)["model"]
    files = {"model": tuple(JobFile(part.name, part.sha256, part.size_bytes) for part in parts)}
    placed = place_files(Job("b", "d", 0, definition, files=files))
    assert placed.definition.target.model == "files/0/config.json"
    assert "files/0/1_Pooling/config.json" in [place for _, place in placed.places]
    (folder / "tokenizer.json").write_text("other words")
    assert fingerprints(definition, tmp_path) != before


@pytest.mark.parametrize("name", ["../..", "org/..", "../model", "./model", "org/.", "org/model@../../x"])
def test_a_path_is_no_name_of_the_hub(name, tmp_path):
    from assay.run.models.sources import hub_name

    assert hub_name(ModelTarget(model=name, runtime="transformers")) is None
    away = tmp_path / "no" / "such" / "folder"  # nothing exists from there
    assert not is_folder(ModelTarget(model=name, runtime="transformers"), away)


@pytest.mark.parametrize("name", ["org/model", "org/model-1.5@main", "a.b/c_d@refs/pr/1"])
def test_names_of_the_hub_are_still_names(name):
    from assay.run.models.sources import hub_name

    assert hub_name(ModelTarget(model=name, runtime="transformers")) == name
