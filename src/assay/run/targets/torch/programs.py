"""Exported programs and TorchScript: what a file holds, read from its table of contents, and how it is loaded."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import JsonValue

from assay.errors import MeasureError, UsageError
from assay.run import torch_devices as devices
from assay.run.contract import Order
from assay.run.policy import refuse_program
from assay.run.records import DeviceProof
from assay.run.targets import not_ready
from assay.run.targets.torch.inputs import Bounds, TorchInput, by_file, by_signature, element_of, tensor_of
from assay.run.tensors.feeds import Feeds
from assay.run.torch_devices import TorchPlacement, library
from assay.spec.benchmark import Workload
from assay.spec.target import ModelTarget

if TYPE_CHECKING:
    from torch import Tensor


class TorchProgram:
    """An exported program or TorchScript, fed by its own signature or by the file."""

    def __init__(self, order: Order, target: ModelTarget, path: Path) -> None:
        self.items_per_call = 1  # known once the inputs are made
        self._order, self._path = order, path
        self._placement = devices.place(target.device)
        devices.set_threads(target)
        self._kind = kind_of(self._path)
        _import_loaders()
        self._program: LoadedProgram | None = None
        self._fed: Feeds | None = None
        self._once: Callable[[], object] | None = None
        self.device_memory: tuple[dict[str, float], dict[str, str]] = ({}, {})

    def load(self) -> None:
        self._program = open_program(self._path, self._kind, self._placement)

    def call(self) -> Callable[[], object]:
        """One inference with inputs made once and kept on the device; done when the device is."""
        program = self._opened()
        workload = self._order.job.definition.workload
        devices.library().manual_seed(workload.seed)
        self._fed = program.fed(workload, Path(self._order.job.base))
        self.items_per_call = self._fed.items
        self._once = call = program.bound(self._fed, self._placement.name)
        devices.start_memory(self._placement)
        wait = devices.wait_for(self._placement)
        if wait is None:
            return call

        def call_and_wait() -> object:
            result = call()
            wait()
            return result

        return call_and_wait

    def proof(self) -> DeviceProof:
        """Where the weights lie and where the outputs of one more call came out."""
        self.device_memory = devices.peak_memory(self._placement)
        outputs = _tensors(self._called())
        return devices.prove(self._placement, self._opened().tensors(), outputs, "after the measured calls")

    def facts(self) -> Mapping[str, JsonValue]:
        program, fed = self._opened(), self._fed
        tensors = list(program.tensors())
        return {
            "runtime": "torch",
            "runtime_version": str(devices.library().__version__),
            **devices.facts(self._placement),
            "program": program.kind,
            "model": {
                "file": self._path.name,
                "sha256": self._order.model_sha256,
                "size_bytes": self._path.stat().st_size,
                "weights": sum(tensor.numel() for tensor in tensors),
                "weights_bytes": sum(tensor.numel() * tensor.element_size() for tensor in tensors),
            },
            "dims": fed.dim_facts() if fed else {},
            "inputs": fed.facts() if fed else [],
            "outputs": [_described(tensor) for tensor in _tensors(self._called())],
        }

    def close(self) -> None:
        self._program = self._fed = self._once = None

    def _opened(self) -> LoadedProgram:
        return self._program or not_ready("the program is not loaded", "call load() first")

    def _called(self) -> object:
        return (self._once or not_ready("the inputs are not made", "call call() first"))()


def _import_loaders() -> None:
    """Import what loading a program needs now: it is part of the library, not of the load."""
    import torch.export.passes
    import torch.export.pt2_archive._package  # noqa: F401  (imported for later)


def _tensors(result: object) -> list[Any]:
    torch = devices.library()
    from torch.utils import _pytree as pytree

    return [tensor for tensor in pytree.tree_leaves(result) if isinstance(tensor, torch.Tensor)]


def _described(tensor: Any) -> JsonValue:  # noqa: ANN401  (a torch.Tensor)
    torch = devices.library()
    on_host = tensor.detach().cpu().contiguous()
    # Bytes, since numpy lacks some of the types.
    content = on_host.reshape(-1).view(torch.uint8).numpy().tobytes() if on_host.numel() else b""
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


# Places of pickled weights in archives of older versions.
_OLDER = ("data/weights/model.pt", "data/constants/model.pt")
_BYTES = ("weight_", "tensor_")
Kind = Literal["exported program", "TorchScript"]
_EXPORT = "torch.export.save(torch.export.export(model.eval(), example_inputs), 'model.pt2')"
_MEMORY = re.compile(r"out of memory|not enough memory|can't allocate", re.IGNORECASE)
_SCALARS = {"int": int, "float": float, "bool": bool, "str": str}


def kind_of(path: Path) -> Kind:
    """Which kind of program a file holds."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _kind(path, archive)
    except (OSError, zipfile.BadZipFile) as problem:
        raise _refused(f"{path.name} is no archive of PyTorch: {problem}", _EXPORT) from None


def _kind(path: Path, archive: zipfile.ZipFile) -> Kind:
    whole = archive.namelist()
    # The first folder of every name is the name that the file once had; two would hide one behind the other.
    names = {name.partition("/")[2]: name for name in whole}
    is_odd = len({name.partition("/")[0] for name in whole}) != 1 or len(names) < len(whole)
    if "serialized_exported_program.json" in whole or any(name in names for name in _OLDER):
        raise _refused(f"{path.name} is an exported program of an older PyTorch", "export it again")
    if "archive_format" in names and not is_odd:
        _check_exported(path, archive, names)
        return "exported program"
    if "constants.pkl" in names and any(name.startswith("code/") for name in names) and not is_odd:
        return "TorchScript"
    raise _refused(
        f"{path.name} was written by torch.save: it holds pickled weights or a pickled module, and no program; "
        "loading a pickle can run any code, so it is refused",
        _EXPORT,
    )


def _check_exported(path: Path, archive: zipfile.ZipFile, names: dict[str, str]) -> None:
    """Refuse what would be unpickled or is machine code."""
    if "models/model.json" not in names:
        compiled = any(name.startswith("data/aotinductor/") for name in names)
        what = "compiled machine code and no exported program" if compiled else "no program called model"
        raise _refused(f"{path.name} holds {what}", _EXPORT)
    for name, whole in names.items():
        if name.endswith("_config.json") and _pickled(archive.read(whole)):
            message = f"{path.name} holds pickled tensors or objects ({name}); loading them can run any code"
            raise _refused(message, _EXPORT)
    sample = names.get("data/sample_inputs/model.pt")
    if sample is not None and (content := archive.read(sample)):
        try:
            library().load(io.BytesIO(content), weights_only=True)
        except Exception:  # PyTorch would fall back to a plain pickle here
            raise _refused(f"the example inputs of {path.name} are no plain tensors and numbers", _EXPORT) from None


def _pickled(config: bytes) -> bool:
    """Whether a table of weights or constants names anything but the bytes of tensors."""
    try:
        entries = list(json.loads(config)["config"].values())
        return any(entry["use_pickle"] or not str(entry["path_name"]).startswith(_BYTES) for entry in entries)
    except (ValueError, KeyError, TypeError, AttributeError):
        return True  # not as PyTorch writes it, so nothing is known about it


def _refused(message: str, try_: str) -> MeasureError:
    return MeasureError(message, code="model", at="target.model", try_=try_)


def open_program(path: Path, kind: Kind, placement: TorchPlacement) -> LoadedProgram:
    """Load a program onto its device."""
    refuse_program(f"{path.name} is a PyTorch program ({kind}), which can read and write files")
    try:
        return (_Exported if kind == "exported program" else _Script)(path, placement)
    except (UsageError, MeasureError):
        raise
    except Exception as problem:  # PyTorch raises many kinds
        raise explained(problem, f"PyTorch cannot load {path.name}") from problem


class _Exported:
    kind: Kind = "exported program"

    def __init__(self, path: Path, placement: TorchPlacement) -> None:
        torch = library()
        program = torch.export.load(path)
        if any(tensor.device != torch.device(placement.name) for tensor in _of(program)) or placement.kind != "cpu":
            from torch.export.passes import move_to_device_pass

            program = move_to_device_pass(program, placement.name)
        self._program, self._module = program, program.module()

    def fed(self, workload: Workload, base: Path) -> Feeds:
        return by_signature(self._declared(), self._bounds(), workload, base)

    def bound(self, fed: Feeds, device: str) -> Callable[[], object]:
        """One call with these values, ready to be made."""
        from torch.utils import _pytree as pytree

        leaves = [
            tensor_of(fed, spec.arg.name, device) if _is_tensor(spec.arg) else _value(spec.arg, example)
            for spec, example in self._inputs()
        ]
        arguments, named = pytree.tree_unflatten(leaves, self._program.call_spec.in_spec)
        return _inferring(self._module, arguments, named)

    def tensors(self) -> Iterator[Tensor]:
        return _of(self._program)

    def _inputs(self) -> list[tuple[Any, Any]]:
        """The user's inputs in order, each with the value that the program was exported with."""
        from torch.utils import _pytree as pytree

        specs = [spec for spec in self._program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        examples = pytree.tree_leaves(self._program.example_inputs)
        return list(zip(specs, examples if len(examples) == len(specs) else [None] * len(specs), strict=True))

    def _declared(self) -> dict[str, TorchInput]:
        nodes = {node.name: node for node in self._program.graph.nodes if node.op == "placeholder"}
        rows = self._tables()
        inputs = {}
        for spec, example in self._inputs():
            name = spec.arg.name
            if not _is_tensor(spec.arg):
                continue
            fake = nodes[name].meta["val"]
            shape = tuple(size if isinstance(size, int) else str(size) for size in fake.shape)
            was = tuple(example.shape) if example is not None else None
            inputs[name] = TorchInput(element_of(fake.dtype, name), shape, example=was, rows=rows.get(name))
        return inputs

    def _bounds(self) -> dict[str, Bounds]:
        return {
            str(symbol): Bounds(int(allowed.lower), int(allowed.upper) if bool(allowed.upper < 2**31) else None)
            for symbol, allowed in self._program.range_constraints.items()
        }

    def _tables(self) -> dict[str, int]:
        """Input → rows of the table that it looks up directly."""
        rows: dict[str, int] = {}
        for node in self._program.graph.nodes:
            if node.op == "call_function" and str(node.target).startswith("aten.embedding.") and len(node.args) > 1:
                table, index = node.args[:2]
                size = int(table.meta["val"].shape[0])
                rows[index.name] = min(size, rows.get(index.name, size))
        return rows


class _Script:
    kind: Kind = "TorchScript"

    def __init__(self, path: Path, placement: TorchPlacement) -> None:
        torch = library()
        self._module = torch.jit.load(str(path), map_location=torch.device(placement.name)).eval()
        arguments = self._module.forward.schema.arguments[1:]
        self._types = {argument.name: str(argument.type) for argument in arguments}
        self._optional = {argument.name for argument in arguments if argument.has_default_value()}

    def fed(self, workload: Workload, base: Path) -> Feeds:
        specs = workload.inputs
        wanted = [name for name in self._types if name not in self._optional or name in specs]
        for name in wanted:
            kind = self._types[name].removeprefix("Optional[").removesuffix("]")
            if kind != "Tensor" and (kind not in _SCALARS or name not in specs or specs[name].value is None):
                message = f"input {name!r} of the program is {self._types[name]}, and has no value"
                try_ = "give its value" if kind in _SCALARS else "script the program with tensors as inputs"
                raise UsageError(message, code="input-type", at=f"workload.inputs.{name}", try_=try_)
        values = {name: spec.value for name, spec in specs.items() if self._types.get(name) in _SCALARS}
        self._scalars = {name: _SCALARS[self._types[name]](value) for name, value in values.items()}
        tensors = [name for name in wanted if name not in self._scalars]
        others = {name: spec for name, spec in specs.items() if name not in self._scalars}
        return by_file(tensors, workload.model_copy(update={"inputs": others}), base)

    def bound(self, fed: Feeds, device: str) -> Callable[[], object]:
        tensors = {name: tensor_of(fed, name, device) for name in fed.values}
        return _inferring(self._module, (), {**tensors, **self._scalars})

    def tensors(self) -> Iterator[Tensor]:
        yield from self._module.parameters()
        yield from self._module.buffers()


LoadedProgram = _Exported | _Script


def explained(problem: BaseException, what: str) -> MeasureError:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    reason = f"{type(problem).__name__}: {lines[-1] if lines else 'no message'}"
    if _MEMORY.search(str(problem)):
        message, code, try_ = f"memory ran out: {reason}", "out-of-memory", "lower workload.batch"
    else:
        try_ = "check the file with this version of PyTorch, and the shapes of its inputs"
        message, code = f"{what}: {reason}", "model"
    return MeasureError(message, code=code, at="target.model", try_=try_)


def _inferring(module: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Callable[[], object]:  # noqa: ANN401
    torch = library()

    def call() -> object:
        with torch.inference_mode():  # counts for one thread only, so each call enters it
            return module(*arguments, **named)

    return call


def _of(program: Any) -> Iterator[Tensor]:  # noqa: ANN401  (an ExportedProgram)
    torch = library()
    yield from (
        tensor
        for tensor in (*program.state_dict.values(), *program.constants.values())
        if isinstance(tensor, torch.Tensor)
    )


def _is_tensor(argument: Any) -> bool:  # noqa: ANN401  (one of several records of torch.export)
    return type(argument).__name__ == "TensorArgument"


def _value(argument: Any, example: Any) -> Any:  # noqa: ANN401  (whatever the program was exported with)
    """A plain value that the program was made for: it takes no other."""
    return getattr(argument, "value", example)
