"""The engine of the how-to page keeps the contract: installed by its entry point, run by `assay run`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "add-an-inference-engine.md"
BLOCK = re.compile(r'```\w+ title="([^"]+)"\n(.*?)```', re.DOTALL)
# vLLM's classes as far as the page uses them; the answers are real ones of a real model.
STAND_IN = """
import time
from types import SimpleNamespace as Record
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
__version__ = "stand-in"
class SamplingParams:
    def __init__(self, *, temperature, max_tokens, ignore_eos):
        assert temperature == 0.0 and ignore_eos
        self.max_tokens = max_tokens
class LLM:
    def __init__(self, *, model, dtype, seed, trust_remote_code, load_format, enable_prefix_caching, disable_log_stats):
        assert load_format == "safetensors" and not trust_remote_code
        self._told = not disable_log_stats
        self._tokenizer = AutoTokenizer.from_pretrained(model)
        self._model = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
    def apply_model(self, function):
        return [function(self._model)]
    def generate(self, prompts, params, use_tqdm=True):
        return [self._one(prompt, params) for prompt in prompts]
    def _one(self, prompt, params):
        begun = time.perf_counter()
        ids = self._tokenizer(prompt, return_tensors="pt").input_ids
        many = params.max_tokens
        with torch.inference_mode():
            self._model(ids)
            first = time.perf_counter() - begun
            out = self._model.generate(ids, do_sample=False, max_new_tokens=many, min_new_tokens=many)
        metrics = Record(first_token_latency=first) if self._told else None
        tokens = out[0, ids.shape[1]:].tolist()
        return Record(prompt_token_ids=ids[0].tolist(), outputs=[Record(token_ids=tokens)], metrics=metrics)
"""


@pytest.fixture
def page(tmp_path, llama):
    for name, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    metadata = tmp_path / f"assay_vllm-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (target,) = project["entry-points"]["assay.targets"].items()
    (metadata / "entry_points.txt").write_text(f"[assay.targets]\n{target[0]} = {target[1]}\n")
    (tmp_path / "vllm.py").write_text(STAND_IN)
    (tmp_path / "smollm2").symlink_to(llama)
    return tmp_path


def run(folder, *more):
    command = [
        sys.executable,
        "-m",
        "assay",
        "run",
        "vllm.yaml",
        "--quiet",
        "--format",
        "json",
        "--set",
        "target.dtype=float32",
        "--set",
        "measure.runs=1",
        "--set",
        "measure.warmup=1",
        "--set",
        "measure.until={samples: 3}",
        "--set",
        "workload.batch=2",
        "--set",
        "workload.output_tokens=5",
    ]
    done = subprocess.run(
        [*command, *more],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["jobs"][0]


def test_the_engine_of_the_page_measures(page):
    code, job = run(page, "--set", "target.device=cpu")
    assert code == 0, job
    metrics = job["metrics"]
    assert (metrics["latency_ms"]["count"], metrics["ttft_ms"]["count"]) == (3, 6)
    assert metrics["ttft_ms"]["max"] < metrics["latency_ms"]["max"]
    assert (metrics["input_tokens"]["median"], metrics["output_tokens"]["median"]) == (128, 5)
    assert job["runs"][0]["facts"]["runtime_version"] == "stand-in"
    assert len(job["runs"][0]["facts"]["model"]["sha256"]) == 64


def test_the_engine_on_another_device_fails(page):
    import torch

    if torch.cuda.is_available():
        pytest.skip("the stand-in computes on the CPU, which this machine's plan would let it")
    code, job = run(page)
    assert code == 3
    assert job["runs"][0]["error"]["code"] == "device"
