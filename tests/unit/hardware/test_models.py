"""Models in folders: known by their headers, whatever state the files are in, and never run."""

from __future__ import annotations

import json
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import UsageError
from assay.hardware.model_formats import UnreadableModelError, gguf, onnx, safetensors
from assay.hardware.models import find_models

Q4_K, F32 = 12, 0


def text(value: str, order: str = "<") -> bytes:
    return struct.pack(order + "Q", len(value.encode())) + value.encode()


def gguf_bytes(*, order: str = "<", version: int = 3) -> bytes:
    """A small GGUF file: settings of every type, two tensors, no weights."""

    def pack(form, *values):
        return struct.pack(order + form, *values)

    def string(value):
        return text(value, order)

    pairs = [
        string("general.architecture") + pack("I", 8) + string("llama"),
        string("general.name") + pack("I", 8) + string("Tiny"),
        string("general.file_type") + pack("II", 4, 15),
        string("llama.block_count") + pack("II", 4, 2),
        string("llama.context_length") + pack("II", 4, 4096),
        string("llama.rope.freq_base") + pack("If", 6, 1e4),
        string("tokenizer.ggml.tokens") + pack("IIQ", 9, 8, 3) + string("a") + string("bc") + string("" * 9),
        string("tokenizer.ggml.scores") + pack("IIQ", 9, 6, 2) + pack("ff", 0.5, 1.5),
        string("tokenizer.chat_template") + pack("I", 8) + string("x" * 2000),
        string("some.flag") + pack("I?", 7, True),
    ]
    tensors = [
        string("blk.0.weight") + pack("I", 2) + pack("QQ", 256, 32) + pack("IQ", Q4_K, 0),
        string("norm.weight") + pack("I", 1) + pack("Q", 256) + pack("IQ", F32, 4608),
    ]
    head = b"GGUF" + pack("I", version) + pack("QQ", len(tensors), len(pairs))
    return head + b"".join(pairs) + b"".join(tensors)


def safetensors_bytes(tensors: dict[str, tuple[str, list[int]]]) -> bytes:
    header = {
        name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]} for name, (dtype, shape) in tensors.items()
    }
    body = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return struct.pack("<Q", len(body)) + body


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_gguf_file_reports_its_architecture_and_its_quantisation(tmp_path, order):
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf_bytes(order=order))
    assert gguf(file) == {
        "parameters": 256 * 32 + 256,
        "dtype": "Q4_K",
        "dtypes": {"Q4_K": 8192, "F32": 256},
        "architecture": "llama",
        "layers": 2,
        "context_tokens": 4096,
        "name": "Tiny",
        "quantisation": "Q4_K_M",
    }


def test_a_gguf_file_cut_anywhere_is_refused_and_nothing_worse(tmp_path):
    whole = gguf_bytes()
    file = tmp_path / "cut.gguf"
    template = whole.index(b"x" * 2000)
    for length in (*range(template + 3), *range(template + 1997, len(whole))):  # its inside is all alike
        file.write_bytes(whole[:length])
        with pytest.raises(UnreadableModelError):
            gguf(file)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(at=st.integers(0, len(gguf_bytes()) - 8), junk=st.binary(min_size=1, max_size=8))
def test_a_gguf_file_with_junk_in_it_never_crashes(tmp_path, at, junk):
    whole = bytearray(gguf_bytes())
    whole[at : at + len(junk)] = junk
    file = tmp_path / "junk.gguf"
    file.write_bytes(whole)
    try:
        found = gguf(file)
    except UnreadableModelError:
        return
    json.dumps(found)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.one_of(
        st.binary(max_size=80),
        st.text(max_size=60).map(lambda body: struct.pack("<Q", len(body.encode())) + body.encode()),
    )
)
def test_any_bytes_are_safetensors_or_refused(tmp_path, content):
    file = tmp_path / "any.safetensors"
    file.write_bytes(content)
    try:
        found = safetensors(file)
    except UnreadableModelError:
        return
    assert all(tensor.elements >= 0 for tensor in found)


def only(folder) -> dict:
    (found,) = find_models([folder])
    return found


def test_a_safetensors_file_reports_its_parameters_and_types(tmp_path):
    (tmp_path / "m.safetensors").write_bytes(
        safetensors_bytes({"a": ("BF16", [10, 20]), "b": ("F32", [5]), "c": ("F32", [])})
    )
    found = only(tmp_path)
    assert (found["format"], found["parameters"], found["dtype"]) == ("safetensors", 206, "bfloat16")
    assert found["dtypes"] == {"bfloat16": 200, "float32": 6}
    assert "architecture" in found["absent"]


@pytest.fixture
def hugging(tmp_path):
    folder = tmp_path / "models--org--name" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "torch_dtype": "float16",
                "quantization_config": {"quant_method": "gptq", "bits": 4},
            }
        )
    )
    for part in (1, 2):
        name = f"model-0000{part}-of-00002.safetensors"
        (folder / name).write_bytes(safetensors_bytes({f"w{part}": ("I32", [100, 10])}))
    (folder / "consolidated.safetensors").write_bytes(safetensors_bytes({"all": ("F16", [9])}))
    (folder / "pytorch_model.bin").write_bytes(b"PK")
    (folder / "tokenizer.json").write_text("{}")
    return folder


def test_a_hugging_face_folder_is_one_model_with_all_its_shards(hugging):
    found = {one["format"]: one for one in find_models([hugging.parents[2]])}
    model = found["huggingface"]
    assert model["architecture"] == "LlamaForCausalLM"
    assert model["quantisation"] == "gptq, 4 bit"
    assert (model["parameters"], model["dtype"]) == (2000, "int32")
    shards = hugging.glob("model-*.safetensors")
    assert model["size_bytes"] == sum(path.stat().st_size for path in shards)
    assert found.keys() == {"huggingface", "safetensors"}  # the same weights once more, in another layout


def test_a_damaged_shard_leaves_what_the_config_tells(hugging):
    (hugging / "model-00001-of-00002.safetensors").write_bytes(b"short")
    model = next(one for one in find_models([hugging]) if one["format"] == "huggingface")
    assert (model["architecture"], model["dtype"]) == ("LlamaForCausalLM", "float16")
    assert "header" in model["absent"]["parameters"]
    assert "parameters" not in model


def test_a_config_of_something_else_is_a_reason(hugging):
    (hugging / "config.json").write_text("[1, 2")
    model = next(one for one in find_models([hugging]) if one["format"] == "huggingface")
    assert model["absent"]["architecture"] == "its config.json is no JSON"
    assert model["size_bytes"] > 0


def test_an_onnx_file_reports_its_weights(tiny_model):
    found = only(tiny_model.parent)
    assert (found["format"], found["parameters"], found["dtype"]) == ("onnx", 256, "float32")
    assert (found["nodes"], found["opset"]) == (1, 17)
    assert "quantisation" not in found


def test_a_quantised_onnx_file_says_by_what(tmp_path):
    from onnx import TensorProto, helper, save

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"]),
    ]
    scale = helper.make_tensor("s", TensorProto.FLOAT, [], [0.5])
    shape = helper.make_tensor("shape", TensorProto.INT64, [1000], [1] * 1000)
    save(helper.make_model(helper.make_graph(nodes, "g", [x], [y], [scale, shape])), tmp_path / "q.onnx")
    found = only(tmp_path)
    assert found["quantisation"] == "by DequantizeLinear, QuantizeLinear"
    assert found["parameters"] == 1  # a shape is no parameter


def test_an_onnx_file_whose_nodes_make_its_weights_claims_no_number_of_them(tmp_path):
    from onnx import TensorProto, helper, save

    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [10, 10])
    held = helper.make_tensor("held", TensorProto.FLOAT, [2], [1.0, 2.0])
    nodes = [helper.make_node("Constant", [], ["c"], value=held), helper.make_node("ConstantOfShape", ["shape"], ["y"])]
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [10, 10])
    save(helper.make_model(helper.make_graph(nodes, "g", [], [y], [shape])), tmp_path / "light.onnx")
    assert "made by its nodes" in only(tmp_path)["absent"]["parameters"]
    save(helper.make_model(helper.make_graph(nodes[:1], "g", [], [y], [])), tmp_path / "light.onnx")
    assert only(tmp_path)["parameters"] == 2  # a node that holds a tensor counts


def test_without_the_onnx_package_the_format_and_size_remain(tiny_model):
    def missing(_):
        raise ImportError

    with pytest.raises(UnreadableModelError, match="not installed"):
        onnx(tiny_model, missing)


@pytest.mark.parametrize("content", [b"", b"no protobuf", b"\xff" * 50])
def test_what_is_no_onnx_model_is_a_reason(tmp_path, content):
    (tmp_path / "m.onnx").write_bytes(content)
    found = only(tmp_path)
    assert "no ONNX model" in found["absent"]["parameters"]
    assert found["size_bytes"] == len(content)


XML = """<?xml version="1.0"?>
<net name="resnet" version="11"><layers>
<layer id="0" name="w" type="Const"><data element_type="i8" shape="64, 3, 7, 7" offset="0" size="9408" /></layer>
<layer id="1" name="s" type="Const"><data element_type="f16" shape="64" offset="9408" size="128" /></layer>
<layer id="2" name="i" type="Const"><data element_type="i64" shape="2" offset="9536" size="16" /></layer>
</layers></net>"""


def test_an_openvino_model_is_its_two_files(tmp_path):
    (tmp_path / "m.xml").write_text(XML)
    (tmp_path / "m.bin").write_bytes(bytes(100))
    (tmp_path / "pom.xml").write_text("<project></project>")
    found = only(tmp_path)
    assert (found["format"], found["name"], found["quantisation"]) == ("openvino", "resnet", "int8")
    assert found["parameters"] == 64 * 3 * 7 * 7 + 64
    assert found["size_bytes"] == len(XML) + 100


def test_an_openvino_model_without_its_weights_has_no_size(tmp_path):
    (tmp_path / "m.xml").write_text(XML)
    found = only(tmp_path)
    assert "size_bytes" not in found
    assert "m.bin" in found["absent"]["size_bytes"]


class Trap:
    """What must never happen: a pickle that acts when it is loaded."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (self.mark,))


def test_no_pickle_is_ever_loaded(tmp_path):
    mark = tmp_path / "loaded"
    content = pickle.dumps(Trap(mark))
    for name in ("old.pt", "old.pth"):
        (tmp_path / name).write_bytes(content)
    with zipfile.ZipFile(tmp_path / "new.pt", "w") as archive:
        archive.writestr("archive/data.pkl", content)
    with zipfile.ZipFile(tmp_path / "script.pt", "w") as archive:
        archive.writestr("m/code/__torch__.py", "raise SystemExit")
    with zipfile.ZipFile(tmp_path / "program.pt2", "w") as archive:
        archive.writestr("m/archive_format", "pt2")
    kinds = {Path(one["path"]).name: one.get("kind") for one in find_models([tmp_path])}
    assert kinds == {
        "old.pt": "a pickle of the old format",
        "old.pth": "a pickle of the old format",
        "new.pt": "a pickle with tensors",
        "script.pt": "TorchScript",
        "program.pt2": "an exported program",
    }
    assert not mark.exists()


def test_other_formats_are_known_by_their_first_bytes_and_sizes(tmp_path):
    (tmp_path / "good.tflite").write_bytes(b"\x1c\0\0\0TFL3rest")
    (tmp_path / "bad.tflite").write_bytes(b"something else")
    (tmp_path / "m.mlmodel").write_bytes(b"x" * 7)
    package = tmp_path / "p.mlpackage" / "Data"
    package.mkdir(parents=True)
    (package / "weights.bin").write_bytes(b"y" * 11)
    (package / "inner.onnx").write_bytes(b"")
    found = {Path(one["path"]).name: one for one in find_models([tmp_path])}
    assert found.keys() == {"good.tflite", "bad.tflite", "m.mlmodel", "p.mlpackage"}
    assert found["p.mlpackage"]["size_bytes"] == 11
    assert "no TensorFlow Lite" in found["bad.tflite"]["absent"]["dtype"]
    assert "does not say" in found["good.tflite"]["absent"]["dtype"]


def test_a_folder_that_is_none_is_the_users_mistake(tmp_path):
    with pytest.raises(UsageError, match="no folder"):
        find_models([tmp_path / "none"])


def test_links_that_lead_nowhere_are_named(tmp_path):
    (tmp_path / "gone.gguf").symlink_to(tmp_path / "blob")
    found = only(tmp_path)
    assert "cannot be read" in found["absent"]["parameters"]
    assert "size_bytes" not in found
