"""Virtual environments under build/, made once: peers never enter our own."""

from __future__ import annotations

import os
import shutil
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


def locust() -> Path:
    """Python with Locust, whose fast client is the quickest of the load generators in Python."""
    return venv("peers-locust", [["locust"]])


def inference_perf() -> Path:
    """Python with inference-perf, which wants a newer Python than ours and no torch."""
    return venv("peers-inference-perf", [["inference-perf"]], base=newer_python(12))


def aiperf() -> Path:
    """Python with aiperf."""
    return venv("peers-aiperf", [["torch==2.13.0"], ["torch==2.13.0", "aiperf"]])


def guidellm() -> Path:
    """Python with guidellm."""
    return venv("peers-guidellm", [["torch==2.13.0"], ["torch==2.13.0", "guidellm"]])


def change_points() -> Path:
    """Python with Apache Otava and with asv's step detector."""
    return venv("peers-series", [["apache-otava", "asv"]])


def newer_python(minor: int) -> str:
    """A Python of this machine that is at least 3.MINOR, the oldest such first.

    Raises:
        PeerError: if there is none.
    """
    names = [f"python3.{number}" for number in range(minor, minor + 4)]
    kept = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob("3.*/bin/python3.*"))
    found = [shutil.which(name) for name in names] + [str(path) for path in kept if path.name in names]
    for path in filter(None, [sys.executable if sys.version_info >= (3, minor) else None, *found]):
        try:  # a shim of a version switcher may be there and refuse to run
            run([path, "-c", "import venv"], timeout_s=30)
        except PeerError:
            continue
        return path
    raise PeerError(f"it needs Python 3.{minor} or newer, and none was found")


def venv(name: str, steps: Sequence[Sequence[str]], base: str = sys.executable) -> Path:
    """The Python of a virtual environment with packages; it is made anew when the list of packages changes.

    Raises:
        PeerError: if something cannot be installed.
    """
    python, stamp = BUILD / name / "bin" / "python", BUILD / name / "installed.txt"
    wanted = "\n".join(" ".join(step) for step in steps)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing {name}: {wanted.replace(chr(10), ', then ')}", flush=True)
    empty(name, base)
    for step in steps:
        install(python, step)
    stamp.write_text(wanted)
    return python


def empty(name: str, base: str = sys.executable) -> Path:
    """The Python of a virtual environment with nothing in it."""
    BUILD.mkdir(exist_ok=True)
    run([base, "-m", "venv", "--clear", str(BUILD / name)], timeout_s=300)
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
