"""Which devices a job occupies."""

import pytest

from assay.hardware.fitness.session import occupied, visible
from assay.hardware.gpu.record import Gpu
from assay.plan.job import Job
from assay.spec.benchmark import Definition


def board(index, name="NVIDIA H200", vendor="nvidia", uuid=True, **more):
    return Gpu(
        index=index,
        name=name,
        vendor=vendor,
        layer="nvml",
        uuid=f"GPU-{index}{index}{index}{index}-beef" if uuid else None,
        **more,
    )


TWO = (board(0), board(1))
ZERO, ONE = "GPU-0000-beef", "GPU-1111-beef"


def job(target, **definition):
    return Job("b", "d" * 64, 0, Definition.model_validate({"target": target, **definition}))


def of(target, gpus=TWO, environment=None, **definition):
    return occupied(job(target, **definition), gpus=lambda: gpus, environment=environment or {})


def no_gpu_is_asked_for():
    raise AssertionError("this job uses no GPU")


MODEL = {"model": "m.onnx"}
SERVED = {"service": "llm", "api": "openai-chat"}


@pytest.mark.parametrize(
    "target",
    [
        MODEL,
        {"device": "cpu"},
        {"command": "train"},
        {"endpoint": "http://far:8000", "api": "openai-chat"},
        {"library": "faiss"},
        {**MODEL, "device": "openvino"},
    ],
)
def test_what_runs_on_the_processor_occupies_it_and_requests_no_gpu(target):
    assert occupied(job(target), gpus=no_gpu_is_asked_for, environment={}) == ("cpu",)


@pytest.mark.parametrize("target", [{**MODEL, "device": "cuda:1"}, {"device": "cuda:1"}, {"device": "tensorrt:1"}])
def test_a_model_on_a_gpu_occupies_that_gpu_alone(target):
    assert of(target) == (ONE,)


def test_without_a_number_it_is_the_first_that_is_visible():
    assert of({"device": "cuda"}) == (ZERO,)
    assert of({"device": "cuda"}, environment={"CUDA_VISIBLE_DEVICES": "1"}) == (ONE,)
    assert of({"device": "cuda:1"}, environment={"CUDA_VISIBLE_DEVICES": "1,0"}) == (ZERO,)


def test_a_program_occupies_the_processor_and_the_gpus_that_it_needs():
    assert of({"command": "train"}, needs={"gpus": 1}) == (ZERO, "cpu")
    assert of({"command": "train"}, needs={"gpus": 5}) == (ZERO, ONE, "cpu")
    assert of({"command": "train", "env": {"CUDA_VISIBLE_DEVICES": "1"}}, needs={"gpus": 1}) == (ONE, "cpu")
    assert of({"command": "train"}, needs={"device": "cuda:1"}) == (ONE, "cpu")


def test_services_that_see_the_same_gpus_are_counted_together():
    services = {name: {"command": "serve", "needs": {"gpus": 1}} for name in ("llm", "embedder")}
    assert of(SERVED, services=services) == (ZERO, ONE, "cpu")
    services["llm"]["env"] = services["embedder"]["env"] = {"CUDA_VISIBLE_DEVICES": "1"}
    assert of(SERVED, services=services) == (ONE, "cpu")
    assert of({**MODEL, "device": "cuda"}, services={"db": {"command": "serve"}}) == (ZERO, "cpu")


def test_a_gpu_that_nobody_finds_has_a_name_all_the_same():
    assert of({"device": "cuda:3"}) == ("cuda-3",)
    assert of({"device": "cuda"}, gpus=()) == ("cuda-0",)
    assert of({**MODEL, "device": "directml"}, gpus=()) == ("directml-0",)


def test_where_cuda_may_count_in_another_order_all_that_could_be_meant_are_taken():
    mixed = (board(0, name="NVIDIA T4"), board(1))
    assert of({"device": "cuda:0"}, gpus=mixed) == (ZERO, ONE)
    assert of({"device": "cuda:0"}, gpus=mixed, environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == (ZERO,)


def test_one_chip_has_one_name_however_it_is_reached():
    assert of({**MODEL, "device": "mps", "runtime": "torch"}) == of({**MODEL, "device": "coreml-gpu"})
    assert set(of({**MODEL, "device": "mps", "runtime": "torch"})) < set(of({**MODEL, "device": "coreml"}))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, (ZERO, ONE)),
        ("", ()),
        ("-1", ()),
        ("1", (ONE,)),
        ("1,0", (ONE, ZERO)),
        ("0,7,1", (ZERO,)),  # as CUDA: what names none hides the rest
        ("GPU-1111", (ONE,)),
        (" GPU-1111-beef , 0", (ONE, ZERO)),
        ("MIG-6d1b7b8e", ("MIG-6d1b7b8e",)),
        ("nonsense", ()),
    ],
)
def test_visible_gpus_are_those_that_cuda_would_see(text, names):
    environment = {} if text is None else {"CUDA_VISIBLE_DEVICES": text}
    assert visible(TWO, environment) == names


def test_boards_without_a_uuid_go_by_their_place():
    boards = (board(0, vendor="amd", uuid=False, pci="0000:3b:00.0"), board(1, vendor="amd", uuid=False))
    assert visible(boards, {}) == ("0000:3b:00.0", "amd-1")
    assert visible(boards, {"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}) == ("amd-1",)
    assert visible((board(0, vendor="intel"),), {}) == ()
