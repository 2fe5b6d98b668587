"""Installed frameworks, each tried in its own process; proofs are cached until version, driver or machine change."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from pydantic import JsonValue

from assay.clock import SYSTEM_CLOCK, Clock, iso
from assay.files import write_whole
from assay.hardware.source import Facts

# A small board takes half a minute to load PyTorch for the first time.
LIMIT_S = 120.0
_PROGRAM = "assay.hardware.framework_proofs"
# Quiet, offline, without reports to anyone, and without taking a whole GPU for one product.
_VARIABLES = {
    "ORT_DISABLE_TELEMETRY": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What a trial said, and why it ended early; empty where it came to its end."""

    answers: tuple[Facts, ...]
    why: str = ""


# Framework, and the devices to try (None: all that it names).
Try = Callable[[str, Sequence[str] | None], TrialOutcome]


def prove(name: str, try_: Try | None = None) -> Facts:
    """Try a framework on each device that it names.

    A device whose trial ends its process is marked so, and those after it are tried in another one.

    Returns:
        `works` (True, False, or None where nothing could be run), `proof` or `why`, `seconds`, `version` as the
        framework itself tells it, and the same of each device under `devices`.
    """
    attempt = try_ or in_a_process
    begin = time.perf_counter()
    facts: Facts = {}
    devices: dict[str, Facts] = {}
    devices_left: list[str] | None = None
    while True:
        outcome = attempt(name, devices_left)
        names = _read(outcome, facts, devices)
        if names is None:  # it ended before it could name any
            why: JsonValue = facts.pop("why", "") or outcome.why or "its trial reported nothing"
            devices |= {device: {"works": False, "why": why} for device in devices_left or ()}
            facts |= {"works": False, "why": why}
            break
        devices_left = [device for device in (names if devices_left is None else devices_left) if device not in devices]
        if not devices_left:
            break
        devices[devices_left.pop(0)] = {"works": False, "why": outcome.why or "its trial reported nothing"}
        if not devices_left:
            break
    facts["seconds"] = round(time.perf_counter() - begin, 3)
    return _summed(facts, devices)


def in_a_process(name: str, devices: Sequence[str] | None, limit_s: float = LIMIT_S) -> TrialOutcome:
    """Try a framework in another process; it and what it started are ended when the time is over."""
    if getattr(sys, "frozen", False):
        return TrialOutcome((), "a frozen program cannot start its own interpreter")
    # -P: a folder of the same name where the user stands is not the framework.
    command = [sys.executable, "-P", "-m", _PROGRAM, name, *(devices or ())]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, **_VARIABLES},
            start_new_session=True,
        )
    except OSError as problem:
        return TrialOutcome((), f"its process cannot be started: {problem}")
    with process:
        try:
            output, complaints = process.communicate(timeout=limit_s)
            why = _why(process.returncode, complaints)
        except subprocess.TimeoutExpired:
            _end(process)
            output, _ = process.communicate()
            why = f"it took longer than {limit_s:g} s"
        except BaseException:
            _end(process)
            raise
    return TrialOutcome(tuple(_lines(output)), why)


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _read(outcome: TrialOutcome, facts: Facts, devices: dict[str, Facts]) -> list[str] | None:
    """Take in what a trial said; the devices that it named, or None where it did not come to that."""
    names: list[str] | None = None
    for answer in outcome.answers:
        listed = answer.get("devices")
        if isinstance(listed, list):
            names = [str(entry) for entry in listed]
        elif "device" in answer:
            devices[str(answer["device"])] = {name: value for name, value in answer.items() if name != "device"}
        else:
            facts.update(answer)
    return names


def _summed(facts: Facts, devices: dict[str, Facts]) -> Facts:
    if devices:
        states = [device.get("works") for device in devices.values()]
        facts["works"] = True if True in states else (False if False in states else None)
        first = next(device for device in devices.values() if device.get("works") == facts["works"])
        facts |= {name: first[name] for name in ("proof", "why") if name in first}
        facts["devices"] = {**devices}
    elif "proof" not in facts:
        facts.setdefault("why", "it names no device")
    facts.setdefault("works", None)
    return facts


def _why(code: int, complaints: str) -> str:
    if code == 0:
        return ""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"its process was ended by {name}: {last_line(complaints)}".removesuffix(": ")
    return last_line(complaints) or f"its process ended with {code}"


def _lines(text: str) -> list[Facts]:
    answers: list[Facts] = []
    for line in text.splitlines():
        try:
            answer = json.loads(line)
        except ValueError:  # the last one of a process that was ended may be cut
            continue
        if isinstance(answer, dict):
            answers.append(answer)
    return answers


def _end(process: subprocess.Popen[str]) -> None:
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework by its module, and the packages that may bring it."""

    name: str
    module: str
    packages: tuple[str, ...]


FRAMEWORKS = (
    Framework(
        "onnxruntime",
        "onnxruntime",
        ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino", "onnxruntime-rocm",
         "onnxruntime-migraphx", "onnxruntime-qnn", "onnxruntime-silicon", "onnxruntime-training"),
    ),
    Framework("torch", "torch", ("torch",)),
    Framework("transformers", "transformers", ("transformers",)),
    Framework("tensorflow", "tensorflow", ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tf-nightly")),
    Framework("jax", "jax", ("jax",)),
    Framework("openvino", "openvino", ("openvino", "openvino-nightly")),
    Framework("coremltools", "coremltools", ("coremltools",)),
    Framework("llama-cpp-python", "llama_cpp", ("llama-cpp-python",)),
    Framework("faiss", "faiss", ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu12", "faiss-gpu-cu11", "faiss")),
    Framework("vllm", "vllm", ("vllm",)),
)  # fmt: skip


def installed(
    find: Callable[[str], ModuleSpec | None] = find_spec, version_of: Callable[[str], str] = version
) -> dict[str, str]:
    """The frameworks that are here, with their versions; a version that no package tells is empty."""
    versions = {}
    for framework in FRAMEWORKS:
        known_version = _version(framework, version_of)
        if known_version is not None or _is_there(framework.module, find):
            versions[framework.name] = known_version or ""
    return versions


def _version(framework: Framework, version_of: Callable[[str], str]) -> str | None:
    for package in framework.packages:
        try:
            return version_of(package)
        except PackageNotFoundError:
            continue
    return None


def _is_there(module: str, find: Callable[[str], ModuleSpec | None]) -> bool:
    try:
        spec = find(module)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None  # any folder of that name has a spec, but no origin


# What a framework stands on besides the others.
_BELOW = ("numpy", "protobuf", "jaxlib", "tokenizers", "safetensors")


def frameworks(
    cache: Path | None,
    *,
    machine: str,
    driver: str = "",
    fresh: bool = False,
    found: Mapping[str, str] | None = None,
    prove_one: Callable[[str], Facts] = prove,
    notify: Callable[[str], None] = lambda _: None,
    clock: Clock = SYSTEM_CLOCK,
) -> Facts:
    """Every framework that is installed: its version, and whether it works, by a proof."""
    versions = dict(installed() if found is None else found)
    frameworks: Facts = {}
    for name, of_package in versions.items():
        file = None if cache is None else cache / "proofs" / f"{name}-{_key(name, versions, machine, driver)}.json"
        facts = None if fresh or file is None else _read_kept(file)
        if facts is None:
            notify(name)
            facts = {**prove_one(name), "tried_at": iso(clock.utc())}
            if file is not None:
                with suppress(OSError):  # it is tried again next time
                    write_whole(file, json.dumps(facts).encode())
        trial = {key: value for key, value in facts.items() if key != "version"}
        frameworks[name] = {"version": of_package or facts.get("version") or None, **trial}
    return frameworks


def _key(name: str, versions: Mapping[str, str], machine: str, driver: str) -> str:
    """What a proof holds for: a change in any of these asks for a new one."""
    below = {}
    for package in _BELOW:
        with suppress(PackageNotFoundError):
            below[package] = version(package)
    # Two environments with equal versions may still be installed differently.
    parts = [name, dict(versions), below, machine, driver, platform.python_version(), sys.prefix]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _read_kept(file: Path) -> Facts | None:
    try:
        trial = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return trial if isinstance(trial, dict) and {"works", "tried_at"} <= trial.keys() else None
