import pytest

from assay.spec.load import load
from assay.spec.source import parse
from assay.spec.starter import starter


@pytest.mark.parametrize(
    "target",
    [
        "squeezenet",
        "models/my model.onnx",
        "https://example.org/m.onnx?x=1",
        "https://example.org/v1",
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


def test_a_starter_explains_itself():
    text = starter("squeezenet")
    assert text.count("#") > 5
    assert parse(text, ".yaml", "f").document["measure"]["runs"] == 5
