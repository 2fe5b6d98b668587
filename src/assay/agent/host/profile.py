"""What this machine offers, found out by another process: runtimes that are tried never enter the agent's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from assay.agent.settings import AgentSettings
from assay.documents import from_json
from assay.errors import AssayError, MeasureError
from assay.place.needs import Profile
from assay.spec.devices import split_index

_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What `assay agent info --json` prints."""

    platform: str
    device: Mapping[str, JsonValue]
    capabilities: tuple[str, ...]
    """Compute units, by the names that SARK's users know."""
    profile: Profile
    version: str = ""
    runtimes: Mapping[str, str] = field(default_factory=dict)


def look() -> HostFacts:
    """Ask a process of its own what works here.

    Raises:
        MeasureError: if it does not answer.
    """
    command = [sys.executable, "-m", "assay", "agent", "info", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=True, stdin=subprocess.DEVNULL)
        return from_json(HostFacts, done.stdout, source="assay agent info --json")
    except subprocess.CalledProcessError as problem:
        said = problem.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise _unknown(said[0] if said else f"exit code {problem.returncode}") from None
    except (OSError, subprocess.SubprocessError, AssayError) as problem:
        raise _unknown(str(problem)) from None


def examine() -> HostFacts:
    """Look at this machine from within this process: tries runtimes, and loads them."""
    from assay.hardware.machine import machine
    from assay.run.capabilities import local_profile
    from assay.spec.devices import compute_unit
    from assay.version import __version__

    profile = local_profile()
    found = {compute_unit(device): None for offered in profile.devices.values() for device in offered}
    labels = {"arch": str(machine().get("architecture", "")), **profile.labels}
    shown = replace(profile, labels=labels, commands=False)
    return HostFacts(sys.platform, machine(), tuple(found), shown, __version__, dict(profile.runtimes))


def offered(facts: HostFacts, settings: AgentSettings) -> Profile:
    """The profile that an agent shows its server: the machine's, as its user limits and names it."""
    profile = facts.profile
    kinds = {split_index(device)[0] for device in settings.devices}
    devices = {
        runtime: {name: proof for name, proof in found.items() if not kinds or name in kinds}
        for runtime, found in profile.devices.items()
    }
    return replace(
        profile,
        name=settings.name or profile.name,
        labels={**profile.labels, **settings.labels},
        devices=devices,
        commands="command" in settings.allow,
    )


def _unknown(why: str) -> MeasureError:
    return MeasureError(f"cannot find out what this machine offers: {why}", code="profile", try_="assay agent validate")
