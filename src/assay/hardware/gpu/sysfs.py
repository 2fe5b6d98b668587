"""Layer 6: GPUs as the kernel shows them under /sys and /proc, of any maker and without installed software."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from assay.hardware.gpu.record import Gpu, LayerReport, LayerUnavailableError, pci_address
from assay.hardware.source import number_of, text_of

SYSFS = "sysfs"
_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel", "0x106b": "apple"}
_SOC_VENDORS = {"brcm": "broadcom", "arm": "arm", "qcom": "qualcomm", "img": "imagination", "apple": "apple",
                "nvidia": "nvidia", "vivante": "vivante"}  # fmt: skip
# Adapters that show a picture and compute nothing: server boards' consoles and virtual machines' screens.
_ONLY_PICTURES = {
    "0x1013": "Cirrus Logic", "0x102b": "Matrox", "0x1234": "QEMU", "0x1414": "Hyper-V", "0x15ad": "VMware",
    "0x1a03": "ASPEED", "0x1af4": "virtio", "0x1b36": "QEMU", "0x80ee": "VirtualBox",
}  # fmt: skip
_PCI_NAMES = ("usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids", "var/lib/pciutils/pci.ids")
_GENERATION_OF = {"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "16": 4, "32.0": 5, "32": 5, "64.0": 6}


def by_sysfs(root: Path = Path("/")) -> LayerReport:
    """All GPUs that the kernel shows."""
    cards, pci = root / "sys/class/drm", root / "sys/bus/pci/devices"
    if not cards.is_dir() and not pci.is_dir():
        raise LayerUnavailableError("neither /sys/class/drm nor /sys/bus/pci can be read here")
    devices, left_out = _devices(cards, pci)
    gpus = tuple(_gpu(root, index, device, device.card) for index, device in enumerate(devices))
    remark = f"left out, as they only show a picture: {', '.join(left_out)}" if left_out else ""
    if not gpus:
        raise LayerUnavailableError("; ".join(filter(None, ("the kernel shows no GPU", remark))))
    return LayerReport(gpus, remark)


class _Device:
    """A device's folder, and the folder of its card where it has one."""

    def __init__(self, folder: Path, card: Path | None) -> None:
        self.folder, self.card = folder, card
        self.event = dict(line.partition("=")[::2] for line in text_of(folder / "uevent").splitlines())
        self.pci = pci_address(self.event.get("PCI_SLOT_NAME", "") or folder.name)
        self.vendor = text_of(folder / "vendor")

    @property
    def driver(self) -> str:
        link = self.folder / "driver"
        return self.event.get("DRIVER", "") or (link.resolve().name if link.exists() else "")


def _devices(cards: Path, pci: Path) -> tuple[list[_Device], list[str]]:
    """GPUs on the PCI bus in its order, then those on the chip; and the names of what only shows a picture."""
    on_bus: dict[str, _Device] = {}
    on_chip: list[_Device] = []
    for card in sorted(cards.glob("card[0-9]*")) if cards.is_dir() else ():
        if "-" in card.name:  # a connector of it
            continue
        device = _Device(card / "device", card)
        if device.pci is not None:
            on_bus[device.pci] = device
        elif any((device.folder / "drm").glob("renderD*")):  # on a chip the part that drives the screen is a card, too
            on_chip.append(device)
    for folder in sorted(pci.iterdir()) if pci.is_dir() else ():
        if folder.name not in on_bus and _is_gpu(folder):
            on_bus[folder.name] = _Device(folder, None)
    pictures = [_ONLY_PICTURES[board.vendor] for board in on_bus.values() if board.vendor in _ONLY_PICTURES]
    computing = [on_bus[name] for name in sorted(on_bus) if on_bus[name].vendor not in _ONLY_PICTURES]
    return computing + on_chip, pictures


def _is_gpu(folder: Path) -> bool:
    """Whether a device on the bus is a display controller, or of the class in which AMD has its accelerators."""
    kind = text_of(folder / "class")
    return kind.startswith("0x03") or (kind.startswith("0x12") and text_of(folder / "vendor") == "0x1002")


def _gpu(root: Path, index: int, device: _Device, card: Path | None) -> Gpu:
    compatible = device.event.get("OF_COMPATIBLE_0", "")
    maker = _VENDORS.get(device.vendor) or _SOC_VENDORS.get(compatible.partition(",")[0]) or device.vendor or "unknown"
    nvidia = _nvidia(root, device.pci) if maker == "nvidia" else {}
    clocks, most = _clocks(device.folder, card)
    memory, limit_uw = number_of(device.folder / "mem_info_vram_total"), _hwmon(device.folder, "power1_cap")
    celsius, slow = _hwmon(device.folder, "temp1_input"), _hwmon(device.folder, "temp1_crit")
    model = nvidia.get("Model") or text_of(device.folder / "product_name") or compatible
    return Gpu(
        index=index,
        name=model or _name(root, device.vendor, text_of(device.folder / "device")),
        vendor=maker,
        layer=SYSFS,
        uuid=nvidia.get("GPU UUID") or text_of(device.folder / "unique_id") or None,
        memory_bytes=memory or None,
        driver=text_of(root / "sys/module" / device.driver / "version") or device.driver or None,
        pci=device.pci,
        pcie=_pcie(device.folder),
        power_limit_w=limit_uw / 1e6 if limit_uw else None,
        clocks_mhz=clocks,
        max_clocks_mhz=most,
        temperature_c=None if celsius is None else celsius / 1e3,
        slowdown_c=slow / 1e3 if slow else None,
        note="" if device.driver else "no driver of the kernel is bound to it",
    )


def _nvidia(root: Path, pci: str | None) -> dict[str, str]:
    """What NVIDIA's driver writes about a GPU under /proc."""
    text = text_of(root / "proc/driver/nvidia/gpus" / (pci or "none") / "information")
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs if "?" not in value}


def _name(root: Path, vendor: str, device: str) -> str:
    """The name that the system's list of PCI numbers has for a device, or the numbers."""
    for path in _PCI_NAMES:
        names = text_of(root / path)
        start = names.find(f"\n{vendor.removeprefix('0x')}  ")
        # A maker's devices stand below it, each behind a tab.
        match = re.compile(r"\n[^\t#][^\n]*((?:\n\t[^\n]*|\n#[^\n]*)*)").match(names, start) if start >= 0 else None
        named = re.search(rf"^\t{device.removeprefix('0x')}  (.+)$", match[1], re.MULTILINE) if match else None
        if named:
            return named[1].strip()
    return f"PCI device {vendor.removeprefix('0x')}:{device.removeprefix('0x')}"


def _pcie(folder: Path) -> dict[str, int]:
    link = {
        "generation": _GENERATION_OF.get(text_of(folder / "current_link_speed").partition(" ")[0]),
        "width": number_of(folder / "current_link_width"),
        "max_generation": _GENERATION_OF.get(text_of(folder / "max_link_speed").partition(" ")[0]),
        "max_width": number_of(folder / "max_link_width"),
    }
    # A link of a GPU on the chip itself reads as 255 lanes or none.
    return {word: value for word, value in link.items() if value and value < 255}


def _clocks(folder: Path, card: Path | None) -> tuple[dict[str, float], dict[str, float]]:
    """Clocks now and at most: amdgpu's tables of levels, or i915's and xe's own files."""
    now: dict[str, float] = {}
    most: dict[str, float] = {}
    for word, name in (("graphics", "pp_dpm_sclk"), ("memory", "pp_dpm_mclk")):
        levels = re.findall(r"^\w+:\s*(\d+)Mhz\s*(\*?)", text_of(folder / name), re.MULTILINE)
        most |= {word: max(float(mhz) for mhz, _ in levels)} if levels else {}
        for mhz in (mhz for mhz, star in levels if star):
            now[word] = float(mhz)
    places = [(card, "gt_act_freq_mhz", "gt_max_freq_mhz")] if card else []
    places.append((folder / "tile0/gt0/freq0", "act_freq", "max_freq"))
    for place, acting, highest in places:
        for clocks, file in ((now, acting), (most, highest)):
            if mhz := number_of(place / file):  # a GPU that sleeps has no clock
                clocks["graphics"] = float(mhz)
    return now, most


def _hwmon(folder: Path, file: str) -> int | None:
    paths: Iterable[Path] = (folder / "hwmon").glob(f"hwmon*/{file}")
    return next((value for path in sorted(paths) if (value := number_of(path)) is not None), None)
