"""Words that every form of report shares: job labels, headline metrics, verdicts, failures, nested facts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from io import StringIO

from pydantic import JsonValue, ValidationError
from ruamel.yaml import YAML

from assay.analyse.headline import declared, headline_or_first
from assay.analyse.records import CampaignRecord, Check, MetricStatistics, MultiRunJobResult
from assay.metrics import base_name
from assay.plan.job import Job
from assay.run.records import Failure, SingleRunResult
from assay.spec.benchmark import Definition
from assay.units import show_bytes

WORDS_IN_ORDER = ("valid", "suspect", "invalid", "failed", "cancelled", "running", "pending", "not judged")
MEANING = {
    "valid": "every check that could be made passed, advice apart",
    "suspect": "measured, but at least one check gives a reason to doubt the numbers",
    "invalid": "measured, but a check shows that the numbers do not mean what they seem to",
    "failed": "could not be measured; there are no numbers",
    "cancelled": "stopped before it was measured",
    "running": "being measured",
    "pending": "not started",
    "not judged": "finished without a verdict",
}
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b.|[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SUBJECT_WORDS = 4
_PATH_LIKE = re.compile(r"[^\s/\\]+[/\\]")


def headline_of(result: MultiRunJobResult) -> tuple[str, ...]:
    """The metrics that answer the job's question, of those that it measured; else the first that there is.

    Nothing takes the place of metrics that the file declares: `unreported` names those that are missing.
    """
    return _headline_of(json.dumps(result.definition), tuple(result.metrics))


def unreported(result: MultiRunJobResult) -> tuple[str, ...]:
    """The metrics that the file declares and no run gave, in the order of the file."""
    measured = {base_name(name) for name in result.metrics}
    return tuple(name for name in _declared(json.dumps(result.definition)) if name not in measured)


def headlines(result: MultiRunJobResult) -> list[tuple[str, MetricStatistics | None]]:
    """What a job has in a table of all jobs: its headline metrics, those that no run gave; or one without a name."""
    if result.state != "done":
        return [("", None)]
    measured = [(name, result.metrics[name]) for name in headline_of(result)]
    return [*measured, *((name, None) for name in unreported(result))] or [("", None)]


@lru_cache(maxsize=2048)
def _declared(definition: str) -> tuple[str, ...]:
    try:
        return declared(Definition.model_validate_json(definition))
    except ValidationError:  # written by another version
        return ()


# A comparison asks for every job several times, and the next one for the same jobs again.
@lru_cache(maxsize=2048)
def _headline_of(definition: str, measured: tuple[str, ...]) -> tuple[str, ...]:
    try:
        read = Definition.model_validate_json(definition)
    except ValidationError:  # written by another version: there is still something to show
        return measured[:1]
    return headline_or_first(read, measured)


def section(definition: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    """A section of a job's definition, empty when it is missing."""
    return as_mapping(definition.get(name))


def as_number(value: JsonValue) -> float | None:
    """A fact that is a number; None for any other."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_text(value: JsonValue) -> str:
    """A fact on one line; empty where there is none."""
    return one_line(str(value)) if value not in (None, "") else ""


def as_mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def as_mappings(value: JsonValue) -> list[Mapping[str, JsonValue]]:
    """The facts of a list that have names themselves."""
    return [fact for fact in value if isinstance(fact, dict)] if isinstance(value, list | tuple) else []


def one_line(text: str) -> str:
    """Text that cannot break a line or steer a terminal: control characters become spaces."""
    return " ".join(_CONTROL.sub(" ", text).split())


def verdict_word(result: MultiRunJobResult) -> str:
    if result.state != "done":
        return result.state
    return result.verdict or "not judged"


def verdict_counts(record: CampaignRecord) -> str:
    """How many jobs have which verdict: `2 valid, 1 suspect, 1 failed`."""
    counts = Counter(verdict_word(job) for job in record.jobs)
    return ", ".join(f"{counts[word]} {word}" for word in WORDS_IN_ORDER if counts[word]) or "no jobs"


def job_count(record: CampaignRecord) -> str:
    return f"{len(record.jobs)} job{'' if len(record.jobs) == 1 else 's'}"


def job_label(point: Mapping[str, JsonValue], definition: Mapping[str, JsonValue], *, full: bool = False) -> str:
    """A short name for a job: its point of the matrix, or what it measures when there is no matrix."""
    if not point:
        return _subject(definition)
    names = _short_names(tuple(point))
    parts = ((path if full else names[path], _value(value, full=full)) for path, value in point.items())
    return " ".join(_labelled(name, value) for name, value in parts)


def label_of(job: Job) -> str:
    """The name of a job inside its benchmark."""
    return job_label(job.point, job.definition.model_dump(mode="json", exclude_defaults=True))


def axis_point(path: str, value: JsonValue) -> str:
    """One key of a point as labels show it: `threads=2`, or `squeezenet`."""
    return _labelled(path.rpartition(".")[2], _value(value, full=False))


def _labelled(name: str, value: str) -> str:
    # What is measured needs no name before it: `squeezenet batch=8` says enough.
    return value if name in ("model", "command") else f"{one_line(name)}={value}"


def job_labels(record: CampaignRecord) -> dict[str, str]:
    """A label for each job by its id; longer ones where the short ones would not tell jobs apart."""
    candidates: tuple[Callable[[MultiRunJobResult], str], ...] = (
        lambda job: job_label(job.point, job.definition),
        lambda job: f"{job_label(job.point, job.definition)} on {machine_name(job) or 'unknown machine'}",
        lambda job: job_label(job.point, job.definition, full=True),
    )
    for label in candidates:
        labels = {job.job: label(job) for job in record.jobs}
        if len(set(labels.values())) == len(record.jobs):
            return labels
    return {job.job: f"#{job.index} {job_label(job.point, job.definition)}" for job in record.jobs}


def machine(result: MultiRunJobResult) -> Mapping[str, JsonValue]:
    """What is known about the machine that a job ran on."""
    return section(result.environment, "machine")


def machine_name(result: MultiRunJobResult) -> str:
    """The name of the machine that a job ran on, empty when it is unknown."""
    return one_line(str(machine(result).get("name") or ""))


def machine_sentence(result: MultiRunJobResult) -> str:
    """One line about the machine: name, processor, memory, graphics, system."""
    facts = machine(result)
    memory = facts.get("memory_bytes")
    cores = facts.get("cores")
    system = " ".join(str(facts[key]) for key in ("os", "os_version") if facts.get(key))
    parts = (
        facts.get("name"),
        facts.get("cpu") or facts.get("soc"),
        f"{cores} cores" if cores else None,
        f"{memory / 2**30:.0f} GB" if isinstance(memory, int | float) else None,
        facts.get("gpu"),
        system,
    )
    return one_line(" · ".join(str(part) for part in parts if part))


def check_word(check: Check) -> str:
    """How a failed check is headed: by the verdict that it alone leads to, or as advice that changes none."""
    from assay.analyse.answer import severity_of  # with it comes numpy, which a failed check has loaded anyway

    return severity_of(check)


def failed_checks(result: MultiRunJobResult) -> tuple[Check, ...]:
    """The failed checks of a job, the main reason of its verdict first; without its objectives."""
    if all(check.passed is not False for check in result.checks):
        return ()
    from assay.analyse.answer import reasons_of

    return tuple(reason.check for reason in reasons_of(result) if reason.severity not in ("missed", "undecided"))


def check_sentence(check: Check) -> str:
    """A check as one line: its name, then what it found."""
    return one_line(f"{check.name}: {check.detail}")


def gate_word(gate: Check) -> str:
    """The outcome of an objective, in words; not measured is neither met nor missed."""
    return {True: "met", False: "missed", None: "cannot tell"}[gate.passed]


_WHILE = {
    "prepare": "while preparing",
    "load": "while loading",
    "first": "in the first call",
    "warmup": "while warming up",
    "measure": "while measuring",
    "score": "while reading the results",
    "cleanup": "while cleaning up",
}


def phase_words(phase: str) -> str:
    """During which step something failed, to stand after its code; empty where that is not known."""
    return f" {_WHILE.get(phase, f'in phase {one_line(phase)}')}" if phase else ""


def failure_sentence(error: Failure) -> str:
    """Why a job or run failed, as one line with its code, step and the evidence that its message does not give."""
    evidence = [
        f"signal {error.signal}" if error.signal else "",
        f"exit code {error.exit_code}" if error.exit_code is not None else "",
        f"memory {error.memory_mb:,.0f} MB" if error.memory_mb is not None else "",
    ]
    details = ", ".join(part for part in evidence if part and part not in error.message)
    return one_line(
        f"error[{error.code}]{phase_words(error.phase)}: {error.message}{f' ({details})' if details else ''}"
    )


def unmeasured_sentence(result: MultiRunJobResult) -> str:
    """Why a job that should have numbers has none."""
    error = result.failure
    if error:
        return failure_sentence(error)
    return "no reason was recorded" if result.state == "failed" else MEANING[verdict_word(result)]


def others_share(run: SingleRunResult) -> str | None:
    """How much of the machine's processor time other programs took while the clock ran; None when not known."""
    window = run.window
    if window is None or window.others_cpu_s is None or window.wall_s <= 0 or not window.cores:
        return None
    return f"{100 * window.others_cpu_s / (window.wall_s * window.cores):.1f} %"


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    last = Counter(path.rpartition(".")[2] for path in paths)
    return {path: tail if last[tail := path.rpartition(".")[2]] == 1 else path for path in paths}


def _subject(definition: Mapping[str, JsonValue]) -> str:
    target = section(definition, "target")
    if "command" in target:
        command = target["command"]
        words = command.split() if isinstance(command, str) else list(map(str, command or ()))  # type: ignore[arg-type]
        more = ["…"] if len(words) > _SUBJECT_WORDS else []
        return one_line(" ".join([*map(base, words[:_SUBJECT_WORDS]), *more])) or "command"
    named = ("model", "service", "endpoint", "device")
    subject = next((target[name] for name in named if target.get(name)), "job")
    return one_line(base(str(subject)))


def _value(value: JsonValue, *, full: bool) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return one_line(text if full else base(text) if isinstance(value, str) else text) or '""'


def base(text: str) -> str:
    """The last part of a path or URL; other text as it is."""
    if not _PATH_LIKE.match(text) and not text.startswith(("/", "\\")):
        return text
    return re.split(r"[/\\]", text.partition("?")[0].rstrip("/\\"))[-1] or text


def flat(facts: Mapping[str, JsonValue], prefix: str = "") -> list[tuple[str, str]]:
    """Nested facts as (dotted path, text) pairs, in order; what is empty is left out."""
    pairs: list[tuple[str, str]] = []
    for key, value in facts.items():
        path = one_line(f"{prefix}{key}")
        if isinstance(value, Mapping):
            pairs += flat(value, f"{path}.")
        elif value not in (None, "", [], ()):
            pairs.append((path, fact(path, value)))
    return pairs


def fact(path: str, value: JsonValue) -> str:
    """One fact as text; a number of bytes also says how much that is."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return _number(path, value)
    if isinstance(value, list | tuple) and all(not isinstance(item, dict | list) for item in value):
        return one_line(", ".join(map(str, value)))
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _number(path: str, value: float) -> str:
    if path.endswith("_bytes") and value >= 2**10:
        return f"{show_bytes(value)} ({value:,} B)"
    return f"{value:g}" if isinstance(value, float) else str(value)


def indented(facts: Mapping[str, JsonValue]) -> str:
    """Nested facts as a YAML text, the way a benchmark file is written."""
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.width = 100
    writer.allow_unicode = True
    text = StringIO()
    writer.dump(_plain(facts), text)
    return text.getvalue().rstrip("\n")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
