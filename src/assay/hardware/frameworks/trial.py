"""One framework tried in a process of its own: what crashes or hangs there is told, and nothing else suffers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

Facts = dict[str, JsonValue]

# A small board takes half a minute to load PyTorch for the first time.
LIMIT_S = 120.0
_PROGRAM = "assay.hardware.frameworks.proofs"
# Quiet, offline, without reports to anyone, and without taking a whole GPU for one product.
_VARIABLES = {
    "ORT_DISABLE_TELEMETRY": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a trial said, and why it ended early; empty where it came to its end."""

    answers: tuple[Facts, ...]
    why: str = ""


# Framework, and the devices to try (None: all that it names).
Try = Callable[[str, Sequence[str] | None], Outcome]


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
    left: list[str] | None = None
    while True:
        outcome = attempt(name, left)
        named = _read(outcome, facts, devices)
        if named is None:  # it ended before it could name any
            why: JsonValue = facts.pop("why", "") or outcome.why or "its trial told nothing"
            devices |= {one: {"works": False, "why": why} for one in left or ()}
            facts |= {"works": False, "why": why}
            break
        left = [one for one in (named if left is None else left) if one not in devices]
        if not left:
            break
        devices[left.pop(0)] = {"works": False, "why": outcome.why or "its trial told nothing"}
        if not left:
            break
    facts["seconds"] = round(time.perf_counter() - begin, 3)
    return _summed(facts, devices)


def in_a_process(name: str, devices: Sequence[str] | None, limit_s: float = LIMIT_S) -> Outcome:
    """Try a framework in another process; it and what it started are ended when the time is over."""
    if getattr(sys, "frozen", False):
        return Outcome((), "a frozen program cannot start its own interpreter")
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
        return Outcome((), f"its process cannot be started: {problem}")
    with process:
        try:
            said, complaints = process.communicate(timeout=limit_s)
            why = _why(process.returncode, complaints)
        except subprocess.TimeoutExpired:
            _end(process)
            said, _ = process.communicate()
            why = f"it took longer than {limit_s:g} s"
        except BaseException:
            _end(process)
            raise
    return Outcome(tuple(_lines(said)), why)


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _read(outcome: Outcome, facts: Facts, devices: dict[str, Facts]) -> list[str] | None:
    """Take in what a trial said; the devices that it named, or None where it did not come to that."""
    named: list[str] | None = None
    for answer in outcome.answers:
        listed = answer.get("devices")
        if isinstance(listed, list):
            named = [str(one) for one in listed]
        elif "device" in answer:
            devices[str(answer["device"])] = {name: value for name, value in answer.items() if name != "device"}
        else:
            facts.update(answer)
    return named


def _summed(facts: Facts, devices: dict[str, Facts]) -> Facts:
    if devices:
        states = [one.get("works") for one in devices.values()]
        facts["works"] = True if True in states else (False if False in states else None)
        first = next(one for one in devices.values() if one.get("works") == facts["works"])
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
        last = last_line(complaints)
        return f"its process was ended by {name}" + (f": {last}" if last else "")
    return last_line(complaints) or f"its process ended with {code}"


def _lines(text: str) -> list[Facts]:
    found: list[Facts] = []
    for line in text.splitlines():
        try:
            answer = json.loads(line)
        except ValueError:  # the last one of a process that was ended may be cut
            continue
        if isinstance(answer, dict):
            found.append(answer)
    return found


def _end(process: subprocess.Popen[str]) -> None:
    """End a trial with whatever it started."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
    else:
        process.kill()
