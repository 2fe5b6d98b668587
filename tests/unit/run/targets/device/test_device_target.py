"""The hardware as a target: tests become metrics, samples, facts and a proof."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest

from assay.documents import to_json
from assay.errors import AssayError
from assay.hardware.bench import cpu_suite as of_cpu
from assay.hardware.bench import sweep
from assay.hardware.bench.records import Accuracy, BenchOutcome, Measurements, SizePoint
from assay.plan.job import Job
from assay.run.contract import Order
from assay.run.targets import find_target, target_name
from assay.run.targets.device import _facts, _Loaded, _metrics, _samples, measure
from assay.spec.benchmark import Definition

MIB = 2**20


class FakeStage:
    def __init__(self):
        self.phases = []

    @contextlib.contextmanager
    def phase(self, name):
        self.phases.append(name)
        yield

    def progress(self, share, note=""):
        pass


@pytest.fixture
def order(tmp_path):
    def make(**target) -> Order:
        document = {"target": {"device": "cpu", **target}, "measure": {"runs": 1}}
        definition = Definition.model_validate(document, strict=False)
        return Order(Job("test", "digest", 0, definition, base=str(tmp_path)), 0, str(tmp_path))

    return make


def test_the_target_is_found_by_its_section():
    definition = Definition.model_validate({"target": {"device": "cpu"}}, strict=False)
    assert target_name(definition) == "device"
    assert find_target("device") is measure


@pytest.mark.live
def test_a_run_on_this_processor(order, monkeypatch):
    monkeypatch.setattr(sweep, "BLOCK_S", 0.001)
    known = replace(of_cpu.processor(1), cache=64 * 1024)
    monkeypatch.setattr(of_cpu, "processor", lambda _threads: known)
    stage = FakeStage()
    found = measure(order(tests=["copy", "fp32", "int8"], sizes=[MIB, 2 * MIB], shapes=[64], each=0.01), stage, None)
    assert stage.phases == ["load", "measure", "score"]
    assert set(found.metrics) == {"copy_gb_per_s", "copy_one_gb_per_s", "fp32_tflops"}
    assert set(found.absent) == {"int8_tops"}
    for one in found.samples:
        assert one.value.size >= 3
        assert found.metrics[one.metric] == pytest.approx(float(np.median(one.value)))
        assert (np.diff(one.at_ns) > 0).all()
        assert one.at_ns[0] >= 0
    assert found.device.honoured
    assert found.device.nodes == {"cpu": 1}
    assert found.window.cpu_s > 0  # of the workers, which have ended by then
    tests = found.facts["tests"]
    assert list(tests) == ["copy", "copy_one", "fp32", "int8"]
    assert tests["copy"]["end_ns"] <= tests["copy_one"]["begin_ns"] + 1
    assert json.loads(to_json(found.facts))["tests"]["fp32"]["reported"]["n"] == 64


def outcome(name="copy", **more):
    point = SizePoint(MIB, (10.0, 12.0, 11.0), (1_000, 2_000, 3_000), 1e-3, Accuracy(1e-12, 1e-9))
    return BenchOutcome(name, f"{name}_gb_per_s", "bytes", 500, 4_000, (point,), **{"reported": point, **more})


def test_samples_begin_at_the_start_of_the_phase():
    (one,) = _samples((outcome(also={}),), begin_ns=400)
    assert one.at_ns.tolist() == [600, 1600, 2600]
    assert one.value.tolist() == [10.0, 12.0, 11.0]


def test_further_metrics_of_a_test_have_samples_too():
    more = outcome(also={"fp32_one_tflops": ((0.1, 0.2), (700, 800))})
    by_metric = {one.metric: one for one in _samples((more,), 0)}
    assert by_metric["fp32_one_tflops"].value.tolist() == [0.1, 0.2]


def test_a_test_without_a_value_has_neither_metric_nor_samples():
    one = outcome(reported=None, absent="why")
    assert _metrics((one,)) == {}
    assert _samples((one,), 0) == ()


def test_what_was_measured_before_a_device_was_lost_is_kept():
    found = Measurements((outcome(), outcome("read", reported=None, absent="lost")), facts={"lost": "it is gone"})
    facts = _facts(found, _Loaded())
    assert facts["device"] == {"lost": "it is gone"}
    assert facts["tests"]["copy"]["reported"]["value"] == 11.0
    assert facts["tests"]["read"]["absent"] == "lost"
    assert json.loads(to_json(facts))["tests"]["copy"]["how"] == {}


@pytest.mark.parametrize("key", [{"threads": 2}, {"folder": "x"}])
def test_keys_of_a_processor_are_refused_for_others(order, key):
    with pytest.raises(AssayError, match=f"target.{next(iter(key))} does nothing for cuda"):
        measure(order(device="cuda", **key), FakeStage(), None)


def test_a_device_without_its_library_is_refused(order):
    pytest.importorskip("numpy")
    try:
        import torch  # noqa: F401
    except ImportError:
        with pytest.raises(AssayError) as caught:
            measure(order(device="cuda"), FakeStage(), None)
        assert caught.value.problem.code == "runtime"
    else:
        pytest.skip("PyTorch is here")
