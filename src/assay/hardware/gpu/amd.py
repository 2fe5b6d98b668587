"""Layers 4 and 5: GPUs of AMD as `amd-smi` and, on older ROCm, `rocm-smi` tell them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.hardware.gpu.record import Gpu, LayerReport, LayerUnavailableError, Run, output, parsed, pci_address

AMD_SMI, ROCM_SMI = "amd-smi", "rocm-smi"
# AMD's tools count in powers of two, whatever they call the unit: 8 GiB less 16 MiB is "8176 MB".
_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}
_GENERATION_OF = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_ABSENT = ("", "N/A", "unknown", "None")


def by_amd_smi(run: Run = output, root: Path = Path("/")) -> LayerReport:
    """All GPUs that amd-smi sees."""
    _need_driver(root)
    static = _by_index(parsed(AMD_SMI, run((AMD_SMI, "static", "--json"))))
    try:
        now = _by_index(parsed(AMD_SMI, run((AMD_SMI, "metric", "--json"))))
        remark = ""
    except LayerUnavailableError as missing:  # what it is stands, what it does right now is missing
        now, remark = {}, f"no readings: {missing}"
    gpus = tuple(_from_amd_smi(index, facts, now.get(index, {})) for index, facts in sorted(static.items()))
    if not gpus:
        raise LayerUnavailableError("amd-smi sees no GPU")
    return LayerReport(gpus, remark)


def by_rocm_smi(run: Run = output, root: Path = Path("/")) -> LayerReport:
    """All GPUs that rocm-smi sees."""
    _need_driver(root)
    options = (
        "--showproductname --showmeminfo vram --showbus --showuniqueid --showdriverversion --showmaxpower --showtemp"
    )
    answer = parsed(ROCM_SMI, run((ROCM_SMI, *options.split(), "--json")))
    if not isinstance(answer, dict):
        raise LayerUnavailableError("rocm-smi does not answer with cards")
    driver = _text(_lowered(answer.get("system")), "driver version")
    gpus = tuple(
        _from_rocm_smi(int(match[1]), _lowered(card), driver)
        for name, card in answer.items()
        if (match := re.fullmatch(r"card(\d+)", name))
    )
    if not gpus:
        raise LayerUnavailableError("rocm-smi sees no GPU")
    return LayerReport(gpus)


def _need_driver(root: Path) -> None:
    """Both programs take a second to report that there is nothing; the kernel knows immediately."""
    if not (root / "sys/module/amdgpu").exists():
        raise LayerUnavailableError("the amdgpu driver is not loaded")


def _by_index(document: Any) -> dict[int, Mapping[str, Any]]:  # noqa: ANN401  (JSON)
    """GPU number → its facts; since ROCm 7 the list stands under `gpu_data`."""
    rows = document.get("gpu_data", []) if isinstance(document, dict) else document
    rows = rows if isinstance(rows, list) else []
    return {row["gpu"]: row for row in rows if isinstance(row, dict) and isinstance(row.get("gpu"), int)}


def _from_amd_smi(index: int, facts: Mapping[str, Any], now: Mapping[str, Any]) -> Gpu:
    asic, bus, limit = _part(facts, "asic"), _part(facts, "bus"), _part(facts, "limit")
    driver = _part(facts, "driver")
    limit_w = _number(limit.get("socket_power"), "W") or _number(_part(limit, "ppt0").get("socket_power_limit"), "W")
    clocks, most = _clocks(_part(now, "clock"))
    temperatures = _part(now, "temperature")
    units = asic.get("num_compute_units")
    return Gpu(
        index=index,
        name=_text(asic, "market_name") or _text(_part(facts, "board"), "product_name") or "GPU without a name",
        vendor="amd",
        layer=AMD_SMI,
        uuid=_serial(_text(asic, "asic_serial")),
        memory_bytes=_bytes(_part(facts, "vram").get("size")),
        driver=_text(driver, "version") or _text(driver, "driver_version"),
        multiprocessors=units if isinstance(units, int) else None,
        pci=pci_address(_text(bus, "bdf") or ""),
        pcie=_pcie(bus, _part(now, "pcie")),
        power_limit_w=limit_w or None,
        clocks_mhz=clocks,
        max_clocks_mhz=most,
        temperature_c=_first_number(temperatures, ("edge", "hotspot"), "C"),
        slowdown_c=_first_number(limit, ("slowdown_edge_temperature", "slowdown_hotspot_temperature"), "C"),
        throttle=_throttle(_part(now, "power")),
        architecture=_text(asic, "target_graphics_version"),
    )


def _from_rocm_smi(index: int, card: Mapping[str, Any], driver: str | None) -> Gpu:
    limit_w = _number(card.get("max graphics package power (w)"), "")
    bytes_ = _number(card.get("vram total memory (b)"), "")
    edge = card.get("temperature (sensor edge) (c)")
    return Gpu(
        index=index,
        name=_text(card, "card series") or _text(card, "device name") or "GPU without a name",
        vendor="amd",
        layer=ROCM_SMI,
        uuid=_serial(_text(card, "unique id")),
        memory_bytes=int(bytes_) if bytes_ else None,
        driver=driver,
        pci=pci_address(_text(card, "pci bus") or ""),
        power_limit_w=limit_w or None,
        temperature_c=_number(edge if edge is not None else card.get("temperature (sensor junction) (c)"), ""),
        architecture=_text(card, "gfx version"),
    )


def _part(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A group of facts; empty where the tool writes `N/A` in its place."""
    part = facts.get(name)
    return part if isinstance(part, dict) else {}


def _lowered(facts: Any) -> dict[str, Any]:  # noqa: ANN401  (JSON)
    """Names in small letters, as versions of rocm-smi write them differently."""
    return {name.lower(): value for name, value in facts.items()} if isinstance(facts, dict) else {}


def _text(facts: Mapping[str, Any], name: str) -> str | None:
    value = facts.get(name)
    return value.strip() if isinstance(value, str) and value.strip() not in _ABSENT else None


def _serial(text: str | None) -> str | None:
    """The board's own number as the kernel writes it, which has no 0x and small letters."""
    return text.lower().removeprefix("0x") if text else None


def _number(value: Any, unit: str) -> float | None:  # noqa: ANN401  (JSON)
    """A number as AMD writes it: `{"value": 750, "unit": "W"}`, `"750 W"`, `"750.0"`, or bare."""
    if isinstance(value, dict):
        value = value.get("value") if value.get("unit") == unit else None
    if isinstance(value, str):
        match = re.fullmatch(rf"(-?\d+(?:\.\d+)?)\s*(?:{re.escape(unit)})?", value.strip())
        value = float(match[1]) if match else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _first_number(facts: Mapping[str, Any], names: tuple[str, ...], unit: str) -> float | None:
    numbers = (_number(facts.get(name), unit) for name in names)
    return next((value for value in numbers if value is not None), None)


def _bytes(size: Any) -> int | None:  # noqa: ANN401  (JSON)
    if not isinstance(size, dict) or size.get("unit") not in _UNITS:
        return None
    value = _number(size, size["unit"])
    return int(value * _UNITS[size["unit"]]) if value else None


def _pcie(bus: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, int]:
    link = {
        "generation": _GENERATION_OF.get(_number(now.get("speed"), "GT/s") or 0.0),
        "width": _number(now.get("width"), ""),
        "max_generation": _GENERATION_OF.get(_number(bus.get("max_pcie_speed"), "GT/s") or 0.0),
        "max_width": _number(bus.get("max_pcie_width"), ""),
    }
    return {word: int(value) for word, value in link.items() if value}


def _clocks(document: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    """Clocks now and at most, of the first part of each kind; newer versions write the names in capitals."""
    groups = _lowered(document)
    now: dict[str, float] = {}
    most: dict[str, float] = {}
    for word, name in (("graphics", "gfx_0"), ("memory", "mem_0")):
        group = _part(groups, name)
        if mhz := _number(group.get("clk"), "MHz"):
            now[word] = mhz
        if mhz := _number(group.get("max_clk"), "MHz"):
            most[word] = mhz
    return now, most


def _throttle(power: Mapping[str, Any]) -> tuple[str, ...] | None:
    state = power.get("throttle_status")
    return {"UNTHROTTLED": (), "THROTTLED": ("throttled, no reason reported",)}.get(str(state))
