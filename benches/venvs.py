"""Virtual environments under build/, made once: peers never enter our own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benches.processes import BUILD, PeerError, run

# optimum-benchmark 0.6.0 is the newest; the others are the newest that it and torch 2.13 work with.
_OPTIMUM = ("optimum==2.1.0", "optimum-onnx[onnxruntime]==0.1.0", "transformers==4.57.6", "optimum-benchmark==0.6.0")


def peers() -> Path:
    """Python with pytest-benchmark and LoadGen, and the ONNX Runtime that we use."""
    return venv("peers", [["mlcommons-loadgen", "pytest-benchmark", *_ours("numpy", "onnxruntime")]])


def optimum() -> Path:
    """Python with optimum-benchmark. torch comes first, by its version: a plain one would pull gigabytes."""
    torch = "torch==2.13.0"
    return venv("peers-optimum", [[torch], [torch, *_OPTIMUM, *_ours("numpy", "onnx", "onnxruntime")]])


def queues() -> Path:
    """Python with other task queues, and the Redis client that we use."""
    return venv("peers-queues", [["celery[redis]", "dramatiq[redis]", "huey", *_ours("redis")]])


def mlflow() -> Path:
    """Python with MLflow's client and what its own store needs."""
    return venv("peers-mlflow", [["mlflow-skinny", "sqlalchemy", "alembic"]])


def venv(name: str, steps: Sequence[Sequence[str]]) -> Path:
    """The Python of a virtual environment with packages; it is made anew when the list of packages changes.

    Raises:
        PeerError: if something cannot be installed.
    """
    python, stamp = BUILD / name / "bin" / "python", BUILD / name / "installed.txt"
    wanted = "\n".join(" ".join(step) for step in steps)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing {name}: {wanted.replace(chr(10), ', then ')}", flush=True)
    empty(name)
    for step in steps:
        install(python, step)
    stamp.write_text(wanted)
    return python


def empty(name: str) -> Path:
    """The Python of a virtual environment with nothing in it."""
    BUILD.mkdir(exist_ok=True)
    run([sys.executable, "-m", "venv", "--clear", str(BUILD / name)], timeout_s=60)
    return BUILD / name / "bin" / "python"


def install(python: Path, packages: Sequence[str]) -> None:
    """Install packages.

    Raises:
        PeerError: with pip's last line.
    """
    try:
        run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], timeout_s=600)
    except PeerError as problem:
        raise PeerError(f"pip install {' '.join(packages)}: {problem}") from None


def versions(python: Path, *packages: str) -> str:
    """Names and versions, as installed there."""
    code = (
        "import sys; from importlib.metadata import version as v; print(', '.join(f'{p} {v(p)}' for p in sys.argv[1:]))"
    )
    return run([str(python), "-c", code, *packages], timeout_s=30).strip()


def _ours(*packages: str) -> list[str]:
    return [f"{package}=={version(package)}" for package in packages]
