"""What each condition is good for, and what makes it so: commands for a person to read, never run from here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

State = Mapping[str, JsonValue]

# Check → why it matters, in a few words.
WHY: Mapping[str, str] = {
    "machine quiet": "other programs take time, caches and clock speed from what is measured",
    "clocks not throttled": "a clock that is held down measures the cooling, not the work",
    "no foreign process on the device": "a GPU is shared in time slices: other processes make every call longer",
    "device held alone": "two concurrent measurements disturb each other",
    "control workload steady": "the same work must take the same time, or results do not compare",
    "cool enough": "near its limit a chip slows itself down",
    "memory free": "swapped memory is read back in the middle of a run",
    "clock source steady": "every number is the difference of two readings of this clock",
    "governor set for speed": "a clock that falls between calls makes the next one slower",
    "turbo off or steady": "a clock that rises while cool gives different times when warm",
}


def remedies(check: str, state: State, busy: Sequence[str] = (), system: str = sys.platform) -> tuple[str, ...]:
    """What would help where a check fails: one command or sentence each."""
    if check == "machine quiet":
        return _quiet(busy, system)
    advise = _BY_CHECK.get(check)
    return advise(state, system) if advise is not None else ()


def _quiet(busy: Sequence[str], system: str) -> tuple[str, ...]:
    advice = (f"busy now: {', '.join(busy)}; end what need not run, or wait until it has finished",) if busy else ()
    if system == "darwin":
        return (*advice, "sudo mdutil -a -i off    # while measuring: no indexing")
    if system == "linux":
        return (
            *advice,
            "systemctl list-units --type=service --state=running    # then: sudo systemctl stop NAME",
            "taskset --cpu-list CORES assay run FILE    # use cores that other programs leave free",
        )
    return advice


def _throttled(state: State, system: str) -> tuple[str, ...]:
    boards = [gpu["index"] for gpu in _gpus(state) if gpu.get("throttle")]
    commands = [f"nvidia-smi -i {index} -q -d PERFORMANCE,POWER,TEMPERATURE    # why" for index in boards]
    commands += [
        f"sudo nvidia-smi -i {index} -lgc MHZ    # a clock that it can hold; -rgc undoes it" for index in boards
    ]
    if boards:
        return tuple(commands)
    if _section(state, "processor").get("held_down"):
        return ("use a stronger power supply and a heat sink",)
    cap = ("sudo cpupower frequency-set --max 2GHz    # a clock that it can hold",) if system == "linux" else ()
    return ("let it cool down, and clean its fans", *cap)


def _foreign(state: State, _: str) -> tuple[str, ...]:
    crowded = {gpu["index"] for gpu in _gpus(state) if gpu.get("foreign")}
    free = [gpu["index"] for gpu in _gpus(state) if gpu["index"] not in crowded]
    return (
        "ask their owners to stop, or wait until they are done",
        *(f"use another GPU: target.device: cuda:{index}" for index in free[:1]),
        *(
            f"sudo nvidia-smi -i {board} -c EXCLUSIVE_PROCESS    # one process at a time; -c DEFAULT undoes it"
            for board in sorted(crowded, key=str)
        ),
    )


def _held(*_: object) -> tuple[str, ...]:
    return ("wait until it is done: `assay run` does so by itself",)


def _control(_: State, system: str) -> tuple[str, ...]:
    look = {"darwin": "top -o cpu", "linux": "top -o %CPU"}.get(system)
    return (
        *((f"{look}    # what else is running",) if look else ()),
        "run this again in a minute: heat and short tasks pass",
        "after a system or firmware update the history restarts by itself",
    )


def _cool(state: State, _: str) -> tuple[str, ...]:
    warm = [gpu for gpu in _gpus(state) if isinstance(room := gpu.get("headroom_c"), int | float) and room < 10]
    fewer = [f"sudo nvidia-smi -i {gpu['index']} -pl WATTS    # less power, less heat" for gpu in warm]
    return ("wait until it has cooled down", "clean the fans and improve the air flow", *fewer)


def _memory(state: State, system: str) -> tuple[str, ...]:
    used = _section(state, "memory").get("swap_used_bytes")
    swap = ("sudo swapoff -a && sudo swapon -a    # once enough memory is free",) if used and system == "linux" else ()
    return ("end programs that hold memory", *swap)


def _clock(state: State, _: str) -> tuple[str, ...]:
    available = _section(state, "clock").get("available")
    names = [str(source) for source in available] if isinstance(available, list) else []
    better = next((name for name in ("tsc", "kvm-clock", "arch_sys_counter") if name in names), None)
    if better is None:
        return ("see why the kernel dropped the better source: sudo dmesg | grep -i clocksource",)
    switch = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    return ("sudo dmesg | grep -i clocksource    # why it was dropped", f"echo {better} | sudo tee {switch}")


def _governor(_: State, system: str) -> tuple[str, ...]:
    if system == "darwin":
        return ("sudo pmset -a lowpowermode 0",)
    if system == "win32":
        return ("powercfg /setactive SCHEME_MIN",)
    return (
        "sudo cpupower frequency-set --governor performance",
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor    # without cpupower",
        "sudo tuned-adm profile throughput-performance    # where tuned sets it",
    )


def _turbo(state: State, _: str) -> tuple[str, ...]:
    switch = _section(state, "processor").get("turbo_switch")
    if not isinstance(switch, str):
        return ("switch it off in the firmware's settings",)
    value = "1" if switch.endswith("no_turbo") else "0"
    boards = [
        f"sudo nvidia-smi -i {gpu['index']} -pm 1 && sudo nvidia-smi -i {gpu['index']} -lgc MHZ    # of the GPU"
        for gpu in _gpus(state)
    ]
    return (f"echo {value} | sudo tee {switch}", *boards)


_BY_CHECK: Mapping[str, Callable[[State, str], tuple[str, ...]]] = {
    "clocks not throttled": _throttled,
    "no foreign process on the device": _foreign,
    "device held alone": _held,
    "control workload steady": _control,
    "cool enough": _cool,
    "memory free": _memory,
    "clock source steady": _clock,
    "governor set for speed": _governor,
    "turbo off or steady": _turbo,
}


def _section(state: State, name: str) -> Mapping[str, JsonValue]:
    section = state.get(name)
    return section if isinstance(section, Mapping) else {}


def _gpus(state: State) -> list[Mapping[str, JsonValue]]:
    gpus = state.get("gpus")
    boards = [gpu for gpu in gpus if isinstance(gpu, Mapping)] if isinstance(gpus, list) else []
    return [gpu for gpu in boards if "index" in gpu]
