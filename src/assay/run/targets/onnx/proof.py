"""Proof of device: which execution provider ran each node of the graph, read back from the runtime."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.run.onnx_devices import CPU, PROVIDERS, OnnxPlacement
from assay.run.records import DeviceProof
from assay.spec.devices import split_index

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

# These compile whole parts of the graph into one node, so that a profile shows fewer nodes than they ran.
_COMPILING = {PROVIDERS[device] for device in ("tensorrt", "openvino", "coreml")}


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which provider ran which operators."""

    ops: Mapping[str, Counter[str]]  # provider → operator type → nodes
    evidence: str
    fused: bool = False  # compiled parts count as one node

    @property
    def nodes(self) -> dict[str, int]:
        return {provider: sum(ops.values()) for provider, ops in self.ops.items()}


def recorded(session: InferenceSession) -> Assignment | None:
    """What the measured session itself recorded while it divided the graph; None before ONNX Runtime 1.24."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    ops: dict[str, Counter[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        ops.setdefault(part.ep_name, Counter()).update(node.op_type for node in part.get_nodes())
    return Assignment(ops, "the measured session's own record of which provider got each node")


def profiled(
    options: SessionOptions,
    scratch: Path,
    reopen: Callable[[SessionOptions], InferenceSession],
    run: Callable[[InferenceSession], object],
) -> Assignment:
    """What the profile of one call says, in a second session with the same options."""
    options.enable_profiling = True
    options.profile_file_prefix = str(scratch / "device-proof")
    session = reopen(options)
    run(session)
    profile = Path(session.end_profiling())
    try:
        ops = parse_profile(profile.read_text(encoding="utf-8"))
    finally:
        with contextlib.suppress(OSError):
            profile.unlink()
    return Assignment(ops, "profile of one call in a second session with the same options", fused=True)


def parse_profile(text: str) -> dict[str, Counter[str]]:
    """Providers and operator types in a profile that ONNX Runtime wrote."""
    ops: dict[str, Counter[str]] = {}
    for event in json.loads(text):
        details = event.get("args", {})
        if event.get("cat") == "Node" and details.get("provider"):
            ops.setdefault(details["provider"], Counter())[details.get("op_name", "?")] += 1
    return ops


def prove(
    placement: OnnxPlacement, assignment: Assignment, options: Mapping[str, str], graph_nodes: int
) -> DeviceProof:
    """Decide which device did the work.

    Args:
        options: the provider's options, read back; they name the device's number.
        graph_nodes: nodes in the model file, to weigh compiled parts.
    """
    used = placement.device if _did_most(placement.provider, assignment, graph_nodes) else _most(assignment)
    _, index = split_index(placement.device)
    taken = options.get("device_id", str(index))
    if used == placement.device and taken != str(index):
        used = f"{split_index(used)[0]}:{taken}"
    return DeviceProof(placement.device, used, assignment.nodes, assignment.evidence + _caveat(placement))


def elsewhere(placement: OnnxPlacement, assignment: Assignment) -> dict[str, dict[str, int]]:
    """Operators that another provider than the asked one ran."""
    return {
        provider: dict(sorted(ops.items()))
        for provider, ops in assignment.ops.items()
        if provider != placement.provider
    }


def _did_most(provider: str, assignment: Assignment, graph_nodes: int) -> bool:
    nodes = assignment.nodes
    own = nodes.get(provider, 0)
    others = sum(nodes.values()) - own
    if provider == CPU:
        return others == 0
    if assignment.fused and provider in _COMPILING and own:
        return 2 * others < graph_nodes
    return own > others


def _most(assignment: Assignment) -> str:
    """The device whose provider ran the most nodes; the CPU when nothing was recorded."""
    nodes = assignment.nodes
    leader = max(nodes, key=lambda provider: nodes[provider]) if nodes else CPU
    return next((device for device, provider in PROVIDERS.items() if provider == leader), leader)


def _caveat(placement: OnnxPlacement) -> str:
    if placement.provider == PROVIDERS["coreml"]:
        return "; inside its part, Core ML itself chooses among the units it was allowed"
    return ""
