"""The processor: its cores, caches, memory nodes, clocks, and the instruction sets that matter for machine learning."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from assay.hardware import apple
from assay.hardware.source import Facts, FactSource, cpu_set, size_of

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


def instructions(source: FactSource, blocks: Sequence[Mapping[str, str]]) -> list[JsonValue]:
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
    relevant = _X86 | _ARM | _OTHER
    return {flag for flag in flags if flag in relevant or flag.startswith(_FAMILIES)}


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
    extensions = {name for name in match[2].split("_") if name.startswith("zv")}
    return frozenset(extensions | ({"rvv"} if "v" in match[1] else set()))


_CPUS = "/sys/devices/system/cpu"
_NODES = "/sys/devices/system/node"
_MODEL = ("model name", "Model", "Hardware", "cpu model", "uarch", "cpu")
_CACHE_TYPES = {"Data": "data", "Instruction": "instruction", "Unified": "unified"}


def cpu(source: FactSource, processors: list[dict[str, str]] | None = None) -> Facts:
    """What is known of the processor; what is not is named in the source's reasons."""
    if source.system == "darwin":
        return apple.cpu(source)
    blocks = cpuinfo(source) if processors is None else processors
    facts: dict[str, JsonValue | None] = {
        "model": model_name(blocks),
        "vendor": _first(blocks, "vendor_id"),
        "parts": cores_by_part(blocks),
        "architecture": source.architecture,
        **_topology(source, blocks),
        "caches": _caches(source),
        "numa": _numa(source),
        "isa": instructions(source, blocks),
        **_scaling(source),
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [], {})}


def clocks_now(source: FactSource) -> Facts:
    """How fast the cores run at this moment, in MHz: the slowest, the fastest and how many tell it."""
    policies = source.names(f"{_CPUS}/cpufreq", r"policy\d+")
    kilohertz = [source.number(f"{_CPUS}/cpufreq/{policy}/scaling_cur_freq") for policy in policies]
    clocks = [value / 1e3 for value in kilohertz if value]
    by = "cpufreq"
    if not clocks:
        by, clocks = "/proc/cpuinfo", [value for block in cpuinfo(source) if (value := _float(block.get("cpu MHz")))]
    if not clocks:
        source.lack("cpu.clocks_now", "neither cpufreq nor /proc/cpuinfo tells how fast the cores run")
        return {}
    return {"slowest_mhz": min(clocks), "fastest_mhz": max(clocks), "told_by": by}


def cpuinfo(source: FactSource) -> list[dict[str, str]]:
    """/proc/cpuinfo as one mapping per paragraph."""
    blocks: list[dict[str, str]] = []
    for paragraph in source.text("/proc/cpuinfo", "cpu.model").split("\n\n"):
        pairs = (line.partition(":") for line in paragraph.splitlines())
        block = {name.strip(): value.strip() for name, colon, value in pairs if colon}
        if block:
            blocks.append(block)
    return blocks


def model_name(blocks: Iterable[Mapping[str, str]]) -> str:
    """The processor's own name; on boards that give their cores none, the board's."""
    listed = list(blocks)
    return next((model for key in _MODEL if (model := _first(listed, key)) and not model.isdecimal()), "")


def governor(source: FactSource) -> str | None:
    """The frequency governor of the first core, where the system shows it."""
    return source.text(f"{_CPUS}/cpu0/cpufreq/scaling_governor") or None


def _topology(source: FactSource, blocks: list[dict[str, str]]) -> dict[str, JsonValue | None]:
    """Threads, cores and sockets as the kernel numbers them, else as /proc/cpuinfo tells."""
    online = _online(source)
    cores: set[frozenset[int]] = set()
    packages: set[int] = set()
    seen: set[int] = set()
    for number in sorted(online):
        if number in seen:
            continue
        siblings = _siblings(source, number)
        package = source.number(f"{_CPUS}/cpu{number}/topology/physical_package_id")
        seen |= siblings
        cores |= {siblings} if siblings else set()
        packages |= {package} if package is not None and package >= 0 else set()
    threads = len(online) or sum("processor" in block for block in blocks)
    if not cores:
        pairs = {(block["physical id"], block["core id"]) for block in blocks if {"physical id", "core id"} <= {*block}}
        counts: dict[str, int | None] = {
            "sockets": len({pair[0] for pair in pairs}) or None,
            "cores": len(pairs) or None,
        }
    else:
        counts = {"sockets": len(packages) or None, "cores": len(cores)}
    counts["threads"] = threads or None
    for fact in (fact for fact, value in counts.items() if not value):
        source.lack(f"cpu.{fact}", f"neither {_CPUS} nor /proc/cpuinfo tells")
    smt = source.text(f"{_CPUS}/smt/active")
    return {**counts, "smt": smt == "1" if smt in ("0", "1") else None}


def _online(source: FactSource) -> frozenset[int]:
    try:
        return cpu_set(source.text(f"{_CPUS}/online"))
    except ValueError:
        return frozenset(int(name[3:]) for name in source.names(_CPUS, r"cpu\d{1,5}"))


def _siblings(source: FactSource, number: int) -> frozenset[int]:
    """The threads of the core of one CPU; newer kernels write them under a clearer name."""
    folder = f"{_CPUS}/cpu{number}/topology"
    return _cpus(source, f"{folder}/core_cpus_list") or _cpus(source, f"{folder}/thread_siblings_list")


def _cpus(source: FactSource, path: str) -> frozenset[int]:
    try:
        return cpu_set(source.text(path))
    except ValueError:
        return frozenset()


def _caches(source: FactSource) -> list[JsonValue]:
    """Each kind of cache: its level, size, how many CPUs share one, and how many there are."""
    counts: Counter[tuple[int, str, int, int]] = Counter()
    covered: dict[str, set[int]] = {}
    kinds: dict[tuple[str, int], tuple[int, str]] = {}
    for number in sorted(_online(source)):
        if covered and all(number in seen for seen in covered.values()):  # known from a sibling
            continue
        for index in source.names(f"{_CPUS}/cpu{number}/cache", r"index\d+"):
            if number in covered.setdefault(index, set()):
                continue
            folder = f"{_CPUS}/cpu{number}/cache/{index}"
            if (size := _size(source, folder)) is None:
                continue
            # Caches of one number and one size are of one kind: of hundreds of cores, two files less for each.
            kind = kinds.get((index, size)) or _kind(source, folder)
            if kind is not None:
                shared = _cpus(source, f"{folder}/shared_cpu_list")
                kinds[index, size] = kind
                covered[index] |= shared
                counts[*kind, size, len(shared)] += 1
    if not counts:
        source.lack("cpu.caches", f"{_CPUS}/cpu*/cache tells of none")
    return [
        {
            "level": level,
            "type": kind,
            "size_bytes": size,
            **({"shared_by": shared, "instances": count} if shared else {}),
        }
        for (level, kind, size, shared), count in sorted(counts.items())
    ]


def _size(source: FactSource, folder: str) -> int | None:
    try:
        return size_of(source.text(f"{folder}/size")) or None
    except ValueError:
        return None


def _kind(source: FactSource, folder: str) -> tuple[int, str] | None:
    level, kind = source.number(f"{folder}/level"), source.text(f"{folder}/type")
    return None if level is None else (level, _CACHE_TYPES.get(kind, kind.lower()))


def _numa(source: FactSource) -> list[JsonValue]:
    """The memory nodes: their CPUs, their memory, and how far each is from the others."""
    nodes: list[JsonValue] = []
    for name in source.names(_NODES, r"node\d+"):
        facts: Facts = {"node": int(name[4:]), "cpus": source.text(f"{_NODES}/{name}/cpulist")}
        for line in source.text(f"{_NODES}/{name}/meminfo").splitlines():
            words = line.split()
            if len(words) >= 4 and words[2] == "MemTotal:" and words[3].isdecimal():
                facts["memory_bytes"] = int(words[3]) * 1024
        distances = source.text(f"{_NODES}/{name}/distance").split()
        if distances and all(word.isdecimal() for word in distances):
            facts["distances"] = [int(word) for word in distances]
        nodes.append(facts)
    if not nodes:
        source.lack("cpu.numa", f"{_NODES} is not there: the kernel reports no memory nodes")
    return nodes


def _scaling(source: FactSource) -> dict[str, JsonValue | None]:
    folder = f"{_CPUS}/cpufreq"
    policies = source.names(folder, r"policy\d+")
    if not policies:
        for fact in ("governor", "driver", "frequency_mhz"):
            source.lack(f"cpu.{fact}", f"{folder} has no policy: the clocks are set elsewhere, such as by a hypervisor")
    bounds: dict[str, JsonValue] = {}
    for name, outermost in (("min", min), ("max", max)):
        readings = [source.number(f"{folder}/{policy}/cpuinfo_{name}_freq") for policy in policies]
        if clocks := [value for value in readings if value]:
            bounds[name] = outermost(clocks) / 1e3
    if policies and (base := source.number(f"{folder}/{policies[0]}/base_frequency")):
        bounds["base"] = base / 1e3
    if policies and not bounds:
        source.lack("cpu.frequency_mhz", f"{folder}/{policies[0]} tells no bounds")
    return {
        "governor": _same(source, policies, "scaling_governor", "cpu.governor"),
        "driver": _same(source, policies[:1], "scaling_driver", "cpu.driver"),
        "frequency_mhz": bounds or None,
        "turbo": _turbo(source, policies),
    }


def _same(source: FactSource, policies: list[str], name: str, fact: str) -> str | None:
    """What all cores say, or all their different answers."""
    values = {source.text(f"{_CPUS}/cpufreq/{policy}/{name}", fact) for policy in policies} - {""}
    if values:
        source.absent.pop(fact, None)
    return ", ".join(sorted(values)) or None


def _turbo(source: FactSource, policies: list[str]) -> bool | None:
    off = source.text(f"{_CPUS}/intel_pstate/no_turbo")
    if off in ("0", "1"):
        return off == "0"
    each = {source.text(f"{_CPUS}/cpufreq/{policy}/boost") for policy in policies} & {"0", "1"}
    switch = source.text(f"{_CPUS}/cpufreq/boost")
    if switch in ("0", "1"):
        return switch == "1"
    if len(each) == 1:
        return each == {"1"}
    source.lack("cpu.turbo", "neither intel_pstate/no_turbo nor cpufreq/boost tells")
    return None


def _first(blocks: Iterable[Mapping[str, str]], key: str) -> str:
    return next((block[key] for block in blocks if block.get(key)), "")


def _float(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
