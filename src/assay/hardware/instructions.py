"""Instruction sets that matter for machine learning, and the cores behind ARM's part numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from assay.hardware.reading import Source

# By the names that the kernel writes, so that they can be looked up; vectors, matrices and short number formats.
_X86 = frozenset((
    "sse4_1", "sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx_vnni_int8", "avx_vnni_int16",
    "avx_ifma", "avx_ne_convert",
))  # fmt: skip
_ARM = frozenset((
    "neon", "asimd", "asimdhp", "asimddp", "asimdfhm", "fphp", "fcma", "i8mm", "bf16", "sve", "sve2",
    "svei8mm", "svebf16", "sve2p1", "f8cvt", "f8fma", "f8dp4", "sme", "sme2", "sme2p1", "smei8i32",
    "smef16f32", "smeb16f32",
))  # fmt: skip
_OTHER = frozenset(["altivec", "vsx", "vx", "vxe", "vxe2", "lsx", "lasx"])
_FAMILIES = ("avx512", "amx_")
_RISC_V = re.compile(r"rv(?:32|64|128)([a-z]*)((?:_[a-z0-9]+)*)")

# Part numbers of ARM's own register, as ARM's manuals list them. One that is not here keeps its number.
_PARTS = {
    "0x41": {
        "0xd03": "Cortex-A53", "0xd04": "Cortex-A35", "0xd05": "Cortex-A55", "0xd07": "Cortex-A57",
        "0xd08": "Cortex-A72", "0xd09": "Cortex-A73", "0xd0a": "Cortex-A75", "0xd0b": "Cortex-A76",
        "0xd0c": "Neoverse-N1", "0xd0d": "Cortex-A77", "0xd40": "Neoverse-V1", "0xd41": "Cortex-A78",
        "0xd42": "Cortex-A78AE", "0xd44": "Cortex-X1", "0xd46": "Cortex-A510", "0xd47": "Cortex-A710",
        "0xd48": "Cortex-X2", "0xd49": "Neoverse-N2", "0xd4a": "Neoverse-E1", "0xd4b": "Cortex-A78C",
        "0xd4d": "Cortex-A715", "0xd4e": "Cortex-X3", "0xd4f": "Neoverse-V2", "0xd80": "Cortex-A520",
        "0xd81": "Cortex-A720", "0xd82": "Cortex-X4",
    },
}  # fmt: skip


def instructions(source: Source, blocks: Sequence[Mapping[str, str]]) -> list[JsonValue]:
    """The instruction sets that every core has, sorted; from /proc/cpuinfo."""
    lines = {line for block in blocks if (line := block.get("flags") or block.get("Features"))}
    if lines:
        common = frozenset.intersection(*(frozenset(line.split()) for line in lines))
        return [*sorted(chosen(common))]
    extensions = {line for block in blocks if (line := block.get("isa"))}
    if extensions:
        return [*sorted(frozenset.intersection(*(_risc_v(line) for line in extensions)))]
    source.lack("cpu.isa", "/proc/cpuinfo names no instruction sets")
    return []


def has_flag(blocks: Iterable[Mapping[str, str]], flag: str) -> bool:
    """Whether the first core that tells its flags has one."""
    line = next((line for block in blocks if (line := block.get("flags") or block.get("Features"))), "")
    return flag in line.split()


def chosen(flags: Iterable[str]) -> set[str]:
    """Those of the kernel's flags that matter here."""
    known = _X86 | _ARM | _OTHER
    return {flag for flag in flags if flag in known or flag.startswith(_FAMILIES)}


def cores_by_part(blocks: Iterable[Mapping[str, str]]) -> dict[str, JsonValue]:
    """How many cores of each ARM part there are, by its name where ARM lists it, else by its numbers."""
    counts: Counter[str] = Counter()
    for block in blocks:
        implementer, part = block.get("CPU implementer"), block.get("CPU part")
        if implementer and part:
            name = _PARTS.get(implementer, {}).get(part)
            counts[name or f"implementer {implementer}, part {part}"] += 1
    return {**counts}


def _risc_v(line: str) -> frozenset[str]:
    """Vector extensions of a RISC-V line such as `rv64imafdcv_zicbom_zvfh`."""
    match = _RISC_V.fullmatch(line.strip().lower())
    if match is None:
        return frozenset()
    found = {name for name in match[2].split("_") if name.startswith("zv")}
    return frozenset(found | ({"rvv"} if "v" in match[1] else set()))
