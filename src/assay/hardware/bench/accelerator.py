"""A device of PyTorch: its memory, its caches, its clock, and whether it still answers."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import cycle
from typing import Any

from pydantic import JsonValue

from assay.hardware.bench import outcome
from assay.hardware.bench.sweep import Timed, by_events, by_wall, reason_of


class OperandRotation:
    """Calls that take turns, and can be freed while their timer is still referenced."""

    def __init__(self, calls: Iterable[Callable[[], object]]) -> None:
        self._next: Callable[[], Callable[[], object]] = cycle(list(calls)).__next__

    def __call__(self) -> None:
        self._next()()

    def release(self) -> None:
        """Let go of the calls, and of the memory that they use."""
        self._next = _released


def _released() -> Callable[[], object]:
    raise RuntimeError("these arrays were let go")


class Accelerator:
    """One device, as the tests see it."""

    def __init__(
        self,
        torch: Any,  # noqa: ANN401
        name: str,
        timer: Callable[[Callable[[], object]], Timed] | None = None,
        cache: int | None = None,
    ) -> None:
        """Take a device.

        Args:
            name: as PyTorch writes it: `cuda:0`, `mps`, `cpu`.
            timer: what times its work; the device's own events where it has them, when left out.
        """
        self.torch = torch
        self.name = name
        self.device = torch.device(name)
        self.kind: str = self.device.type
        self.used: Counter[str] = Counter()
        if self.kind == "cuda":
            torch.cuda.set_device(self.device)  # events and streams belong to the current one
        self._has_events = timer is None and self.kind == "cuda"
        self._timer = timer
        self.cache = cache or self._cache()

    def timed(self, call: Callable[[], object]) -> Timed:
        if self._timer is not None:
            return self._timer(call)
        return by_events(call, self.torch) if self._has_events else by_wall(call, self.wait)

    def wait(self) -> None:
        if self.kind in ("cuda", "mps"):
            getattr(self.torch, self.kind).synchronize()

    def saw(self, *tensors: Any) -> None:  # noqa: ANN401  (tensors)
        """Keep where results were found: the proof that this device did the work."""
        self.used.update(_named(tensor.device) for tensor in tensors)

    def free(self) -> int | None:
        """Free bytes of its memory; None where unknown."""
        if self.kind == "cuda":
            return int(self.torch.cuda.mem_get_info(self.device)[0])
        if self.kind == "mps":
            return int(self.torch.mps.recommended_max_memory() - self.torch.mps.driver_allocated_memory())
        return outcome.free_memory()

    def give_back(self) -> None:
        """Give unused memory back to the device."""
        if self.kind in ("cuda", "mps"):
            getattr(self.torch, self.kind).empty_cache()

    def after_trouble(self) -> str:
        """Free what a failed size still held, and say why the device no longer answers; empty if it does."""
        try:
            gc.collect()  # what an exception still held
            self.give_back()
            # An error of a kernel shows at the next call only, and then at every one.
            answer = float((self.torch.ones(8, device=self.device) + 1).sum().item())
            self.wait()
        except Exception as problem:  # of whatever type: the device is gone
            return f"the device no longer answers: {reason_of(problem)}"
        return "" if answer == 16 else f"the device answers wrongly: 16 came out as {answer:g}"

    def capability(self) -> str | None:
        """NVIDIA's compute capability; None for devices of others."""
        if self.kind != "cuda" or self.torch.version.cuda is None:
            return None
        major, minor = self.torch.cuda.get_device_capability(self.device)
        return f"{major}.{minor}"

    def facts(self) -> dict[str, JsonValue]:
        """What decides the sizes."""
        facts: dict[str, JsonValue | None] = {
            "device": self.name,
            "last_level_cache_bytes": self.cache,
            "free_bytes": self.free(),
            "capability": self.capability(),
            "clock": "events of the device" if self._has_events else "the clock of the host",
        }
        return {name: value for name, value in facts.items() if value is not None}

    def _cache(self) -> int | None:
        if self.kind == "cuda":
            return int(getattr(self.torch.cuda.get_device_properties(self.device), "L2_cache_size", 0)) or None
        # A Mac's GPU shares the memory, and the size of its cache is not reported.
        return outcome.cpu_caches()[0] if self.kind == "cpu" else None


def _named(device: Any) -> str:  # noqa: ANN401  (a torch.device)
    return f"cuda:{device.index or 0}" if device.type == "cuda" else str(device.type)
