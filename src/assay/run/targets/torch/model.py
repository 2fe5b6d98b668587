"""A program of PyTorch in our process, behind the seam that the load loop drives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run import torch_devices as devices
from assay.run.contract import Order
from assay.run.records import DeviceProof
from assay.run.targets.torch.inputs import TorchFeeds
from assay.run.targets.torch.programs import LoadedProgram, kind_of, open_program
from assay.spec.target import ModelTarget


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
        self._fed: TorchFeeds | None = None
        self._once: Callable[[], object] | None = None
        self.device_memory: tuple[dict[str, float], dict[str, str]] = ({}, {})

    def load(self) -> None:
        """Read the program and put it on the device."""
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
        """What was really used, read back."""
        program, fed = self._opened(), self._fed
        tensors = list(program.tensors())
        dims: dict[str, JsonValue] = {
            name: {"size": size.value, "from": size.origin} for name, size in (fed.dims if fed else {}).items()
        }
        return {
            "runtime": "torch",
            "runtime_version": str(devices.library().__version__),
            **devices.facts(self._placement),
            "program": program.kind,
            "model": {
                "file": self._path.name,
                "sha256": self._order.model_sha256,
                "size_bytes": self._path.stat().st_size,
                "weights": sum(one.numel() for one in tensors),
                "weights_bytes": sum(one.numel() * one.element_size() for one in tensors),
            },
            "dims": dims,
            "inputs": fed.facts() if fed else [],
            "outputs": [_described(one) for one in _tensors(self._called())],
        }

    def close(self) -> None:
        """Free everything."""
        self._program = self._fed = self._once = None

    def _opened(self) -> LoadedProgram:
        if self._program is None:
            raise MeasureError("the program is not loaded", code="target", at="target.model", try_="call load() first")
        return self._program

    def _called(self) -> object:
        if self._once is None:
            raise MeasureError("the inputs are not made", code="target", at="target.model", try_="call call() first")
        return self._once()


def _import_loaders() -> None:
    """Import what loading a program needs now: it is part of the library, not of the load."""
    import torch.export.passes
    import torch.export.pt2_archive._package  # noqa: F401  (imported for later)


def _tensors(result: object) -> list[Any]:
    torch = devices.library()
    from torch.utils import _pytree as pytree

    return [one for one in pytree.tree_leaves(result) if isinstance(one, torch.Tensor)]


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
