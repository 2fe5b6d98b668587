"""How warm the machine is, and how far from the temperature at which it slows down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from assay.hardware.fitness.sysfs import number_of, text_of

# Trip points at which the kernel begins to slow the machine down or ends it; `active` ones only start a fan.
_TRIPS = ("passive", "hot", "critical")
# What is outside is no temperature of a machine that runs: sensors that are off say −274 or 65,261 °C.
_COLDEST_C, _HOTTEST_C = -40.0, 150.0


@dataclass(frozen=True, slots=True)
class Sensor:
    """One temperature, with the one that must not be reached where it is told."""

    name: str
    celsius: float
    limit_c: float | None = None
    limit: str = ""
    """What happens there: `passive`, `hot`, `critical`."""

    @property
    def headroom_c(self) -> float | None:
        """Distance to the limit."""
        return None if self.limit_c is None else self.limit_c - self.celsius


def heat(root: Path) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """The hottest sensor and the one nearest to its limit.

    Returns:
        What was read, and for what was not, the reason.
    """
    sensors = [*_zones(root), *_chips(root)]
    if not sensors:
        return {}, {"temperature": "the system shows no temperature sensor"}
    hottest = max(sensors, key=lambda one: one.celsius)
    facts: dict[str, JsonValue] = {"sensors": len(sensors), "hottest": _told(hottest)}
    limited = [(room, one) for one in sensors if (room := one.headroom_c) is not None]
    if not limited:
        return facts, {"thermal headroom": "no sensor tells at which temperature the machine slows down"}
    return {**facts, "nearest": _told(min(limited, key=lambda pair: pair[0])[1])}, {}


def _told(sensor: Sensor) -> dict[str, JsonValue]:
    facts: dict[str, JsonValue] = {"sensor": sensor.name, "celsius": sensor.celsius}
    if sensor.limit_c is not None and sensor.headroom_c is not None:
        room = round(sensor.headroom_c, 3)
        facts |= {"limit_c": sensor.limit_c, "limit": sensor.limit, "headroom_c": room}
    return facts


def _zones(root: Path) -> Iterator[Sensor]:
    """The thermal zones that the kernel itself acts on."""
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone[0-9]*")):
        celsius = _celsius(zone / "temp")
        if celsius is None or text_of(zone / "mode") == "disabled":
            continue
        trips = [
            (limit, kind)
            for path in zone.glob("trip_point_*_type")
            if (kind := text_of(path)) in _TRIPS
            and (limit := _limit(zone / path.name.replace("_type", "_temp"))) is not None
        ]
        name = text_of(zone / "type") or zone.name
        yield Sensor(name, celsius, *min(trips)) if trips else Sensor(name, celsius)


def _chips(root: Path) -> Iterator[Sensor]:
    """Sensors of chips, such as coretemp and k10temp of processors; `max` is left out, since it only starts a fan."""
    for chip in sorted((root / "sys/class/hwmon").glob("hwmon[0-9]*")):
        name = text_of(chip / "name") or chip.name
        for path in sorted(chip.glob("temp[0-9]*_input")):
            celsius = _celsius(path)
            if celsius is None:
                continue
            stem = path.name.removesuffix("_input")
            label = text_of(chip / f"{stem}_label")
            limit = _limit(chip / f"{stem}_crit")
            whole = f"{name} {label}".rstrip()
            yield Sensor(whole, celsius, limit, "critical") if limit is not None else Sensor(whole, celsius)


def _celsius(path: Path) -> float | None:
    value = number_of(path)
    celsius = None if value is None else value / 1e3
    return celsius if celsius is not None and _COLDEST_C <= celsius <= _HOTTEST_C else None


def _limit(path: Path) -> float | None:
    """A limit that somebody set: zero and what no chip survives are fillers."""
    celsius = _celsius(path)
    return celsius if celsius is not None and celsius > 0 else None
