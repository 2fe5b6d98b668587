"""What a compute capability of NVIDIA stands for: published tables, and nothing for a number that is not in them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a GPU can do, as far as its compute capability tells."""

    architecture: str | None = None
    tensor_cores: int | None = None
    """Generation; 0 where it has none, None where that is not known."""
    precisions: tuple[str, ...] = ()
    cores_per_multiprocessor: int | None = None
    note: str = ""


# Architecture, FP32 cores in each multiprocessor, generation of the tensor cores (0: none, None: cannot be told).
_KNOWN: dict[str, tuple[str, int, int | None]] = {
    "3.0": ("Kepler", 192, 0),
    "3.2": ("Kepler", 192, 0),
    "3.5": ("Kepler", 192, 0),
    "3.7": ("Kepler", 192, 0),
    "5.0": ("Maxwell", 128, 0),
    "5.2": ("Maxwell", 128, 0),
    "5.3": ("Maxwell", 128, 0),
    "6.0": ("Pascal", 64, 0),
    "6.1": ("Pascal", 128, 0),
    "6.2": ("Pascal", 128, 0),
    "7.0": ("Volta", 64, 1),
    "7.2": ("Volta", 64, 1),
    "7.5": ("Turing", 64, None),
    "8.0": ("Ampere", 64, 3),
    "8.6": ("Ampere", 128, 3),
    "8.7": ("Ampere", 128, 3),
    "8.9": ("Ada", 128, 4),
    "9.0": ("Hopper", 128, 4),
    "10.0": ("Blackwell", 128, 5),
    "10.1": ("Blackwell", 128, 5),
    "10.3": ("Blackwell", 128, 5),
    "11.0": ("Blackwell", 128, 5),
    "12.0": ("Blackwell", 128, 5),
    "12.1": ("Blackwell", 128, 5),
}
# Precision → the first capability with instructions for it.
_PRECISIONS: dict[str, tuple[int, int]] = {
    "fp64": (1, 3),
    "fp32": (1, 0),
    "tf32": (8, 0),
    "fp16": (5, 3),
    "bf16": (8, 0),
    "int8": (6, 1),
    "fp8": (8, 9),
    "fp4": (10, 0),
}
# TU102, TU104 and TU106 have tensor cores; TU116 and TU117 have none and run the same instructions elsewhere. No
# function of CUDA or NVML tells them apart, device numbers are mixed, and names are not asked.
_TURING = (
    "capability 7.5 stands for boards with tensor cores of the 2nd generation and for boards without any; "
    "nothing but a measurement tells which"
)


def abilities(capability: str | None) -> Abilities:
    """What this compute capability stands for; empty, with the reason, where it is not a known one."""
    if capability is None:
        return Abilities()
    if capability not in _KNOWN:
        return Abilities(
            note=f"compute capability {capability} is not a known one: "
            "its architecture, tensor cores and precisions are left out"
        )
    architecture, cores, tensor_cores = _KNOWN[capability]
    major, _, minor = capability.partition(".")
    number = (int(major), int(minor))
    return Abilities(
        architecture=architecture,
        tensor_cores=tensor_cores,
        precisions=tuple(name for name, first in _PRECISIONS.items() if number >= first),
        cores_per_multiprocessor=cores,
        note=_TURING if capability == "7.5" else "",
    )


def multiprocessors(cores: int | None, capability: str | None) -> int | None:
    """How many multiprocessors so many cores make; None unless the capability is known and they divide evenly."""
    each = abilities(capability).cores_per_multiprocessor
    if not cores or each is None or cores % each:
        return None
    return cores // each
