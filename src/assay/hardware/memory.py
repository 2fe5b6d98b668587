"""Memory: how much there is, and of which kind its modules are."""

from __future__ import annotations

from collections import Counter

from pydantic import JsonValue

from assay.hardware import apple
from assay.hardware.source import Facts, FactSource, why_not

_ENTRIES = "/sys/firmware/dmi/entries"
_EDAC = "/sys/devices/system/edac/mc"
# From the table of memory types in the SMBIOS standard.
_TYPES = {
    0x12: "DDR", 0x13: "DDR2", 0x14: "DDR2 FB-DIMM", 0x18: "DDR3", 0x1A: "DDR4", 0x1B: "LPDDR", 0x1C: "LPDDR2",
    0x1D: "LPDDR3", 0x1E: "LPDDR4", 0x1F: "persistent", 0x20: "HBM", 0x21: "HBM2", 0x22: "DDR5", 0x23: "LPDDR5",
    0x24: "HBM3",
}  # fmt: skip
_OTHER, _UNKNOWN, _PLAIN_RAM = 0x01, 0x02, 0x07


def memory(source: FactSource) -> Facts:
    """How much memory there is and of which kind, as far as it does not change while the machine runs."""
    if source.system == "darwin":
        return apple.memory(source)
    table = _meminfo(source)
    facts: Facts = {}
    for fact, name in (("total_bytes", "MemTotal"), ("swap_bytes", "SwapTotal")):
        if name in table:
            facts[fact] = table[name]
        else:
            source.lack(f"memory.{fact}", f"/proc/meminfo does not tell {name}")
    if table.get("HugePages_Total"):
        facts["huge_pages"] = {"count": table["HugePages_Total"] // 1024, "size_bytes": table.get("Hugepagesize")}
    if modules := _modules(source) or _by_error_counters(source):
        facts["modules"] = modules
    return facts


def memory_now(source: FactSource) -> Facts:
    """How much memory is free for a new program at this moment."""
    table = _meminfo(source)
    pairs = (("available_bytes", "MemAvailable"), ("swap_free_bytes", "SwapFree"))
    found: Facts = {fact: table[name] for fact, name in pairs if name in table}
    if not found and source.here:  # not a Linux machine
        import psutil

        found = {"available_bytes": psutil.virtual_memory().available, "swap_free_bytes": psutil.swap_memory().free}
    return found


def module(raw: bytes) -> Facts | None:
    """One memory module from its SMBIOS record (type 17); None for an empty slot.

    Raises:
        ValueError: if it is no such record.
    """
    if len(raw) < 0x15 or raw[0] != 17 or not 0x15 <= raw[1] <= len(raw):
        raise ValueError("no SMBIOS record of a memory device")
    record, strings = raw[: raw[1]], raw[raw[1] :].split(b"\0")
    size = _size(record)
    if size == 0:
        return None
    facts: dict[str, JsonValue | None] = {
        "size_bytes": size,
        "type": _type(record[0x12]),
        "speed_mts": _speed(record, 0x20, 0x58),
        "rated_mts": _speed(record, 0x15, 0x54),
        "slot": _string(strings, _number(record, 0x10, 1)),
        "part": _string(strings, _number(record, 0x1A, 1)),
        "maker": _string(strings, _number(record, 0x17, 1)),
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}


def _meminfo(source: FactSource) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in source.text("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isascii() and words[0].isdecimal():
            found[name] = int(words[0]) * 1024
    return found


def _modules(source: FactSource) -> list[JsonValue]:
    """The modules as the firmware's table lists them, equal ones together; only the administrator may read it."""
    entries = source.names(_ENTRIES, r"17-\d+")
    if not entries:
        source.lack("memory.modules", f"{_ENTRIES} has no memory devices")
    found: list[Facts] = []
    for entry in entries:
        path = f"{_ENTRIES}/{entry}/raw"
        try:
            known = module(source.bytes(path))
        except OSError as problem:
            source.lack("memory.modules", why_not(problem, path))
        except ValueError as problem:
            source.lack("memory.modules", f"{path}: {problem}")
        else:
            if known is not None:
                found.append(known)
    if entries and not found:
        source.lack("memory.modules", f"{_ENTRIES} lists empty slots alone")
    if found:
        source.absent.pop("memory.modules", None)
    return _counted(found)


def _by_error_counters(source: FactSource) -> list[JsonValue]:
    """Size and type of each module as the driver of the memory controller tells them; speeds are not told there."""
    found: list[Facts] = []
    for controller in source.names(_EDAC, r"mc\d+"):
        for name in source.names(f"{_EDAC}/{controller}", r"(?:dimm|rank)\d+"):
            folder = f"{_EDAC}/{controller}/{name}"
            size, kind = source.number(f"{folder}/size"), source.text(f"{folder}/dimm_mem_type")
            if size:
                found.append({"size_bytes": size * 2**20, **({"type": kind} if kind else {})})
    if found:
        why = source.absent.pop("memory.modules", "")
        source.lack("memory.speed", f"{why}; the memory controller's driver tells sizes and types alone")
    return _counted(found)


def _counted(modules: list[Facts]) -> list[JsonValue]:
    """Equal modules as one entry with their number."""
    alike: Counter[tuple[tuple[str, JsonValue], ...]] = Counter(
        tuple((name, value) for name, value in one.items() if name != "slot") for one in modules
    )
    return [{"count": count, **dict(pairs)} for pairs, count in alike.items()]


def _size(record: bytes) -> int | None:
    """Bytes of a module; 0 for an empty slot, None where the firmware does not know."""
    size = _number(record, 0x0C, 2)
    if size is None or size == 0xFFFF:
        return None
    if size == 0x7FFF:  # too large for the field: the size stands, in MiB, in a later one
        large = _number(record, 0x1C, 4)
        return None if large is None else (large & 0x7FFF_FFFF) * 2**20
    return (size & 0x7FFF) * (2**10 if size & 0x8000 else 2**20)


def _speed(record: bytes, at: int, extended: int) -> int | None:
    speed = _number(record, at, 2)
    if speed == 0xFFFF:
        speed = _number(record, extended, 4)
    return speed or None


def _type(code: int) -> str | None:
    if code in (_OTHER, _UNKNOWN, _PLAIN_RAM, 0):
        return None
    return _TYPES.get(code, f"type {code:#04x}")


def _number(record: bytes, at: int, width: int) -> int | None:
    """A number of a record; None where the record ends before it: older firmware writes shorter ones."""
    return int.from_bytes(record[at : at + width], "little") if at + width <= len(record) else None


def _string(strings: list[bytes], number: int | None) -> str | None:
    """The text behind a string number, which counts from one; makers fill the place with words for nothing."""
    if not number or number > len(strings):
        return None
    text = strings[number - 1].decode("ascii", "replace").strip()
    return None if text.lower() in ("", "unknown", "not specified", "no dimm", "none") else text
