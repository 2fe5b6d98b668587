"""Metrics made of what a target measured and of telemetry: energy, power, and what both cost.

Nothing is estimated here: a figure whose parts were not read is absent, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from assay.run.records import Energy, MachineTelemetry
from assay.spec.benchmark import Definition, MachinePrice
from assay.spec.target import EndpointTarget

LABELS = "ASSAY_LABELS"
"""The environment variable by which an agent names the labels of its machine: `gpu=h200,site=x`."""
_BOARD = re.compile(r"(gpu:\d+)\.")
# Devices that NVML tells of.
_NVIDIA = ("cuda", "tensorrt")
_OF_GPU = re.compile(r"of GPU (\d+)$")
# Less of the window read than this is not the window's energy; its power is still known.
_WHOLE = 0.95
# The metric that tells how many a second, what a target calls their number, and the names of what is made of it.
_COUNTED = (
    ("throughput_per_s", "items", "energy_per_item_j", "items_per_j", "items_per_cost"),
    ("output_tokens_per_s", "output_tokens", "energy_per_token_j", "tokens_per_j", "tokens_per_cost"),
)


@dataclass(slots=True)
class _Figures:
    metrics: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    facts: dict[str, JsonValue] = field(default_factory=dict)


def derived(
    report_metrics: Mapping[str, float],
    seen: MachineTelemetry | None,
    definition: Definition,
    machine_labels: Mapping[str, str],
    machine: str = "",
    *,
    counted: Mapping[str, JsonValue] | None = None,
) -> tuple[dict[str, float], dict[str, str], dict[str, JsonValue]]:
    """Metrics of a run beside those that its target measured.

    Args:
        counted: `items` and `output_tokens` of the very window that was watched, where the target counted them.

    Returns:
        Metrics, the reasons of those that could not be made, and facts: `energy` and `price`.
    """
    derived = _Figures()
    if seen is not None:
        _utilisation(derived, seen, definition)
        _energy(derived, seen, definition)
        if (power_w := derived.metrics.get("power_w")) is not None:
            # Readings may cover a little less than the window, and the items are those of all of it.
            _per_joule(derived, report_metrics, power_w * _length_s(seen), seen, counted or {})
    if definition.prices:
        _per_price(derived, report_metrics, definition.prices, machine_labels, machine)
    metrics = {name: value for name, value in derived.metrics.items() if name not in report_metrics}
    return metrics, {name: why for name, why in derived.absent.items() if name not in report_metrics}, derived.facts


def labels_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The labels of this machine, as the process that started us names them."""
    pairs = (pair.partition("=") for pair in environ.get(LABELS, "").split(","))
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}


def gpus_used(seen: MachineTelemetry, definition: Definition) -> tuple[str, ...]:
    """The boards that the job computed on: those with a process of it, or, where that is not known, all it may use."""
    boards = dict.fromkeys(match[1] for name in seen.statistics if (match := _BOARD.match(name)))
    counts = {board: seen.statistics.get(f"{board}.job_processes") for board in boards}
    used = tuple(board for board, count in counts.items() if count is not None and count["max"] > 0)
    if used or not _needs_gpu(definition):
        return used
    # A driver that numbers processes otherwise, or a window shorter than the time between two looks at them.
    busy = [board for board in boards if seen.statistics.get(f"{board}.gpu_util_pct", {}).get("max", 0.0) > 0]
    return tuple(busy or boards)


def _needs_gpu(definition: Definition) -> bool:
    device = definition.needs.device or getattr(definition.target, "device", None) or "cpu"
    return device.partition(":")[0] in _NVIDIA


def _utilisation(figures: _Figures, seen: MachineTelemetry, definition: Definition) -> None:
    shares = [
        seen.statistics[series]["mean"]
        for board in gpus_used(seen, definition)
        if (series := f"{board}.gpu_util_pct") in seen.statistics
    ]
    if shares:
        figures.metrics["gpu_util_pct"] = sum(shares) / len(shares)
    elif _needs_gpu(definition):
        figures.absent["gpu_util_pct"] = next(
            (why for what, why in seen.absent.items() if what.partition(":")[0] == "gpu"), "no GPU reported it"
        )


def _energy(figures: _Figures, seen: MachineTelemetry, definition: Definition) -> None:
    """Energy and mean power of the devices that the job used, if all of them were read in one way."""
    parts, reason = _parts(seen, definition)
    if reason:
        figures.absent["energy_j"] = reason
        return
    if len({part.grade for part in parts}) > 1:
        grades = ", ".join(f"{part.source}: {part.grade}" for part in parts)
        figures.absent["energy_j"] = f"figures of different grades do not add up ({grades})"
        return
    watts = sum(reading.watts for reading in parts)
    figures.metrics["power_w"] = watts
    window_s = _length_s(seen)
    covered_s = min(reading.seconds for reading in parts)
    joules = sum(reading.joules for reading in parts)
    if covered_s < _WHOLE * window_s:
        figures.absent["energy_j"] = f"the readings cover {covered_s:.3g} s of the {window_s:.3g} s that were measured"
    else:
        figures.metrics["energy_j"] = joules
    idle = [reading.idle_w for reading in parts if reading.idle_w is not None]
    lows = [reading.low_j for reading in parts if reading.low_j is not None]
    highs = [reading.high_j for reading in parts if reading.high_j is not None]
    figures.facts["energy"] = {
        "grade": parts[0].grade,
        "joules": joules,
        "low_j": sum(lows) if len(lows) == len(parts) else None,
        "high_j": sum(highs) if len(highs) == len(parts) else None,
        "seconds": covered_s,
        "watts": watts,
        "idle_w": sum(idle) if len(idle) == len(parts) else None,
        "sources": [reading.source for reading in parts],
    }


def _parts(seen: MachineTelemetry, definition: Definition) -> tuple[list[Energy], str]:
    """What the job's energy is the sum of, or why that is not known."""
    if isinstance(definition.target, EndpointTarget):
        return [], "the endpoint was not started by this benchmark: what it uses is not seen"
    of_gpus = {f"gpu:{match[1]}": energy for energy in seen.energy if (match := _OF_GPU.search(energy.source))}
    used = gpus_used(seen, definition)
    if unread := [board for board in used if board not in of_gpus]:
        why = seen.absent.get(f"energy:{unread[0]}") or seen.absent.get(unread[0]) or "it was not read"
        return [], f"the job used {unread[0]}, whose energy is not known: {why}"
    if _needs_gpu(definition) and not used:
        return [], seen.absent.get("gpu", "no GPU could be read")
    parts = [energy for energy in seen.energy if energy.scope in ("package", "dram")]
    if not parts and not used:
        # What a board tells for the whole system holds its processor, its memory and perhaps a GPU: never beside them.
        parts = [energy for energy in seen.energy if energy.scope == "system"]
    parts += [of_gpus[board] for board in used]
    if parts:
        return parts, ""
    sources = ("rapl", "energy", "probe")
    reasons = dict.fromkeys(why for what, why in seen.absent.items() if what.partition(":")[0] in sources)
    return [], "; ".join(reasons) or "nothing here tells it"


def _length_s(seen: MachineTelemetry) -> float:
    return (seen.window_ns[1] - seen.window_ns[0]) / 1e9


def _per_joule(
    figures: _Figures,
    metrics: Mapping[str, float],
    joules: float,
    seen: MachineTelemetry,
    counted: Mapping[str, JsonValue],
) -> None:
    """Energy of the window over what was done in it; a rate alone, as a program tells it, is taken for all of it."""
    for rate, number, per_one, per_joule, _ in _COUNTED:
        per_s, count = metrics.get(rate, 0.0), counted.get(number)
        many = float(count) if isinstance(count, int | float) else per_s * _length_s(seen)
        if many > 0 and joules > 0:
            figures.metrics |= {per_one: joules / many, per_joule: many / joules}
        elif rate == "throughput_per_s" or rate in metrics:
            reason = f"{rate} is {per_s:g}" if rate in metrics else f"the target reports no {rate}"
            figures.absent |= {per_one: reason, per_joule: reason}


def _per_price(
    figures: _Figures,
    metrics: Mapping[str, float],
    prices: Mapping[str, MachinePrice],
    labels: Mapping[str, str],
    machine: str,
) -> None:
    matched = _matched(prices, labels, machine)
    if matched is None:
        machine_text = ", ".join([machine, *(f"{name}={value}" for name, value in labels.items())])
        figures.absent["items_per_cost"] = f"no price for this machine ({machine_text}); prices has {', '.join(prices)}"
        return
    price = prices[matched]
    figures.facts["price"] = {
        "per_hour": price.per_hour,
        "currency": price.currency,
        "date": price.date,
        "matched": matched,
        "grade": "estimated",
    }
    for rate, *_, per_cost in _COUNTED:
        if metrics.get(rate, 0.0) > 0:
            figures.metrics[per_cost] = metrics[rate] * 3600 / price.per_hour
        elif rate == "throughput_per_s":
            figures.absent[per_cost] = f"the target reports no {rate}"


def _matched(prices: Collection[str], labels: Mapping[str, str], machine: str) -> str | None:
    """The entry that speaks of this machine: its name first, then a label of it, then `*`."""
    mine = [machine, labels.get("name", ""), *(f"{name}={value}" for name, value in labels.items()), "*"]
    return next((name for name in mine if name and name in prices), None)
