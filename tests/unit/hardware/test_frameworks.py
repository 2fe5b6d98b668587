"""Frameworks: found without loading them, tried in processes of their own, proofs kept as long as they hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError

import pytest
from tests.support.running_server import wait_for
from tests.unit.run.services.conftest import await_gone

from assay.hardware.framework_proofs import TRIALS, DeviceTrials, UnprovenError, answers
from assay.hardware.frameworks import FRAMEWORKS, TrialOutcome, frameworks, in_a_process, installed, prove


def test_every_framework_that_is_searched_for_can_be_tried():
    assert {one.name for one in FRAMEWORKS} == TRIALS.keys()


def test_frameworks_are_found_without_loading_them():
    def find(module):
        origins = {"torch": "/site/torch/__init__.py", "jax": None}  # jax: a folder of that name, no package
        return ModuleSpec(module, None, origin=origins[module]) if module in origins else None

    def version_of(package):
        known = {"onnxruntime-gpu": "1.20.0", "torch": "2.6.0"}
        if package not in known:
            raise PackageNotFoundError(package)
        return known[package]

    assert installed(find, version_of) == {"onnxruntime": "1.20.0", "torch": "2.6.0"}


def outcomes(*told):
    """A stand-in for the process: each call gives the next outcome, and notes which devices were asked for."""
    asked, left = [], list(told)

    def attempt(name, devices):
        asked.append(devices)
        return left.pop(0)

    return attempt, asked


NAMES = {"devices": ["cpu", "cuda:0", "cuda:1"]}
CPU = {"device": "cpu", "works": True, "proof": "a matrix product", "seconds": 0.1}


def test_a_device_that_crashes_is_named_and_the_others_are_tried_again():
    attempt, asked = outcomes(
        TrialOutcome(({"version": "2.6"}, NAMES, CPU), "its process was ended by SIGSEGV"),
        TrialOutcome(({"version": "2.6"}, NAMES, {"device": "cuda:1", "works": True, "proof": "p", "seconds": 1.0})),
    )
    found = prove("torch", attempt)
    assert asked == [None, ["cuda:1"]]
    assert found["works"] is True
    assert found["version"] == "2.6"
    assert found["devices"]["cuda:0"] == {"works": False, "why": "its process was ended by SIGSEGV"}
    states = {name: one["works"] for name, one in found["devices"].items()}
    assert states == {"cpu": True, "cuda:0": False, "cuda:1": True}
    assert found["proof"] == "a matrix product"


def test_a_second_process_that_reports_nothing_leaves_no_device_without_an_answer():
    attempt, _ = outcomes(TrialOutcome((NAMES, CPU), "SIGSEGV"), TrialOutcome((), "it took longer than 1 s"))
    found = prove("torch", attempt)
    assert {name: one["works"] for name, one in found["devices"].items()} == {
        "cpu": True,
        "cuda:0": False,
        "cuda:1": False,
    }
    assert found["devices"]["cuda:1"]["why"] == "it took longer than 1 s"


def test_a_framework_that_cannot_be_imported_names_its_error():
    attempt, _ = outcomes(TrialOutcome(({"works": False, "why": "ImportError: libcudart.so.12: not found"},)))
    found = prove("torch", attempt)
    assert (found["works"], found["why"]) == (False, "ImportError: libcudart.so.12: not found")
    assert "devices" not in found


def test_what_only_imports_does_not_claim_to_work():
    attempt, _ = outcomes(TrialOutcome(({"version": "0.9", "works": None, "proof": "imports"}, {"devices": []})))
    found = prove("vllm", attempt)
    assert (found["works"], found["proof"]) == (None, "imports")


def test_answers_of_devices_are_reported_one_by_one():
    def broken():
        raise RuntimeError("first line\n  the last line  \n")

    def elsewhere():
        raise UnprovenError("runs on macOS alone")

    offer = DeviceTrials("1.0", {"good": lambda: "a product", "bad": broken, "far": elsewhere})
    version, devices, *told = answers(offer)
    assert (version, devices) == ({"version": "1.0"}, {"devices": ["good", "bad", "far"]})
    assert [one["works"] for one in told] == [True, False, None]
    assert told[1]["why"] == "RuntimeError: the last line"
    assert told[2]["why"] == "runs on macOS alone"
    assert [one["device"] for one in [*answers(offer, ("bad",))][2:]] == ["bad"]


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """Put a module of ours where the tried process finds it before the real one."""

    def put(name, code):
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))))

    return put


TORCH = """
import os, signal, time, types
__version__ = "9.9"
print("a library that talks on standard output")
version = types.SimpleNamespace(cuda="12.4", hip=None)
class cuda:
    @staticmethod
    def is_available(): return True
    @staticmethod
    def device_count(): return 1
    @staticmethod
    def get_device_name(_): return "GPU"
backends = types.SimpleNamespace()
def tensor(value, device):
    if device == "cuda:0": {on_cuda}
    class T:
        def __matmul__(self, other): return self
        def cpu(self): return self
        def tolist(self): return {product}
    return T()
"""


@pytest.mark.live
def test_a_crash_on_one_device_leaves_the_other_its_proof(pretend):
    pretend("torch", TORCH.format(on_cuda="os.kill(os.getpid(), signal.SIGSEGV)", product="[[7, 10], [15, 22]]"))
    found = prove("torch")
    assert found["version"] == "9.9"
    assert found["devices"]["cpu"]["works"] is True
    assert found["devices"]["cuda:0"]["works"] is False
    assert "SIGSEGV" in found["devices"]["cuda:0"]["why"]


@pytest.mark.live
def test_a_wrong_result_is_no_proof(pretend):
    pretend("torch", TORCH.format(on_cuda="raise RuntimeError('no kernel image')", product="[[7, 10], [15, 0]]"))
    found = prove("torch")
    assert found["works"] is False
    assert "came out as" in found["devices"]["cpu"]["why"]
    assert found["devices"]["cuda:0"]["why"] == "RuntimeError: no kernel image"


@pytest.mark.live
def test_a_framework_that_hangs_is_ended_with_all_that_it_started(pretend, tmp_path, monkeypatch):
    mark = tmp_path / "child.pid"

    class Started(subprocess.Popen):
        """Its time runs from when it has started everything, however slow the machine is."""

        def communicate(self, *arguments, **more):
            wait_for(mark.exists, what="the child")
            return super().communicate(*arguments, **more)

    monkeypatch.setattr(subprocess, "Popen", Started)
    pretend(
        "vllm",
        "import subprocess, sys, time, pathlib\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path('{mark}.part').write_text(str(p.pid))\n"
        f"pathlib.Path('{mark}.part').rename({str(mark)!r})\ntime.sleep(600)\n",
    )
    outcome = in_a_process("vllm", None, limit_s=0.5)
    assert outcome.why == "it took longer than 0.5 s"
    await_gone(int(mark.read_text()))


@pytest.mark.live
def test_a_framework_that_dies_while_it_is_imported_names_its_last_line(pretend):
    pretend(
        "jax", "import sys, os\nsys.stderr.write('first\\nfatal: no such device\\n')\nsys.stderr.flush()\nos._exit(3)\n"
    )
    found = prove("jax")
    assert (found["works"], found["why"]) == (False, "fatal: no such device")


@pytest.mark.live
def test_the_frameworks_of_this_environment_prove_themselves():
    pytest.importorskip("onnxruntime")
    found = prove("onnxruntime")
    assert found["works"] is True
    assert found["devices"]["CPUExecutionProvider"]["proof"] == "a matrix product"
    assert found["version"] == sys.modules["onnxruntime"].__version__


class Prover:
    """Counts what is tried."""

    def __init__(self):
        self.tried = []

    def __call__(self, name):
        self.tried.append(name)
        return {"works": name != "jax", "proof": "p", "version": "from the module", "seconds": 0.5}


def look(cache, prover, found, **words):
    return frameworks(cache, found=found, prove_one=prover, **{"machine": "m1", "driver": "580", **words})


def test_proofs_hold_until_something_changes(tmp_path):
    prover, both = Prover(), {"torch": "2.6.0", "jax": ""}
    first = look(tmp_path, prover, both)
    assert first["torch"]["version"] == "2.6.0"
    assert first["jax"] == {**first["jax"], "version": "from the module", "works": False}
    assert look(tmp_path, prover, both) == first
    assert prover.tried == ["torch", "jax"]
    look(tmp_path, prover, both, driver="581")
    look(tmp_path, prover, both, machine="m2")
    look(tmp_path, prover, {**both, "torch": "2.6.1"})
    assert prover.tried == ["torch", "jax"] * 4
    look(tmp_path, prover, both, fresh=True)
    assert prover.tried == ["torch", "jax"] * 5


@pytest.mark.parametrize("content", ["", "{", "[]", '{"works": true}'])
def test_a_damaged_proof_is_made_again(tmp_path, content):
    prover = Prover()
    look(tmp_path, prover, {"torch": "2"})
    for file in (tmp_path / "proofs").iterdir():
        file.write_text(content)
    look(tmp_path, prover, {"torch": "2"})
    assert prover.tried == ["torch", "torch"]
    assert all(json.loads(file.read_text())["works"] for file in (tmp_path / "proofs").iterdir())


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path):
    (tmp_path / "proofs").write_text("a file where the folder should be")
    prover = Prover()
    assert look(tmp_path, prover, {"torch": "2"})["torch"]["works"] is True
    assert look(None, prover, {"torch": "2"})["torch"]["works"] is True
