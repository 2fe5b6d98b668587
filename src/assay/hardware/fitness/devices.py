"""Which devices a job occupies, under names that every process of this machine gives them alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from assay.place.needs import device_of
from assay.plan.job import Job
from assay.spec.devices import split_index
from assay.spec.target import CommandTarget, DeviceTarget, ModelTarget

if TYPE_CHECKING:
    from assay.hardware.gpu.record import Gpu

CPU = "cpu"
# Through whichever of these a job reaches it, the chip is one.
_APPLE = {
    "mps": ("apple-gpu",),
    "coreml-gpu": ("apple-gpu",),
    "coreml-ane": ("apple-ane",),
    "coreml": ("apple-ane", "apple-gpu"),
}
_VISIBLE = {"nvidia": ("CUDA_VISIBLE_DEVICES",), "amd": ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")}


def _local() -> Sequence[Gpu]:
    from assay.hardware.gpu.detect import local_gpus  # here, as most jobs ask for no GPU

    return local_gpus().gpus


def occupied(
    job: Job, *, gpus: Callable[[], Sequence[Gpu]] = _local, environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The devices that nobody else may use while a job is measured, sorted.

    A model, or a device measured for itself, occupies that device alone. A program, a service or a client takes
    the processor, and as many GPUs as their needs name.

    Args:
        environment: variables of the job's processes; those of this process by default.
    """
    known = os.environ if environment is None else environment
    definition, target = job.definition, job.definition.target
    device = device_of(job)
    found = set(_of_device(device, gpus, known)) if device else set()
    if definition.services or not isinstance(target, ModelTarget | DeviceTarget):
        found.add(CPU)
    own = target.env if isinstance(target, CommandTarget) else {}
    wanted = [(definition.needs.gpus, own), *((one.needs.gpus, one.env) for one in definition.services.values())]
    return tuple(sorted(found | _by_number(wanted, gpus, known)))


def _of_device(device: str, gpus: Callable[[], Sequence[Gpu]], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names of one device, such as `cuda:1`: usually one."""
    kind, index = split_index(device)
    if kind in (CPU, "openvino"):
        return (CPU,)
    if kind in _APPLE:
        return _APPLE[kind]
    if kind not in ("cuda", "tensorrt"):
        return (f"{kind}-{index}",)
    boards = gpus()
    seen = visible(boards, environment)
    if not _order_is_known(boards, environment):
        return tuple(seen)  # which of them has this number only the runtime knows
    return (seen[index],) if index < len(seen) else (f"cuda-{index}",)


def _by_number(
    wanted: Sequence[tuple[int | None, Mapping[str, str]]],
    gpus: Callable[[], Sequence[Gpu]],
    environment: Mapping[str, str],
) -> set[str]:
    """The first GPUs that each part of a job sees, as many as it asks for.

    Parts that see the same ones are counted together: none of them is told to keep off the others'.
    """
    asked: dict[tuple[str, ...], int] = {}
    for number, own in wanted:
        if number:
            seen = visible(gpus(), {**environment, **own})
            asked[seen] = asked.get(seen, 0) + number
    return {name for seen, number in asked.items() for name in seen[:number]}


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the GPUs that a process with these variables sees, in its order.

    As CUDA does: an entry that names no GPU hides itself and all after it.
    """
    vendor = next((name for name in _VISIBLE if any(gpu.vendor == name for gpu in gpus)), "")
    boards = [gpu for gpu in gpus if gpu.vendor == vendor]
    text = next((environment[name] for name in _VISIBLE.get(vendor, ()) if name in environment), None)
    if text is None:
        return tuple(map(name_of, boards))
    names: list[str] = []
    for word in text.split(","):
        name = _named(word.strip(), boards)
        if not name:
            break
        names.append(name)
    return tuple(names)


def name_of(gpu: Gpu) -> str:
    """What every process calls a GPU: its UUID, else its place in the machine."""
    return gpu.uuid or gpu.pci or f"{gpu.vendor}-{gpu.index}"


def _named(word: str, boards: Sequence[Gpu]) -> str:
    """The GPU that an entry of CUDA_VISIBLE_DEVICES names; empty for none."""
    if word.startswith("MIG-"):
        return word  # a part of a board is a device of its own
    if word.isdigit():
        return next((name_of(gpu) for gpu in boards if gpu.index == int(word)), "")
    return next((name_of(gpu) for gpu in boards if word and gpu.uuid and gpu.uuid.startswith(word)), "")


def _order_is_known(boards: Sequence[Gpu], environment: Mapping[str, str]) -> bool:
    """Whether numbers mean the same to CUDA and to us: it counts the fastest first, we count along the bus."""
    alike = len({gpu.name for gpu in boards}) <= 1
    return alike or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
