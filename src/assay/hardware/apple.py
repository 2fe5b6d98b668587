"""A Mac: its processor and memory through `sysctl`, its GPUs through `system_profiler`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from assay.hardware.gpu.record import Gpu, LayerReport, LayerUnavailableError, Run, output, parsed
from assay.hardware.source import Facts, FactSource

if TYPE_CHECKING:
    from pydantic import JsonValue

_NAMES = ("hw", "machdep.cpu", "kern.osproductversion", "kern.osrelease", "kern.hv_vmm_present", "vm.swapusage")
# Apple's names, by those that Linux gives the same instructions.
_ARM = {
    "AdvSIMD": "asimd", "neon": "neon", "FEAT_FP16": "asimdhp", "FEAT_DotProd": "asimddp", "FEAT_FHM": "asimdfhm",
    "FEAT_I8MM": "i8mm", "FEAT_BF16": "bf16", "FEAT_SME": "sme", "FEAT_SME2": "sme2",
}  # fmt: skip
_X86 = {"SSE4.1": "sse4_1", "SSE4.2": "sse4_2", "AVX1.0": "avx", "AVX2": "avx2", "FMA": "fma", "F16C": "f16c"}


def settings(source: FactSource) -> dict[str, str]:
    """What `sysctl` tells, by name; a name that this system has not is left out."""
    return {
        name.strip(): value.strip()
        for name, colon, value in (line.partition(":") for line in _answer(source).splitlines())
        if colon and value.strip()
    }


def cpu(source: FactSource) -> Facts:
    sysctl = settings(source)
    facts: dict[str, JsonValue | None] = {
        "model": sysctl.get("machdep.cpu.brand_string"),
        "architecture": source.architecture,
        "sockets": _number(sysctl, "hw.packages"),
        "cores": _number(sysctl, "hw.physicalcpu"),
        "threads": _number(sysctl, "hw.logicalcpu"),
        "kinds": _kinds(sysctl),
        "caches": _caches(sysctl),
        "isa": _isa(sysctl),
    }
    if (fastest := _number(sysctl, "hw.cpufrequency_max")) and (slowest := _number(sysctl, "hw.cpufrequency_min")):
        facts["frequency_mhz"] = {"min": slowest / 1e6, "max": fastest / 1e6}
    else:
        source.lack("cpu.frequency_mhz", "macOS does not report the clocks of this processor")
    for fact in ("governor", "driver", "turbo", "numa"):
        source.lack(f"cpu.{fact}", "macOS does not report it")
    present: Facts = {name: value for name, value in facts.items() if value not in (None, "", [], {})}
    for fact in facts.keys() - present.keys():
        source.lack(f"cpu.{fact}", "sysctl does not report it")
    return present


def memory(source: FactSource) -> Facts:
    sysctl = settings(source)
    facts: Facts = {}
    if total := _number(sysctl, "hw.memsize"):
        facts["total_bytes"] = total
    else:
        source.lack("memory.total_bytes", "sysctl has no hw.memsize")
    source.lack("memory.modules", "macOS tells speed and type of its memory to no program that must be quick")
    return facts


def _answer(source: FactSource) -> str:
    # One name that is unknown makes the command fail though it answers the rest, so the words are tried in turn.
    every = source.command("sysctl", *_NAMES)
    return every or "\n".join(source.command("sysctl", name, fact=f"sysctl.{name}") for name in _NAMES)


def _kinds(values: dict[str, str]) -> list[JsonValue]:
    """The kinds of cores, fast ones first."""
    kinds: list[JsonValue] = []
    for level in range(_number(values, "hw.nperflevels") or 0):
        name, cores = values.get(f"hw.perflevel{level}.name"), _number(values, f"hw.perflevel{level}.physicalcpu")
        if cores:
            kinds.append({"name": name or f"level {level}", "cores": cores})
    return kinds


def _caches(values: dict[str, str]) -> list[JsonValue]:
    """Caches of each kind of core; of the whole processor where there is one kind alone."""
    caches: list[JsonValue] = []
    levels = [f"hw.perflevel{level}" for level in range(_number(values, "hw.nperflevels") or 0)] or ["hw"]
    for prefix in levels:
        cores = _number(values, f"{prefix}.physicalcpu")
        for level, kind, name, sharing in (
            (1, "data", "l1dcachesize", None),
            (1, "instruction", "l1icachesize", None),
            (2, "unified", "l2cachesize", "cpusperl2"),
            (3, "unified", "l3cachesize", "cpusperl3"),
        ):
            if not (size := _number(values, f"{prefix}.{name}")):
                continue
            shared = 1 if sharing is None else _number(values, f"{prefix}.{sharing}")
            fact: Facts = {"level": level, "type": kind, "size_bytes": size}
            if shared and cores:
                fact |= {"shared_by": shared, "instances": -(-cores // shared)}
            caches.append(fact)
    return caches


def _isa(values: dict[str, str]) -> list[JsonValue]:
    arm = {
        linux
        for name, linux in _ARM.items()
        if "1" in (values.get(f"hw.optional.{name}"), values.get(f"hw.optional.arm.{name}"))
    }
    words = f"{values.get('machdep.cpu.features', '')} {values.get('machdep.cpu.leaf7_features', '')}".split()
    wide = {word.lower() for word in words if word.startswith("AVX512")}
    return [*sorted(arm | wide | {_X86[word] for word in words if word in _X86})]


def _number(values: dict[str, str], name: str) -> int | None:
    value = values.get(name, "")
    return int(value) if value.isascii() and value.isdecimal() else None


SYSTEM_PROFILER = "system_profiler"
_VENDORS = {"apple": "apple", "amd": "amd", "0x1002": "amd", "intel": "intel", "0x8086": "intel", "nvidia": "nvidia"}


def by_system_profiler(run: Run = output) -> LayerReport:
    """All GPUs that macOS lists."""
    profile = parsed(SYSTEM_PROFILER, run(("system_profiler", "SPDisplaysDataType", "-json")))
    rows = profile.get("SPDisplaysDataType") if isinstance(profile, dict) else None
    cards = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if not cards:
        raise LayerUnavailableError("system_profiler lists no GPU")
    return LayerReport(tuple(_gpu(index, card) for index, card in enumerate(cards)))


def _gpu(index: int, card: dict[str, Any]) -> Gpu:
    cores = str(card.get("sppci_cores", ""))
    vendor = str(card.get("spdisplays_vendor", "")).lower()
    return Gpu(
        index=index,
        name=str(card.get("sppci_model") or card.get("_name") or "GPU without a name"),
        vendor=next((word for part, word in _VENDORS.items() if part in vendor), vendor or "unknown"),
        layer=SYSTEM_PROFILER,
        # Only a card of its own has memory of its own; what `spdisplays_vram_shared` tells is the machine's.
        memory_bytes=_bytes(str(card.get("spdisplays_vram", ""))),
        multiprocessors=int(cores) if cores.isdigit() else None,
        note="" if card.get("spdisplays_vram") else "it shares the machine's memory",
    )


def _bytes(text: str) -> int | None:
    match = re.fullmatch(r"(\d+) (MB|GB)", text)
    return int(match[1]) * {"MB": 2**20, "GB": 2**30}[match[2]] if match else None
