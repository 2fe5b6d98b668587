"""Programs of PyTorch: fed by their own signature, on the device that was asked for, never from a pickle."""

from __future__ import annotations

import hashlib
import zipfile

import numpy as np
import pytest
import torch
from tests.tiers.torch.conftest import RULES, FakeStage, samples

from assay.errors import AssayError
from assay.run.targets import torch as target


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(100, 8)
        self.line = torch.nn.Linear(8, 4)

    def forward(self, ids, mask):
        return self.line(self.table(ids) * mask.unsqueeze(-1))


@pytest.fixture
def exported(tmp_path):
    torch.manual_seed(3)
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=512)
    dims = ({0: batch, 1: length}, {0: batch, 1: length})
    example = (torch.zeros(2, 7, dtype=torch.long), torch.ones(2, 7))
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(Net().eval(), example, dynamic_shapes=dims), path)
    return path


@pytest.fixture
def script(tmp_path):
    torch.manual_seed(3)
    path = tmp_path / "net.ts"
    torch.jit.trace(Net().eval(), (torch.zeros(2, 7, dtype=torch.long), torch.ones(2, 7))).save(str(path))
    return path


@pytest.fixture
def ran(order):
    def run(path, workload=None, **more):
        return target.measure(order(path, workload, runtime="torch", **more), FakeStage(), RULES)

    return run


def refusal(run, *arguments, **more):
    with pytest.raises(AssayError) as caught:
        run(*arguments, **more)
    return caught.value.problem


def test_an_exported_program_is_fed_by_its_signature(exported, ran):
    result = ran(exported, {"batch": 3}, threads=1)
    ids, mask = result.facts["inputs"]
    assert (ids["name"], ids["dtype"], ids["shape"]) == ("ids", "int64", [3, 7])
    assert "table of 100 rows" in ids["values"]
    assert (mask["shape"], mask["values"]) == ([3, 7], "standard normal, seed 0")
    origins = {size["from"] for size in result.facts["dims"].values()}
    assert origins == {"workload.batch", "the example that the program was exported with"}
    assert result.facts["outputs"][0]["shape"] == [3, 7, 4]
    assert result.facts["threads"] == 1
    assert result.device.honoured
    assert result.device.nodes == {"cpu": 4}
    assert len(samples(result, "latency_ms").value) == 4
    busy_s = samples(result, "latency_ms").value.sum() / 1e3
    assert result.metrics["throughput_per_s"] == pytest.approx(4 * 3 / busy_s, rel=0.3)


def test_the_output_is_the_programs_own(exported, script, ran, tmp_path):
    rng = np.random.default_rng(1)
    ids, mask = rng.integers(0, 100, (5, 9)), rng.random((5, 9), dtype=np.float32)
    np.save(tmp_path / "ids.npy", ids)
    np.save(tmp_path / "mask.npy", mask)
    files = {"inputs": {"ids": {"file": "ids.npy"}, "mask": {"file": "mask.npy"}}}
    torch.manual_seed(3)
    with torch.inference_mode():
        wanted = Net().eval()(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
    digest = hashlib.sha256(wanted.tobytes()).hexdigest()
    # One thread on both sides: the order of sums decides the last digits.
    assert ran(exported, files).facts["outputs"][0]["sha256"] == digest
    assert ran(script, files).facts["outputs"][0]["sha256"] == digest


def test_sizes_beyond_the_bounds_are_refused(exported, ran):
    problem = refusal(ran, exported, {"batch": 65})
    assert (problem.code, problem.at) == ("dims", "workload.batch")
    assert "exported for 1 to 64" in problem.message


def test_a_program_for_two_items_or_more_gets_two(tmp_path, ran):
    least = torch.export.Dim("n", min=2, max=8)
    program = torch.export.export(torch.nn.Linear(4, 4), (torch.zeros(3, 4),), dynamic_shapes=({0: least},))
    torch.export.save(program, tmp_path / "two.pt2")
    result = ran(tmp_path / "two.pt2")
    (size,) = result.facts["dims"].values()
    assert size == {"size": 2, "from": "the smallest that the program takes"}
    assert result.facts["load"]["items_per_call"] == 2


def test_nested_and_named_inputs(tmp_path, ran):
    class Nested(torch.nn.Module):
        def forward(self, pair, *, scale, times: int):
            return {"sum": (pair[0] + pair[1]) * scale, "half": pair[0].to(torch.bfloat16) * times}

    example = ((torch.ones(2, 3), torch.ones(2, 3)),)
    program = torch.export.export(Nested(), example, {"scale": torch.ones(1, dtype=torch.bfloat16), "times": 3})
    torch.export.save(program, tmp_path / "nested.pt2")
    result = ran(tmp_path / "nested.pt2")
    assert [one["dtype"] for one in result.facts["inputs"]] == ["float32", "float32", "bfloat16"]
    assert [one["shape"] for one in result.facts["outputs"]] == [[2, 3], [2, 3]]


def test_torchscript_takes_shapes_from_the_file(script, ran):
    inputs = {"ids": {"shape": [-1, 5], "value": 7}, "mask": {"shape": [-1, 5], "range": [0, 2]}}
    result = ran(script, {"batch": 2, "inputs": inputs})
    ids, mask = result.facts["inputs"]
    assert (ids["dtype"], ids["shape"], mask["dtype"], mask["shape"]) == ("int64", [2, 5], "float32", [2, 5])
    assert result.facts["program"] == "TorchScript"
    assert result.facts["load"]["items_per_call"] == 2


@pytest.mark.parametrize(
    ("workload", "code", "words"),
    [
        ({}, "input-shape", "nothing about the shape of its input 'ids'"),
        ({"inputs": {"ids": {"shape": [1, 5]}, "maks": {"shape": [1, 5]}}}, "input-name", "no input 'maks'"),
        ({"inputs": {"ids": {"file": "none.npy"}, "mask": {"shape": [1, 5]}}}, "input-file", "none.npy"),
        (
            {"batch": 4, "inputs": {"ids": {"shape": [1, 5], "value": 1}, "mask": {"shape": [1, 5]}}},
            "batch",
            "no input has such a first dimension",
        ),
        ({"inputs": {"ids": {"shape": [1, 5]}, "mask": {"shape": [1, 5]}}}, "model", "cannot be run"),
    ],
)
def test_torchscript_without_enough_words(script, ran, workload, code, words):
    problem = refusal(ran, script, workload)
    assert problem.code == code
    assert words in problem.message


class Bomb:
    """A pickle that would leave a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def test_pickles_are_refused_unread(tmp_path, ran):
    mark = tmp_path / "mark"
    torch.save({"weights": torch.ones(3), "bomb": Bomb(mark)}, tmp_path / "weights.pt")
    problem = refusal(ran, tmp_path / "weights.pt")
    assert problem.code == "model"
    assert "written by torch.save" in problem.message
    assert "torch.export.save" in problem.try_
    assert not mark.exists()


def test_a_pickle_inside_an_exported_program_is_refused_unread(exported, tmp_path, ran):
    """PyTorch falls back to a plain pickle for example inputs, and obeys a table that names pickled weights."""
    mark = tmp_path / "mark"
    torch.save(Bomb(mark), tmp_path / "bomb.pt")
    bomb = (tmp_path / "bomb.pt").read_bytes()

    def doctored(name, change):
        with zipfile.ZipFile(exported) as old, zipfile.ZipFile(tmp_path / name, "w") as new:
            for entry in old.namelist():
                new.writestr(entry, change(entry, old.read(entry)))
        return tmp_path / name

    samples_ = doctored("a.pt2", lambda entry, content: bomb if "sample_inputs" in entry else content)
    assert "example inputs" in refusal(ran, samples_).message
    table = doctored("b.pt2", lambda entry, content: content.replace(b'"use_pickle": false', b'"use_pickle": true'))
    assert "pickled tensors" in refusal(ran, table).message
    twice = tmp_path / "c.pt2"
    twice.write_bytes(exported.read_bytes())
    with zipfile.ZipFile(twice, "a") as archive:
        archive.writestr("other/data/sample_inputs/model.pt", bomb)
    assert refusal(ran, twice).code == "model"
    assert not mark.exists()


def test_what_is_no_program(tmp_path, ran):
    (tmp_path / "text.pt").write_text("hello")
    assert "no archive of PyTorch" in refusal(ran, tmp_path / "text.pt").message


def test_a_device_that_is_not_here(exported, ran):
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    problem = refusal(ran, exported, device="cuda")
    assert (problem.code, problem.at) == ("device", "target.device")
    assert refusal(ran, exported, device="directml").code == "device"


@pytest.mark.parametrize(
    ("more", "at"),
    [
        ({"dtype": "bfloat16"}, "target.dtype"),
        ({"optimization": "basic"}, "target.optimization"),
        ({"remote_code": True}, "target.remote_code"),
    ],
)
def test_keys_that_would_do_nothing_are_refused(exported, ran, more, at):
    assert refusal(ran, exported, **more).at == at


def test_several_streams_at_once(exported, ran):
    result = ran(exported, {"batch": 2}, load={"scenario": "multi-stream", "streams": 3}, threads=1)
    assert result.facts["load"]["streams"] == 3


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (root@host)",
            "580.159.04",
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024", "535.183.01"),
    ],
)
def test_the_driver_is_read_from_either_module(line, version, tmp_path, monkeypatch):
    from assay.run import torch_devices as devices

    (tmp_path / "version").write_text(line)
    monkeypatch.setattr(devices, "_DRIVER_RECORD", tmp_path / "version")
    assert devices.driver_version() == version
