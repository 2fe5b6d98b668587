"""vLLM's own server on the CPU with a tiny model, for all tests of the session.

It lives in `.venv-vllm`, which `scripts/vllm.sh` makes; what measures it is assay in the project's own environment.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
CONTEXT = 512
PATIENCE_S = 540.0
# One thread for the model: others want to live on this machine too. No account, no hub, no usage statistics.
OWN = {
    "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind", "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _own_places(tmp_path_factory, monkeypatch):
    """No test ever touches the user's results."""
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path_factory.mktemp("store")))
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory) -> Path:
    """A Llama of random weights in a folder."""
    assert PYTHON.exists(), "vLLM is not installed; run scripts/vllm.sh"
    folder = tmp_path_factory.mktemp("models") / "tiny"
    subprocess.run([PYTHON, ROOT / "tests/tiers/vllm" / "tiny_llama.py", folder], check=True, env=os.environ | OWN)
    return folder


def command(model: Path, port: str) -> list[str]:
    """How the server is started; `vllm serve` looks for a package of another name than that of the CPU's wheel."""
    return [
        str(PYTHON),
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(model),
        "--served-model-name",
        "tiny",
        "--dtype",
        "float32",
        "--max-model-len",
        str(CONTEXT),
        "--max-num-seqs",
        "8",
        "--enforce-eager",
        "--host",
        "127.0.0.1",
        "--port",
        port,
    ]


@pytest.fixture(scope="session")
def vllm_url(tiny_llama, tmp_path_factory) -> Iterator[str]:
    """Where the server answers."""
    folder, port = tmp_path_factory.mktemp("vllm"), free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command(tiny_llama, str(port)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=os.environ | OWN,
        )
    try:
        _await(process, f"http://127.0.0.1:{port}/health", folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(process: subprocess.Popen[bytes], health: str, log: Path) -> None:
    until = monotonic() + PATIENCE_S
    while True:
        try:
            if httpx.get(health, timeout=5, trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None or monotonic() > until:
            raise RuntimeError(log.read_text(errors="replace")[-5000:])
        sleep(0.2)
