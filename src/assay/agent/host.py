"""What this machine offers as an agent, and whether it and its server can work: each found out by trying it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from pathlib import Path

from pydantic import JsonValue

from assay.agent.identity import AgentSettings, RedisAddress, free_bytes
from assay.clock import SYSTEM_CLOCK
from assay.documents import from_json
from assay.errors import AssayError, MeasureError
from assay.files import write_whole
from assay.place.fleet.client import FleetClient, RefusedError
from assay.place.fleet.protocol import Enrolment
from assay.place.needs import Profile
from assay.spec.section import split_index
from assay.units import show_bytes
from assay.version import __version__

_TIMEOUT_S = 300.0
_MEASURE_S = 120.0
_JOB = """{"benchmark": "proof", "digest": "proof", "index": 0, "definition":
 {"target": {"command": [%s, "-c", "print(1)"]}, "measure": {"runs": 1}}}"""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What `assay agent info --format json` prints."""

    platform: str
    device: Mapping[str, JsonValue]
    capabilities: tuple[str, ...]
    """Compute units, by the names that SARK's users know."""
    profile: Profile
    version: str = ""
    runtimes: Mapping[str, str] = field(default_factory=dict)


def probe_host() -> HostFacts:
    """Ask a process of its own what works here."""
    command = [sys.executable, "-m", "assay", "agent", "info", "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=True, stdin=subprocess.DEVNULL)
        return from_json(HostFacts, done.stdout, source="assay agent info --format json")
    except subprocess.CalledProcessError as problem:
        said = problem.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        why = said[0] if said else f"exit code {problem.returncode}"
    except (OSError, subprocess.SubprocessError, AssayError) as problem:
        why = str(problem)
    raise MeasureError(f"cannot find out what this machine offers: {why}", code="profile", try_="assay agent validate")


def examine_host() -> HostFacts:
    """Look at this machine from within this process: tries runtimes, and loads them."""
    from assay.hardware.machine import machine
    from assay.run.capabilities import local_profile
    from assay.spec.section import compute_unit

    profile = local_profile()
    units = {compute_unit(device): None for offered_profile in profile.devices.values() for device in offered_profile}
    labels = {"arch": str(machine().get("architecture", "")), **profile.labels}
    shown = replace(profile, labels=labels, commands=False)
    return HostFacts(sys.platform, machine(), tuple(units), shown, __version__, dict(profile.runtimes))


def offered_profile(facts: HostFacts, settings: AgentSettings) -> Profile:
    """The profile that an agent shows its server: the machine's, as its user limits and names it."""
    profile = facts.profile
    kinds = {split_index(device)[0] for device in settings.devices}
    devices = {
        runtime: {name: proof for name, proof in proofs.items() if not kinds or name in kinds}
        for runtime, proofs in profile.devices.items()
    }
    return replace(
        profile,
        name=settings.name or profile.name,
        labels={**profile.labels, **settings.labels},
        devices=devices,
        commands="command" in settings.allow,
    )


def enrolment_of(identity: str, facts: HostFacts, settings: AgentSettings) -> Enrolment:
    """What an agent says of itself to a server."""
    profile = offered_profile(facts, settings)
    return Enrolment(
        identity=identity,
        name=profile.name,
        profile=profile,
        device=facts.device,
        address=settings.address,
        version=__version__,
        slots=max(1, len(settings.devices)),
    )


@dataclass(frozen=True, slots=True)
class HostCheck:
    """One thing that was tried."""

    name: str
    ok: bool
    detail: str
    needed: bool = True
    try_: str = ""


def validate(state: Path, min_free: int, *, commands: bool) -> Iterable[HostCheck]:
    """Try everything that an agent needs, one thing after the other."""
    yield HostCheck("python", sys.version_info >= (3, 11), sys.version.split()[0], try_="install Python 3.11 or newer")
    for name, proof in _PROOFS.items():
        yield _tried(name, proof, try_="pip install --force-reinstall assay-bench")
    yield _tried("state folder", lambda: _state(state, min_free), try_="name another folder with --state")
    yield _tried("measuring", _measured, try_="run the command by hand to see what it says")
    yield _tried("onnxruntime", _onnxruntime, needed=not commands, try_="pip install 'assay-bench[onnx]'")
    yield _tried("redis", _redis_package, needed=False, try_="pip install 'assay-bench[redis]', only for --redis-host")


def reach(client: FleetClient, redis: RedisAddress | None) -> Iterable[HostCheck]:
    """Try to reach a server, and the queue if it is to be used directly."""
    try:
        began_s = time.monotonic()
        response = client.send("GET", "/health", expect=(503,))
        passed_ms = (time.monotonic() - began_s) * 1e3
        if response.status_code == 200:
            client.check_health(response)
    except AssayError as problem:
        yield HostCheck("server", False, problem.problem.message, try_=problem.problem.try_)
        return
    yield HostCheck("server", response.status_code == 200, f"{client.url} answers {response.status_code}")
    yield HostCheck("round trip", True, f"{passed_ms:.1f} ms")
    yield _clock(response.headers.get("date", ""))
    yield _token(client)
    if redis is not None:
        yield _tried("redis", lambda: _ping(redis), try_="check --redis-host, --redis-port and the password")


def _tried(name: str, proof: Callable[[], str], *, needed: bool = True, try_: str = "") -> HostCheck:
    try:
        return HostCheck(name, True, proof(), needed)
    except AssayError as problem:
        return HostCheck(name, False, problem.problem.message, needed, problem.problem.try_ or try_)
    except Exception as problem:
        return HostCheck(name, False, f"{type(problem).__name__}: {problem}", needed, try_)


def _clock(date: str) -> HostCheck:
    try:
        offset_s = (parsedate_to_datetime(date) - SYSTEM_CLOCK.utc()).total_seconds()
    except (ValueError, TypeError):
        return HostCheck("clock", True, "the server tells no time", needed=False)
    # The header counts whole seconds.
    off = abs(offset_s) > 2
    said = f"the server's differs by {offset_s:+.0f} s (known to 1 s)"
    advice = "leases do not depend on it; let the system set its clock so that dates agree"
    return HostCheck("clock", not off, said, needed=False, try_=advice)


def _token(client: FleetClient) -> HostCheck:
    """A question that changes nothing and needs the right to take jobs."""
    try:
        client.has("0" * 64)
    except RefusedError as problem:
        return HostCheck("token", False, problem.problem.message, try_=problem.problem.try_)
    except AssayError as problem:
        return HostCheck("token", False, problem.problem.message)
    return HostCheck("token", True, "accepted")


def _ping(place: RedisAddress) -> str:
    from assay.place.redis_broker import RedisBroker

    broker = RedisBroker(place.url)
    try:
        began_s = time.monotonic()
        broker.sizes()
        return f"{place.host}:{place.port} answers in {(time.monotonic() - began_s) * 1e3:.1f} ms"
    finally:
        broker.close()


def _state(folder: Path, min_free: int) -> str:
    write_whole(folder / ".proof", b"proof")
    (folder / ".proof").unlink()
    free = free_bytes(folder)
    if free < min_free:
        raise OSError(f"{show_bytes(free)} free, {show_bytes(min_free)} are to be kept free")
    return f"{folder}, {show_bytes(free)} free"


def _measured() -> str:
    """Measure the smallest command from a job document to a result document, as every job is measured."""
    import json

    with tempfile.TemporaryDirectory(prefix="assay-proof-") as name:
        folder = Path(name)
        (folder / "job.json").write_text(_JOB % json.dumps(sys.executable), encoding="utf-8")
        command = [sys.executable, "-m", "assay", "exec", str(folder / "job.json"), "--out", str(folder / "out"), "-q"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MEASURE_S, check=False)
        if done.returncode != 0:
            raise OSError(f"assay exec ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return "a job document became a result document"


def _onnxruntime() -> str:
    from assay.errors import MeasureError
    from assay.run.onnx_devices import available_devices

    devices = available_devices()
    if not devices:
        raise MeasureError("ONNX Runtime cannot be used here", code="runtime", try_="pip install 'assay-bench[onnx]'")
    return ", ".join(f"{device} ({provider})" for device, provider in devices.items())


def _redis_package() -> str:
    import redis

    return f"redis {redis.__version__}"


def _psutil() -> str:
    import psutil

    return f"reads memory: {show_bytes(psutil.Process().memory_info().rss)} used here"


def _pydantic() -> str:
    from assay.documents import from_json, to_json
    from assay.place.fleet.protocol import Heartbeat

    beat = from_json(Heartbeat, to_json(Heartbeat("active")), source="proof")
    return f"reads and writes messages: {beat.state}"


def _httpx() -> str:
    import httpx

    with httpx.Client(verify=False) as client:  # noqa: S501  (nothing is sent)
        return f"httpx {httpx.__version__}, {'open' if not client.is_closed else 'closed'}"


def _numpy() -> str:
    import numpy as np

    return f"numpy {np.__version__} adds up: {int(np.arange(10).sum())}"


_PROOFS = {"psutil": _psutil, "pydantic": _pydantic, "httpx": _httpx, "numpy": _numpy}
