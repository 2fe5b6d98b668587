"""GPUs of a Mac, as `system_profiler` tells them."""

from __future__ import annotations

import re
from typing import Any

from assay.hardware.gpu.asking import Answer, Run, Unanswered, output, parsed
from assay.hardware.gpu.record import Gpu

LAYER = "system_profiler"
_VENDORS = {"apple": "apple", "amd": "amd", "0x1002": "amd", "intel": "intel", "0x8086": "intel", "nvidia": "nvidia"}


def by_system_profiler(run: Run = output) -> Answer:
    """All GPUs that macOS lists.

    Raises:
        Unanswered: it lists none, or cannot be asked.
    """
    told = parsed(LAYER, run(("system_profiler", "SPDisplaysDataType", "-json")))
    rows = told.get("SPDisplaysDataType") if isinstance(told, dict) else None
    cards = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if not cards:
        raise Unanswered("system_profiler lists no GPU")
    return Answer(tuple(_gpu(index, card) for index, card in enumerate(cards)))


def _gpu(index: int, card: dict[str, Any]) -> Gpu:
    cores = str(card.get("sppci_cores", ""))
    vendor = str(card.get("spdisplays_vendor", "")).lower()
    return Gpu(
        index=index,
        name=str(card.get("sppci_model") or card.get("_name") or "GPU without a name"),
        vendor=next((word for part, word in _VENDORS.items() if part in vendor), vendor or "unknown"),
        layer=LAYER,
        # Only a card of its own has memory of its own; what `spdisplays_vram_shared` tells is the machine's.
        memory_bytes=_bytes(str(card.get("spdisplays_vram", ""))),
        multiprocessors=int(cores) if cores.isdigit() else None,
        note="" if card.get("spdisplays_vram") else "it shares the machine's memory",
    )


def _bytes(text: str) -> int | None:
    match = re.fullmatch(r"(\d+) (MB|GB)", text)
    return int(match[1]) * {"MB": 2**20, "GB": 2**30}[match[2]] if match else None
