"""`assay info`: what this machine is, and what works on it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import TextFormat, TextFormatOption
from assay.cli.output import say, say_json, terminal_width, use_colour
from assay.units import show_bytes

if TYPE_CHECKING:
    from pydantic import JsonValue

    Facts = Mapping[str, JsonValue]


def info(
    form: TextFormatOption = TextFormat.text,
    models: Annotated[
        list[Path] | None,
        typer.Option("--models", metavar="FOLDER", help="Look for models in this folder and below; may be repeated."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Try the frameworks again, also those tried before.")] = False,
    proofs: Annotated[
        bool, typer.Option("--proofs/--no-proofs", help="Whether to try the frameworks that are installed.")
    ] = True,
) -> None:
    """Show what this machine is: system, processor, memory, disks, limits, GPUs, frameworks that work, probes."""
    from assay.hardware.environment import info as everything
    from assay.store.location import cache_folder, store_folder

    cache = cache_folder()
    facts = everything(
        [*(models or ())],
        proofs,
        places={"results": store_folder(), "cache": cache},
        cache_folder=cache,
        fresh=fresh,
        notify=_notify,
    )
    if form is TextFormat.json:
        say_json(facts)
        return
    text = render(facts, terminal_width())
    if use_colour():
        from assay.report.sheet import paint

        text = paint(text)
    say(text)


def _notify(name: str) -> None:
    """Show in a terminal what is being tried."""
    if sys.stderr.isatty():
        sys.stderr.write(f"trying {name}\n")


_LABEL = 13
_ANSWERS = {"True": "works", "False": "failed", "None": "not proven"}


def render(facts: Facts, width: int) -> str:
    """The facts as aligned text, none wider than `width`; what is missing says why."""
    lines: list[str] = []
    for label, text in _rows(facts):
        lines += _wrapped(label, text, width)
    lines += _frameworks(_map(facts, "frameworks"), width)
    lines += _models(_list(facts, "models"), width)
    lines += _probes(_map(facts, "probes"), width)
    return "\n".join(lines)


def _rows(facts: Facts) -> Iterable[tuple[str, str]]:
    machine, absent = _map(facts, "machine"), _map(facts, "absent")
    system, board, cpu = _map(facts, "os"), _map(facts, "board"), _map(facts, "cpu")
    yield "machine", f"{_text(machine, 'name')}, id {_text(machine, 'id')}"
    named = _text(system, "version") or _text(system, "name")
    yield "system", _joined(named, _prefixed("kernel", _text(system, "kernel")), _text(system, "architecture"))
    yield "board", _joined(*_board(board)) or _missing(absent, "board")
    yield "virtual", _virtual(_map(facts, "virtualisation")) or _missing(absent, "virtualisation")
    container = _map(facts, "container")
    yield "container", _joined(*(f"{kind} ({mark})" for kind, mark in container.items())) or "none that left its mark"
    yield "limits", _limits(_map(facts, "limits"), absent)
    yield "processor", _joined(_text(cpu, "model"), _parts(cpu)) or _missing(absent, "cpu.model")
    yield "", _cores(cpu) or _missing(absent, "cpu.threads")
    yield "caches", _joined(*map(_cache, _list(cpu, "caches"))) or _missing(absent, "cpu.caches")
    yield "memory nodes", _joined(*map(_node, _list(cpu, "numa"))) or _missing(absent, "cpu.numa")
    yield "instructions", " ".join(map(str, _list(cpu, "isa"))) or _missing(absent, "cpu.isa")
    yield "clocks", _clocks(cpu, _map(_map(facts, "now"), "cpu"), absent)
    yield "memory", _memory(_map(facts, "memory"), _map(_map(facts, "now"), "memory"), absent)
    yield from _labelled("disks", map(_disk, _list(facts, "disks")), _missing(absent, "disks"))
    yield from _labelled(
        "folders", (_folder(name, folder) for name, folder in _map(facts, "file_systems").items()), "none"
    )
    yield from _labelled("gpus", map(_gpu, _list(_map(facts, "gpu"), "gpus")), _text(_map(facts, "gpu"), "why"))
    if others := _list(facts, "accelerators"):
        yield from _labelled(
            "accelerators", (_joined(*map(str, _as_map(accelerator).values())) for accelerator in others), ""
        )


def _board(board: Facts) -> Iterable[str]:
    yield " ".join(filter(None, (_text(board, "vendor"), _text(board, "product"))))
    yield " ".join(filter(None, (_text(board, "board_vendor"), _text(board, "board"))))
    yield _prefixed("firmware", _text(board, "firmware"))


def _virtual(facts: Facts) -> str:
    if not facts:
        return ""
    if not facts.get("virtual"):
        return f"no, by {_text(facts, 'told_by')}"
    return f"{_text(facts, 'hypervisor') or 'yes, of a hypervisor that is not named'}, by {_text(facts, 'told_by')}"


def _limits(limits: Facts, absent: Facts) -> str:

    if "usable_cores" not in limits:
        return _missing(absent, "limits", "limits.affinity_cores")
    causes = [f"affinity {limits['affinity_cores']}"] if "affinity_cores" in limits else []
    for fact, name in (("cpuset_cores", "cpuset"), ("quota_cores", "quota")):
        if fact in limits:
            causes.append(f"{name} {_number(limits, fact):g} by {_text(limits, f'{name}_set_by')}")
    memory = "no limit of memory"
    if "memory_bytes" in limits:
        memory = f"{show_bytes(_number(limits, 'memory_bytes'))} memory by {_text(limits, 'memory_set_by')}"
    return _joined(f"{limits['usable_cores']} usable cores ({', '.join(causes)})", memory)


def _parts(cpu: Facts) -> str:
    parts = _map(cpu, "parts")
    return " and ".join(f"{count} × {name}" for name, count in parts.items())


def _cores(cpu: Facts) -> str:
    counts = ((_number(cpu, name), name) for name in ("cores", "threads", "sockets"))
    return _joined(*(f"{count:g} {name if count != 1 else name[:-1]}" for count, name in counts if count))


def _cache(value: JsonValue) -> str:

    facts = _as_map(value)
    kind = {"data": "d", "instruction": "i"}.get(_text(facts, "type"), "")
    many = f"{facts['instances']} × " if "instances" in facts else ""
    shared = _number(facts, "shared_by")
    sharing = f" for {shared:g} CPUs" if shared > 1 else ""
    return f"L{facts.get('level')}{kind} {many}{show_bytes(_number(facts, 'size_bytes'))}{sharing}"


def _node(value: JsonValue) -> str:

    facts = _as_map(value)
    memory = f" {show_bytes(_number(facts, 'memory_bytes'))}" if "memory_bytes" in facts else ""
    return f"node {facts.get('node')}: CPUs {_text(facts, 'cpus') or 'none'}{memory}"


def _clocks(cpu: Facts, now: Facts, absent: Facts) -> str:
    bounds, texts = _map(cpu, "frequency_mhz"), []
    if bounds:
        texts.append(f"{_number(bounds, 'min'):.0f} to {_number(bounds, 'max'):.0f} MHz")
    if now:
        low, high = _number(now, "slowest_mhz"), _number(now, "fastest_mhz")
        texts.append(f"{low:.0f} MHz now" if round(low) == round(high) else f"{low:.0f} to {high:.0f} MHz now")
    for fact, name in (("governor", "governor"), ("driver", "by")):
        texts += [f"{name} {cpu[fact]}"] if fact in cpu else []
    if "turbo" in cpu:
        texts.append(f"turbo {'on' if cpu['turbo'] else 'off'}")
    if "governor" not in cpu:
        texts.append(_missing(absent, "cpu.governor", of="governor "))
    return _joined(*texts)


def _memory(memory: Facts, now: Facts, absent: Facts) -> str:

    texts = [f"{show_bytes(_number(memory, 'total_bytes'))}"] if "total_bytes" in memory else []
    texts += [f"{show_bytes(_number(now, 'available_bytes'))} available"] if "available_bytes" in now else []
    if "swap_bytes" in memory:
        swap = _number(memory, "swap_bytes")
        texts.append(f"{show_bytes(swap)} swap" if swap else "no swap")
    for value in _list(memory, "modules"):
        module = _as_map(value)
        speed = f" at {module['speed_mts']} MT/s" if "speed_mts" in module else ""
        size = f" of {show_bytes(_number(module, 'size_bytes'))}" if "size_bytes" in module else ""
        texts.append(f"{module.get('count')} modules{size} {_text(module, 'type')}{speed}".replace("  ", " ").rstrip())
    if "modules" not in memory:
        texts.append(_missing(absent, "memory.modules", of="speed and type "))
    return _joined(*texts)


def _disk(value: JsonValue) -> str:

    disk = _as_map(value)
    rotating = disk.get("rotational")
    kind = "" if rotating is None else "rotating" if rotating else "solid state"
    return _joined(
        f"{_text(disk, 'name')} {show_bytes(_number(disk, 'size_bytes'))}",
        _text(disk, "model"),
        _text(disk, "attached"),
        kind,
        "read only" if disk.get("read_only") else "",
    )


def _folder(name: str, value: JsonValue) -> str:

    folder = _as_map(value)
    free = f"{show_bytes(_number(folder, 'free_bytes'))} free" if "free_bytes" in folder else ""
    marks = {"network": "over a network", "in_memory": "in memory", "of_the_host": "a folder of the host"}
    return _joined(
        f"{name} {_text(folder, 'folder')}",
        free,
        _text(folder, "type"),
        *(words for mark, words in marks.items() if folder.get(mark)),
    )


def _gpu(value: JsonValue) -> str:

    gpu = _as_map(value)
    agreed = [str(layer) for layer in _list(gpu, "agreed_by")]
    source = f"from {_text(gpu, 'layer')}" + (f", {' and '.join(agreed)} agree" if agreed else "")
    return _joined(
        f"{gpu.get('index')} {_text(gpu, 'name')}",
        show_bytes(_number(gpu, "memory_bytes")) if "memory_bytes" in gpu else "",
        _prefixed("driver", _text(gpu, "driver")),
        _prefixed("CUDA", _text(gpu, "cuda")),
        _prefixed("capability", _text(gpu, "capability")),
        _text(gpu, "architecture"),
        f"{_text(gpu, 'multiprocessors')} multiprocessors" if "multiprocessors" in gpu else "",
        f"tensor cores of generation {_text(gpu, 'tensor_cores')}" if gpu.get("tensor_cores") else "",
        " ".join(map(str, _list(gpu, "precisions"))),
        *_links(gpu),
        *_state(gpu),
        *(f"{name} {'on' if gpu[fact] else 'off'}" for fact, name in (("ecc", "ECC"), ("mig", "MIG")) if fact in gpu),
        source,
        _text(gpu, "note"),
        *(f"{fact} differs, {words}" for fact, words in _map(gpu, "differs").items()),
    )


def _links(gpu: Facts) -> Iterable[str]:
    pcie = _map(gpu, "pcie")
    now, most = ([str(pcie[p + part]) for part in ("generation", "width") if p + part in pcie] for p in ("", "max_"))
    if pcie:
        later = f", now {' × '.join(now)}" if most and now and now != most else ""
        yield f"PCIe {' × '.join(most or now)}{later}"
    if gpu.get("nvlinks"):
        yield f"{_text(gpu, 'nvlinks')} NVLinks"


def _state(gpu: Facts) -> Iterable[str]:
    """Clocks, power, heat and what holds a GPU down at this moment."""
    now, most = _map(gpu, "clocks_mhz"), _map(gpu, "max_clocks_mhz")
    for name in most:
        yield f"{name} {f'{_number(now, name):g} of ' if name in now else ''}{_number(most, name):g} MHz"
    if "power_limit_w" in gpu:
        yield f"at most {_number(gpu, 'power_limit_w'):g} W"
    if "temperature_c" in gpu:
        limit = f", slows down at {_number(gpu, 'slowdown_c'):g} °C" if "slowdown_c" in gpu else ""
        yield f"{_number(gpu, 'temperature_c'):g} °C{limit}"
    if reasons := _list(gpu, "throttle"):
        yield f"held down by {', '.join(map(str, reasons))}"


def _frameworks(frameworks: Facts, width: int) -> list[str]:
    """A line for each device of each framework; those that failed say why in full below."""
    from assay.report.sheet import text_table

    rows, failed, moments = [], [], set()
    for name, value in frameworks.items():
        entry = _as_map(value)
        moments.add(_text(entry, "tried_at")[:10])
        devices = _map(entry, "devices") or {"": value}
        for device, answer in devices.items():
            facts = _as_map(answer)
            word = _ANSWERS[str(facts.get("works"))]
            word = "imports" if "works" in facts and facts["works"] is None and "proof" in facts else word
            why = _line(_text(facts, "proof") or _text(facts, "why"))
            seconds = f"{_number(facts, 'seconds'):.2f} s" if "seconds" in facts else ""
            rows.append((name, _text(entry, "version"), device, word, seconds, why))
            failed += [f"failed   {name} {device}".rstrip() + f": {why}"] if word == "failed" else []
    if not rows:
        return ["", "frameworks   none is installed"]
    head = ("framework", "version", "device", "answer", "time", "proof or reason")
    when = ", ".join(sorted(moments - {""}))
    note = [f"tried on {when}; --fresh tries again"] if when else []
    return ["", *text_table(head, rows, width, right=(4,), flexible=(5,)), *failed, *note]


def _models(models: list[JsonValue], width: int) -> list[str]:
    from assay.report.sheet import text_table

    if not models:
        return []
    head = ("model", "format", "size", "architecture", "parameters", "dtype", "quantisation")
    rows, notes = [], []
    for value in models:
        model = _as_map(value)
        size = show_bytes(_number(model, "size_bytes")) if "size_bytes" in model else "?"
        parameters = f"{_number(model, 'parameters'):,.0f}" if "parameters" in model else "?"
        rows.append(
            (
                _line(_text(model, "path")),
                _text(model, "format"),
                size,
                _line(_text(model, "architecture")) or "?",
                parameters,
                _text(model, "dtype") or "?",
                _text(model, "quantisation") or "not stated",
            )
        )
        reasons: dict[str, list[str]] = {}
        for fact, why in _map(model, "absent").items():
            reasons.setdefault(_line(str(why)), []).append(fact)
        notes += [f"unknown  {_line(_text(model, 'path'))}: {', '.join(f)}: {why}" for why, f in reasons.items()]
    return ["", *text_table(head, rows, width, right=(2, 4), flexible=(0, 3, 6)), *notes]


def _probes(probes: Facts, width: int) -> list[str]:
    from assay.report.sheet import text_table

    rows = []
    for name, value in probes.items():
        probe = _as_map(value)
        rows.append(
            (name, "works" if probe.get("works") else "absent", _line(_text(probe, "by") or _text(probe, "why")))
        )
    head = ("probe", "answer", "by or reason")
    return ["", *text_table(head, rows, width, flexible=(2,))]


def _labelled(label: str, texts: Iterable[str], empty: str) -> Iterable[tuple[str, str]]:
    """Several lines under one label."""
    lines = list(texts)
    for i, text in enumerate(lines or [empty]):
        yield (label if i == 0 else ""), text


def _wrapped(label: str, text: str, width: int) -> list[str]:
    """A label and its text in a column of its own, on as many lines as it takes."""
    import textwrap

    room = max(width - _LABEL, 20)
    lines = textwrap.wrap(_line(text), room, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"{label if i == 0 else '':<{_LABEL}}{line}" for i, line in enumerate(lines)]


def _missing(absent: Facts, *facts: str, of: str = "") -> str:
    """Why a fact is missing, in the words of the probe that looked for it."""
    why = next((str(absent[fact]) for fact in facts if fact in absent), "not available")
    return f"{of}unknown: {why}"


def _prefixed(word: str, text: str) -> str:
    return f"{word} {text}" if text else ""


def _joined(*texts: str) -> str:
    return " · ".join(filter(None, texts))


def _line(text: str) -> str:
    """Text of a file or a library, made safe for a terminal."""
    from assay.report.wording import one_line

    return one_line(text)


def _text(facts: Facts, name: str) -> str:
    value = facts.get(name)
    return "" if value is None else str(value)


def _number(facts: Facts, name: str) -> float:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _map(facts: Facts, name: str) -> Facts:
    return _as_map(facts.get(name))


def _as_map(value: JsonValue) -> Facts:
    return value if isinstance(value, dict) else {}


def _list(facts: Facts, name: str) -> list[JsonValue]:
    value = facts.get(name)
    return value if isinstance(value, list) else []
