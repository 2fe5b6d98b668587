"""Whether two results may be compared: definition, machine, method; and a machine that itself changed in between.

What decides which question the numbers answer makes results incomparable: model, data, target, workload, load, device,
kind of machine, and the way assay measures. What may explain a change of the answer is a warning: another
machine of the same kind, driver, kernel, packages, image, doubts about a result, a machine that itself became slower.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import JsonValue, ValidationError

from assay.analyse.records import Comparison, MultiRunJobResult, section
from assay.analyse.series.identity import context, machine_kind
from assay.analyse.text import count, listed, percent
from assay.spec.benchmark import Definition

_VERSION = re.compile(r"^(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class MethodChange:
    """What a release measures in another way."""

    since: str
    """The first version that measures the new way."""
    what: str
    """One plain sentence without a stop."""


# Oldest first; nothing has changed since the first release.
CHANGES: tuple[MethodChange, ...] = ()


def changed_between(a: str, b: str, changes: Iterable[MethodChange] = CHANGES) -> tuple[str, ...]:
    """What the newer of two versions measures in another way than the older; empty where a version is not known."""
    first, second = _parts(a), _parts(b)
    if first is None or second is None:
        return ()
    older, newer = min(first, second), max(first, second)
    return tuple(
        f"assay {change.since} measures in another way: {change.what}"
        for change in changes
        if (since := _parts(change.since)) is not None and older < since <= newer
    )


def _parts(version: str) -> tuple[int, int, int] | None:
    """The numbers of a version; what follows them (`.dev1`, `rc2`, `+local`) measures as the release does."""
    match = _VERSION.match(version)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


# How long and how often was measured does not change what is measured; nor do limits, needs and prices.
_IGNORED = ("measure", "objective", "needs", "prices")
# Paths of a file are checked by the digest of its content instead, where there is one.
_PATHS = frozenset({"target.model", "target.sha256"})
# What was measured, by content; shown as a beginning that still distinguishes contents.
_CONTENTS = {"model": "model digest", "data": "data digest"}
_SHOWN_DIGEST = 12
_GPU = ("gpu", "gpus")
# What a machine may be without, and is then another one than a machine that has it.
_NONE_COUNTS = (*_GPU, "limit_cpus", "services")
_MACHINE_WORDS = {"memory_gib": "memory (GiB)", "limit_cpus": "limit of processors", "services": "services with"}
# What may explain a change without being another question, and how it is called.
_AROUND = {
    "machine": "machine", "os": "system", "kernel": "kernel", "driver": "driver", "python": "Python",
    "governor": "governor", "image": "image", "server": "server", "packages": "", "method": "", "assay": "assay",
}  # fmt: skip
CONTROL = {"integer_ms": "integer loop", "memory_ms": "memory loop"}
# Two timings of the control workload that are closer than this are the same to anybody.
SAME = 0.05
# How the two are called in a sentence.
Sides = tuple[str, str]
SIDES: Sides = ("the first", "the second")


def not_comparable(a: MultiRunJobResult, b: MultiRunJobResult, sides: Sides = SIDES) -> tuple[str, ...]:
    """The reasons, one plain sentence each, why the numbers of two jobs do not answer one question."""
    return (*unusable(a, b, sides), *different(a, b))


def different(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    """What differs between two jobs that makes them two questions, one plain sentence each."""
    left, right = context(a), context(b)
    return (
        *_different_contents(left, right),
        *_different_definition(a, b),
        *_different_device(a, b),
        *_different_machine(a, b),
        *changed_between(str(left.get("assay", "")), str(right.get("assay", ""))),
    )


def unusable(a: MultiRunJobResult, b: MultiRunJobResult, sides: Sides = SIDES) -> tuple[str, ...]:
    """The reasons why one side has no numbers to rely on."""
    return tuple(
        f"{side} result is {word}" for side, job in zip(sides, (a, b), strict=True) if (word := unusable_word(job))
    )


def unusable_word(job: MultiRunJobResult) -> str:
    """Why a result has no numbers to rely on; empty where it has."""
    if job.state != "done":
        return f"not a measurement: its job is {job.state}"
    if job.verdict != "invalid":
        return ""
    failed = [check.detail for check in job.checks if check.passed is False]
    return f"invalid: {failed[0]}" if failed else "invalid"


def warnings(a: MultiRunJobResult, b: MultiRunJobResult, sides: Sides = SIDES) -> tuple[str, ...]:
    """What else differs, and what speaks against one of the results; none of it forbids to compare them."""
    left, right = context(a), context(b)
    unknown = tuple(
        f"the machine of {side} result is not known"
        for side, job in zip(sides, (a, b), strict=True)
        if not machine_kind(job.environment)
    )
    dirty = tuple(
        f"{side} result was measured with changes that are not committed"
        for side, facts in zip(sides, (left, right), strict=True)
        if facts.get("changed") is True
    )
    return (*_suspect(a, b, sides), *_moved(left, right, sides), *_around(left, right), *unknown, *dirty)


def _suspect(a: MultiRunJobResult, b: MultiRunJobResult, sides: Sides) -> Iterator[str]:
    for side, job in zip(sides, (a, b), strict=True):
        if job.verdict == "suspect":
            doubts = [f"{check.name}: {check.detail}" for check in job.checks if check.passed is False]
            more = f" ({count(len(doubts) - 1, 'more check')} failed)" if len(doubts) > 1 else ""
            yield f"{side} result is suspect{f': {doubts[0]}' if doubts else ''}{more}"


def _moved(left: Mapping[str, JsonValue], right: Mapping[str, JsonValue], sides: Sides) -> Iterator[str]:
    """What the control workload says about the machine itself."""
    first, second = (section(facts, "control") for facts in (left, right))
    if first.get("version") != second.get("version"):
        return
    for part, name in CONTROL.items():
        took = [value for side in (first, second) if isinstance(value := side.get(part), int | float) and value > 0]
        if len(took) == len(sides) and abs(math.log(took[1] / took[0])) > math.log1p(SAME):
            yield f"the machine itself moved: {_control_took(took[1] / took[0] - 1, sides, name)}"


def _control_took(change: float, sides: Sides, loop: str) -> str:
    return f"the control workload took {percent(change, signed=True)} around {sides[1]} result ({loop})"


def _around(left: Mapping[str, JsonValue], right: Mapping[str, JsonValue]) -> Iterator[str]:
    """The software and the machine around two results, where both tell."""
    for name, word in _AROUND.items():
        # What a file leaves out has its default; what a record leaves out is not known.
        if name == "method" or (name in left and name in right):
            first, second = ({name: side.get(name, {})} for side in (left, right))
            flats = _flat(first), _flat(second)
            for path in sorted({**flats[0], **flats[1]}):
                values = [flat.get(path) for flat in flats]
                if values[0] != values[1]:
                    what = word or path.partition(".")[2]
                    yield f"{what} is {_shown(values[0])} against {_shown(values[1])}"


def _different_definition(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    left, right = _flat(_complete(a.definition)), _flat(_complete(b.definition))
    by_content = all("model" in context(job) for job in (a, b))
    skipped = _PATHS if by_content else frozenset[str]()
    paths = [path for path in {**left, **right} if path.partition(".")[0] not in _IGNORED and path not in skipped]
    return tuple(
        f"different {path.rpartition('.')[2].replace('_', ' ')}: "
        f"{_shown(left.get(path))} against {_shown(right.get(path))}"
        for path in paths
        if left.get(path) != right.get(path)
    )


def _complete(definition: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """A definition with its defaults filled in, so that the sentence can name both values."""
    try:
        return Definition.model_validate_json(json.dumps(definition)).model_dump(mode="json")
    except ValidationError:
        return definition  # written by another version: compare what is there


def _flat(tree: Mapping[str, JsonValue], prefix: str = "") -> dict[str, JsonValue]:
    """Nested values by dotted path."""
    flat: dict[str, JsonValue] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _shown(value: JsonValue) -> str:
    if value is None:
        return "not set"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _different_contents(left: Mapping[str, JsonValue], right: Mapping[str, JsonValue]) -> tuple[str, ...]:
    return tuple(
        f"different {word}: {str(left[name])[:_SHOWN_DIGEST]} against {str(right[name])[:_SHOWN_DIGEST]}"
        for name, word in _CONTENTS.items()
        if name in left and name in right and left[name] != right[name]
    )


def _different_device(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    left, right = _devices(a), _devices(b)
    if not left or not right or left == right:
        return ()
    return (f"different device: {listed(sorted(left))} against {listed(sorted(right))}",)


def _devices(job: MultiRunJobResult) -> set[str]:
    """The devices that did the work, as the runtime reported."""
    return {run.device.used for run in job.runs if run.error is None and run.device is not None}


def _different_machine(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    left, right = machine_kind(a.environment), machine_kind(b.environment)
    if not left or not right:
        return ()
    # What ran on the processor alone does not care about the boards beside it.
    beside = _GPU if _devices(a) == _devices(b) == {"cpu"} else ()
    keys = [
        key
        for key in {**left, **right}
        if left.get(key) != right.get(key)
        and key not in beside
        and (key in _NONE_COUNTS or (key in left and key in right))
    ]
    if not keys:
        return ()
    sides = [
        ", ".join(f"{_MACHINE_WORDS.get(key, key)} {_shown(side[key]) if key in side else 'none'}" for key in keys)
        for side in (left, right)
    ]
    return (f"different machine: {sides[0]} against {sides[1]}",)


# A control workload tells how fast a machine is. Scores, sizes and counts do not depend on that.
_TIMES = frozenset({"ns", "us", "µs", "ms", "s", "min", "h", "TFLOPS", "TOPS"})


@dataclass(frozen=True, slots=True)
class MachineShift:
    """How far the control workload moved between two sides."""

    took: float
    """Change of its time, as a share: 0.1 is a machine that became slower by that much."""
    sentence: str

    def explains(self, change: float, unit: str) -> str:
        """Why a relative change of a metric may be the machine's own; empty where it may not."""
        if unit not in _TIMES and not unit.endswith("/s"):
            return ""
        if change > -1 and abs(math.log1p(change)) > abs(math.log1p(self.took)):
            return ""
        return f"the machine itself moved by as much as the change or more: {self.sentence}"


def machine_moved(
    a: Sequence[MultiRunJobResult], b: Sequence[MultiRunJobResult], sides: Sides = SIDES, *, anyway: bool = False
) -> MachineShift | None:
    """How far the machine moved from some results to others; None where it did not, or where that is not known.

    Args:
        anyway: Whether the difference between the sides is asked about: two machines then differ on purpose.
    """
    first, second = ([context(job) for job in side] for side in (a, b))
    if anyway and {facts.get("machine") for facts in first} != {facts.get("machine") for facts in second}:
        return None
    controls = [[section(facts, "control") for facts in side] for side in (first, second)]
    if len({control.get("version") for side in controls for control in side}) != 1:
        return None
    shifts = {
        name: float(np.median(times[1]) / np.median(times[0])) - 1
        for part, name in CONTROL.items()
        if all(times := [_times(side, part) for side in controls])
    }
    name = max(shifts, key=lambda key: abs(math.log1p(shifts[key])), default=None)
    if name is None or abs(math.log1p(shifts[name])) <= math.log1p(SAME):
        return None
    return MachineShift(shifts[name], _control_took(shifts[name], sides, name))


def _times(controls: Sequence[Mapping[str, JsonValue]], part: str) -> list[float]:
    return [float(value) for control in controls if isinstance(value := control.get(part), int | float) and value > 0]


def doubted(comparison: Comparison, moved: MachineShift | None) -> Comparison:
    """A comparison whose answer is "cannot tell" where the machine moved as much."""
    if moved is None or comparison.answer == "cannot tell" or not comparison.a:
        return comparison
    reason = moved.explains((comparison.b - comparison.a) / abs(comparison.a), comparison.unit)
    return replace(comparison, answer="cannot tell", because=(reason, *comparison.because)) if reason else comparison
