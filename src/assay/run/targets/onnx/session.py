"""An ONNX Runtime session as the benchmark asks for it: what it took, read back, and which provider ran each node."""

from __future__ import annotations

import contextlib
import json
import mmap
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from assay.errors import MeasureError, UsageError
from assay.run.models.graph import outline_or_none
from assay.run.onnx_devices import CPU, PROVIDERS, OnnxPlacement, runtime
from assay.run.policy import programs_allowed, refuse_program
from assay.run.records import DeviceProof
from assay.run.tensors.dims import nearest
from assay.spec.section import split_index
from assay.spec.target import ModelTarget

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

RECORD_NODES = "session.record_ep_graph_assignment_info"
_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}
# Settings of a session that are attributes and not entries; their type decides how the text is read.
_ATTRIBUTES: dict[str, type] = {
    "log_severity_level": int,
    "log_verbosity_level": int,
    "enable_cpu_mem_arena": bool,
    "enable_mem_pattern": bool,
    "enable_mem_reuse": bool,
    "use_deterministic_compute": bool,
}
# Providers that load an engine which a model brings along.
_TAKES_ENGINES = (PROVIDERS["tensorrt"], PROVIDERS["openvino"])
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : (?P<kind>\w+) : ")
_MEMORY = re.compile(r"failed to allocate|bad.?alloc|out of memory|cannot allocate", re.IGNORECASE)
# These compile whole parts of the graph into one node, so that a profile shows fewer nodes than they ran.
_COMPILING = {PROVIDERS[device] for device in ("tensorrt", "openvino", "coreml")}


def session_options(target: ModelTarget, placement: OnnxPlacement) -> SessionOptions:
    ort = runtime()
    options: SessionOptions = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = target.threads or 0
    options.inter_op_num_threads = target.inter_threads or 0
    options.execution_mode = getattr(ort.ExecutionMode, f"ORT_{target.execution.upper()}")
    level = _LEVELS[target.optimization]
    if not hasattr(ort.GraphOptimizationLevel, level):
        message = f"ONNX Runtime {ort.__version__} has no optimisation level {target.optimization!r}"
        try_ = "use extended or all, or update onnxruntime"
        raise MeasureError(message, code="runtime", at="target.optimization", try_=try_)
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    if placement.provider == PROVIDERS["directml"]:
        options.enable_mem_pattern = False  # DirectML demands it
    options.add_session_config_entry(RECORD_NODES, "1")
    for key, text in target.session_options.items():
        _apply(options, key, text)
    return options


def open_session(model: Path, options: SessionOptions, placement: OnnxPlacement) -> InferenceSession:
    """Load the model on exactly the asked provider, never on another."""
    try:
        session = runtime().InferenceSession(
            str(model), options, providers=list(placement.providers), enable_fallback=0
        )
    except Exception as problem:
        raise load_error(model, problem, placement) from None
    session.disable_fallback()
    _check_provider(session, placement)
    return session


def refuse_compiled(model: Path, placement: OnnxPlacement) -> None:
    """Refuse a model that holds an engine compiled for its device, where no programs of jobs may run.

    The name of the operator is looked for in the whole file: a node may hide in a subgraph or a function.
    """
    if (
        programs_allowed()
        or placement.provider not in _TAKES_ENGINES
        or not model.is_file()
        or not model.stat().st_size
    ):
        return
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(b"EPContext") >= 0:
            refuse_program(f"{model.name} holds machine code (an EPContext node)")


def one_line(problem: BaseException) -> str:
    """ONNX Runtime's reason without its prefix and line breaks."""
    text = " ".join(str(problem).split())
    return _PREFIX.sub("", text) or type(problem).__name__


def load_error(model: Path, problem: Exception, placement: OnnxPlacement) -> MeasureError:
    reason = one_line(problem)
    absent = missing_external(model)
    if not model.is_file():
        return MeasureError(f"{model} does not exist", code="model", at="target.model", try_="check the path")
    if absent:
        message = f"{model.name} keeps weights in {absent[0]}, which is not beside it in {model.parent}"
        try_ = f"put {', '.join(absent)} into {model.parent}"
        return MeasureError(message, code="model", at="target.model", try_=try_)
    if _MEMORY.search(reason):
        message = f"memory ran out while loading {model.name}: {reason}"
        try_ = "use a smaller model or a machine with more memory"
        return MeasureError(message, code="out-of-memory", at="target.model", try_=try_)
    if placement.provider != CPU and type(problem).__name__ in ("EPFail", "RuntimeError", "ValueError"):
        message = f"{placement.provider} could not be set up for {placement.device}: {reason}"
        try_ = "check the driver and target.provider_options"
        return MeasureError(message, code="device", at="target.device", try_=try_)
    message = f"ONNX Runtime cannot load {model.name}: {reason}"
    try_ = "check the file with onnx.checker.check_model, or fetch it again"
    return MeasureError(message, code="model", at="target.model", try_=try_)


def call_error(problem: Exception, dims: JsonValue) -> MeasureError:
    reason = one_line(problem)
    if _MEMORY.search(reason):
        message, code, try_ = "memory ran out while running the model", "out-of-memory", "lower workload.batch"
    else:
        message, code, try_ = "the model cannot be run", "model", "set workload.dims or workload.inputs"
    sizes = f"; dimensions: {dims}" if dims else ""
    return MeasureError(f"{message}: {reason}{sizes}", code=code, at="target.model", try_=try_)


def missing_external(model: Path) -> tuple[str, ...]:
    outline = outline_or_none(model)
    return tuple(name for name in (outline.external if outline else ()) if not (model.parent / name).is_file())


def read_back(session: InferenceSession, target: ModelTarget, placement: OnnxPlacement) -> dict[str, JsonValue]:
    options = session.get_session_options()
    taken = session.get_provider_options().get(placement.provider, {})
    return {
        "threads": options.intra_op_num_threads or None,  # None: the runtime decides
        "inter_threads": options.inter_op_num_threads or None,
        "execution": options.execution_mode.name.removeprefix("ORT_").lower(),
        "optimization": {name: word for word, name in _LEVELS.items()}[options.graph_optimization_level.name],
        "provider_options": dict(taken),
        "provider_options_not_read_back": sorted(set(target.provider_options) - set(taken)),
        "session_options": {key: _setting(options, key) for key in target.session_options},
    }


def _setting(options: SessionOptions, key: str) -> str:
    value: Any = getattr(options, key) if key in _ATTRIBUTES else options.get_session_config_entry(key)
    return str(value)


def _apply(options: SessionOptions, key: str, text: str) -> None:
    where = f"target.session_options.{key}"
    if key in _ATTRIBUTES:
        setattr(options, key, _read(text, _ATTRIBUTES[key], where))
    elif "." in key:
        options.add_session_config_entry(key, text)
    else:
        # ONNX Runtime would take any name and ignore it; all its entries are of the form `area.name`.
        message = f"{key!r} is no session option"
        raise UsageError(message, code="session-option", at=where, try_=nearest(key, _ATTRIBUTES))


def _read(text: str, kind: type, where: str) -> int | bool:
    values = {"1": 1, "0": 0, "true": 1, "false": 0} if kind is bool else {str(level): level for level in range(6)}
    if text.lower() not in values:
        message = f"{text!r} is no value for this session option"
        raise UsageError(message, code="session-option", at=where, try_=f"use one of {', '.join(values)}")
    value = values[text.lower()]
    return bool(value) if kind is bool else value


def _check_provider(session: InferenceSession, placement: OnnxPlacement) -> None:
    """A provider whose libraries did not load is dropped by ONNX Runtime with a log line only."""
    if placement.provider not in session.get_providers():
        message = (
            f"{placement.provider} was asked for {placement.device} but did not start; "
            f"the session has {', '.join(session.get_providers())}"
        )
        try_ = "install the libraries that the provider needs (for CUDA: CUDA and cuDNN of its version)"
        raise MeasureError(message, code="device", at="target.device", try_=try_)
    asked = dict(placement.providers)[placement.provider]
    taken = session.get_provider_options().get(placement.provider, {})
    if placement.provider == CPU and (ignored := sorted(set(asked) - set(taken))):
        message = f"{CPU} takes no option {ignored[0]!r}; it would do nothing"
        raise UsageError(message, code="provider-option", at=f"target.provider_options.{ignored[0]}", try_="remove it")


@dataclass(frozen=True, slots=True)
class Assignment:
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
