import pytest

from assay.errors import SpecError
from assay.spec.load import load
from assay.spec.runnable import PLACEHOLDER
from assay.spec.source import parse
from assay.spec.starter import starter


@pytest.mark.parametrize(
    "target",
    [
        "squeezenet",
        "models/my model.onnx",
        "https://example.org/m.onnx?x=1",
        "python train.py --lr 1e-3",
        "weird: # name.onnx",
        "ünïcode.onnx",
    ],
)
def test_a_starter_is_valid_as_it_is(target, tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text(starter(target))
    described = load(path).benchmark.target
    assert target in (
        getattr(described, "model", None),
        getattr(described, "command", None),
        getattr(described, "endpoint", None),
    )


def test_a_starter_for_an_endpoint_names_its_model(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text(starter("https://example.org/v1", ["org/first: 1b", "second"]))
    benchmark = load(path).benchmark
    assert benchmark.target.endpoint == "https://example.org/v1"
    assert benchmark.target.model == "org/first: 1b"
    assert benchmark.workload.input_tokens is None  # a server need not have a tokenizer
    assert "second" in path.read_text()


def test_a_starter_whose_model_is_not_known_is_refused_until_it_is(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text(starter("https://example.org/v1"))
    with pytest.raises(SpecError) as caught:
        load(path)
    assert caught.value.problem.code == "placeholder"
    assert caught.value.problem.at.endswith("b.yaml:6")
    path.write_text(path.read_text().replace(PLACEHOLDER, "mine"))
    assert load(path).benchmark.target.model == "mine"


def test_a_starter_explains_itself():
    text = starter("squeezenet")
    assert text.count("#") > 5
    assert parse(text, ".yaml", "f").document["measure"]["runs"] == 5
