"""Foreign documents are recognised by what they hold; importers of other packages are found by entry points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.errors import SpecError, UsageError
from assay.plan.plan import make_plan
from assay.spec.importers import Imported, find_importer, importer_names, own_source
from assay.spec.importers.registry import OURS, recognised
from assay.spec.load import load, read_with
from assay.spec.source import from_mapping, parse

TEAM9 = {"job": {"service": {"model": "phi"}}}
SARK = {"model_url": "https://models.example/m.onnx", "jobs": [{"compute_unit": "CPU (ONNX)"}]}


@pytest.mark.parametrize(
    ("document", "name"),
    [
        (TEAM9, "team9"),
        (SARK, "sark"),
        ({"benchmark": "b", "job": {"service": {}}}, None),
        ({"target": {}}, None),
        ({}, None),
    ],
)
def test_a_document_is_recognised_by_what_it_holds(document: dict[str, Any], name: str | None) -> None:
    assert recognised(document) == name


def test_a_benchmark_stays_as_it_is() -> None:
    source = parse("benchmark: b\ntarget: {command: echo}\n", ".yaml", "b.yaml")
    assert own_source(source) is source
    assert source.notes == ()


@pytest.mark.parametrize("document", [TEAM9, SARK])
def test_what_is_loaded_says_where_it_comes_from(document: dict[str, Any]) -> None:
    loaded = load(document)
    assert "imported as a benchmark" in loaded.source.notes[0]
    assert loaded.benchmark.benchmark


def test_settings_are_those_of_the_benchmark(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("job:\n  infrastructure: {partition: gpu, time: 00:15:00}\n  service: {model: phi}\n")
    loaded = read_with(path, ["place.engine=local", "monitoring=false", "load.requests=2"])
    assert (loaded.benchmark.place.engine, loaded.benchmark.monitoring) == ("local", False)
    assert loaded.benchmark.load.requests == 2
    assert loaded.benchmark.place.slurm is not None
    assert loaded.benchmark.place.slurm.time == 900


def test_a_campaign_of_sark_becomes_one_benchmark_with_a_point_for_each_job() -> None:
    jobs = [
        {"compute_unit": "CPU (ONNX)", "num_inference_runs": 5, "colour": "red"},
        {"compute_unit": "GPU (ONNX)", "worker_id": "w1"},
    ]
    loaded = load({**SARK, "jobs": jobs, "labels": {"a": "b"}, "mood": 1})
    plan = make_plan(loaded, lambda _: {})
    assert [job.definition.target.device for job in plan.jobs] == ["cpu", "cuda"]  # type: ignore[union-attr]
    assert [job.definition.measure.until.samples for job in plan.jobs] == [5, 10]
    assert [job.definition.needs.agent for job in plan.jobs] == [None, "w1"]
    assert loaded.source.notes[1:] == (
        "mood: no field of a campaign that is known; left out",
        "jobs[0].colour: no field of a job that is known; left out",
    )


def test_equal_jobs_of_sark_are_said() -> None:
    job = {"compute_unit": "CPU (ONNX)"}
    assert "measured once" in load({**SARK, "jobs": [job, job]}).source.notes[-1]


def test_a_wrong_campaign_is_said_at_its_line() -> None:
    text = '{"model_url": "https://m.example/m.onnx",\n "jobs": [{\n  "compute_unit": "TPU"}]}'
    with pytest.raises(SpecError) as caught:
        own_source(parse(text, ".json", "campaign.json"))
    assert caught.value.problem.at == "campaign.json:3"
    assert "jobs[0].compute_unit: unknown compute_unit 'TPU'" in caught.value.problem.message


def test_an_unknown_importer_is_said() -> None:
    with pytest.raises(UsageError) as caught:
        own_source(from_mapping(TEAM9), "taem9")
    assert caught.value.problem.try_ == "did you mean team9?"


def test_the_metadata_of_the_package_names_the_importers_that_it_has() -> None:
    import tomllib

    import assay

    project = tomllib.loads((Path(assay.__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["assay.importers"] == OURS
    assert set(OURS) <= set(importer_names())


def _installed(folder: Path, name: str, target: str, text: str) -> None:
    (folder / f"{name}_importer.py").write_text(text)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[assay.importers]\n{name} = {target}\n")


OTHER = """
from assay.spec.importers import Imported

TITLE = "a todo list"

def recognises(document):
    return "todo" in document

def imported(document):
    return Imported({"benchmark": document["todo"], "target": {"command": "echo"}}, ("one remark",))
"""


def test_a_package_brings_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(tmp_path, "todo", "todo_importer", OTHER)
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = load({"todo": "wash up"})
    assert loaded.benchmark.benchmark == "wash up"
    assert loaded.source.notes == ("benchmark is a todo list, imported as a benchmark", "one remark")
    assert isinstance(find_importer("todo").imported({"todo": "x"}), Imported)


@pytest.mark.parametrize(
    ("text", "words"), [("1 / 0", "ZeroDivisionError"), ("TITLE = 'half'", "has no recognises and no imported")]
)
def test_a_broken_package_is_said_and_keeps_nobody_from_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    _installed(tmp_path, "broken", "broken_importer", text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert recognised({"whatever": 1}) is None
    with pytest.raises(UsageError) as caught:
        find_importer("broken")
    assert words in caught.value.problem.message
    monkeypatch.delitem(__import__("sys").modules, "broken_importer", raising=False)
