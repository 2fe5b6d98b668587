"""The documents of slurmrestd: a batch script as a submission, and its answers as records. Pure.

slurmrestd takes the text of a script but does not read the `#SBATCH` lines in it, so that they are read here. Its
fields changed between versions (a number became an object, a word a list); both are understood.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from assay.engines.slurm.parsing import indexes, seconds
from assay.engines.slurm.scheduler import BatchState, Dependency, Partition
from assay.errors import UsageError

# The newest version whose submissions take plain numbers and a mapping of variables.
PLAIN_UNTIL = 38
# Option of sbatch → field of a submission.
_TEXTS = {
    "job-name": "name", "partition": "partition", "account": "account", "qos": "qos", "reservation": "reservation",
    "array": "array", "output": "standard_output", "error": "standard_error", "chdir": "current_working_directory",
    "constraint": "constraints", "licenses": "licenses", "wckey": "wckey", "prefer": "prefer",
    "cpus-per-gpu": "cpus_per_gpu", "deadline": "deadline",
}  # fmt: skip
_NUMBERS = {"ntasks": "tasks", "cpus-per-task": "cpus_per_task", "ntasks-per-node": "tasks_per_node", "nice": "nice"}
_FLAGS = {"requeue": ("requeue", True), "no-requeue": ("requeue", False)}


def submission(
    script: str, *, comment: str, after: Sequence[Dependency], version: int, environ: Mapping[str, str]
) -> dict[str, Any]:
    """What slurmrestd is sent for a batch script.

    Args:
        version: last number of the version, as 38 of v0.0.38.
    """
    plain = version <= PLAIN_UNTIL
    job: dict[str, Any] = {"comment": comment}
    for name, value in options_in(script):
        job |= _field(name, value, plain=plain)
    if after:
        job["dependency"] = ",".join(map(str, after))
        job |= {"kill_on_invalid_dependency": True} if plain else {"flags": ["KILL_INVALID_DEPENDENCY"]}
    job["environment"] = dict(environ) if plain else [f"{name}={value}" for name, value in environ.items()]
    return {"script": script, "job": job}


def options_in(script: str) -> Iterator[tuple[str, str]]:
    """The options of a script's `#SBATCH` lines, with their values."""
    for line in script.split("\n"):
        if not line.startswith("#SBATCH"):
            continue
        lexer = shlex.shlex(line.removeprefix("#SBATCH"), posix=True, punctuation_chars="")
        lexer.whitespace_split, lexer.commenters = True, "#"
        words = list(lexer)
        if words:
            name, equals, value = words[0].lstrip("-").partition("=")
            yield name, value if equals else " ".join(words[1:])


def job_states(document: Mapping[str, Any]) -> tuple[BatchState, ...]:
    """What slurmrestd says of jobs that the controller remembers."""
    return tuple(state for job in document.get("jobs") or () for state in _job_states(job))


def account_states(document: Mapping[str, Any]) -> tuple[BatchState, ...]:
    """What slurmrestd says of jobs that accounting remembers: the latest life of each."""
    states: dict[str, BatchState] = {}
    for job in document.get("jobs") or ():
        state = _account_state(job)
        before = states.get(state.key)
        again = None if before is None else (before.requeues or 0) + 1
        states[state.key] = state if again is None else replace(state, requeues=again)
    return tuple(states.values())


def partitions(document: Mapping[str, Any], nodes: Mapping[str, Any]) -> tuple[Partition, ...]:
    return tuple(_partition(partition, nodes.get("nodes") or ()) for partition in document.get("partitions") or ())


def complaints(document: object) -> str:
    """What slurmrestd says went wrong; empty for nothing."""
    errors = document.get("errors") if isinstance(document, Mapping) else None
    said = [_complaint(error) for error in errors or () if isinstance(error, Mapping)]
    return "; ".join(dict.fromkeys(text for text in said if text))


def _complaint(error: Mapping[str, Any]) -> str:
    parts = [str(error.get(key)) for key in ("error", "description") if error.get(key)]
    return ": ".join(dict.fromkeys(parts))


def _field(name: str, value: str, *, plain: bool) -> dict[str, Any]:
    if name in _TEXTS:
        return {_TEXTS[name]: value}
    if name in _NUMBERS and value.isdigit():
        return {_NUMBERS[name]: int(value)}
    if name in _FLAGS:
        return {_FLAGS[name][0]: _FLAGS[name][1]}
    if name == "time" and (limit_s := seconds(value)) is not None:
        return {"time_limit": _amount(math.ceil(limit_s / 60), plain=plain)}
    if name == "mem" and (match := re.fullmatch(r"(\d+)M", value)):
        return {"memory_per_node": _amount(int(match[1]), plain=plain)}
    if name == "nodes" and value.isdigit():
        return {"nodes": [int(value), int(value)] if plain else value}
    if name == "gres":
        return (
            {"gres": value}
            if plain
            else {"tres_per_node": ",".join(f"gres/{resource}" for resource in value.split(","))}
        )
    if name == "exclusive" and not value:
        return {"exclusive": "true"} if plain else {"shared": ["none"]}
    message = f"the option --{name}{f'={value}' if value else ''} cannot be given to slurmrestd"
    remedy = "remove it, or remove place.slurm.rest to submit with sbatch"
    raise UsageError(message, code="slurm-option", at="place.slurm.options", try_=remedy)


def _amount(number: int, *, plain: bool) -> int | dict[str, Any]:
    return number if plain else {"set": True, "infinite": False, "number": number}


def _job_states(job: Mapping[str, Any]) -> Iterator[BatchState]:
    number, array = _number(job.get("job_id")) or 0, _number(job.get("array_job_id"))
    task, waiting = _number(job.get("array_task_id")), str(job.get("array_task_string") or "")
    tasks: Iterator[int | None] = indexes(waiting) if array and waiting else iter((task if array else None,))
    state, code, signal = _word(job.get("job_state")), *_exit(job.get("exit_code"))
    started, ended, waits = _moment(job.get("start_time")), _moment(job.get("end_time")), state == "PENDING"
    limit, reason = _number(job.get("time_limit")), str(job.get("state_reason") or "")
    for index in tasks:
        yield BatchState(
            str(array or number),
            index,
            str(job.get("name") or ""),
            state,
            "" if reason == "None" else reason,
            str(job.get("nodes") or ""),
            exit_code=code,
            signal=signal,
            submitted_at=_moment(job.get("submit_time")),
            started_at=None if waits else started,
            ended_at=None if waits else ended,
            estimated_start=started if waits else None,
            elapsed_s=None if waits or state == "RUNNING" else _between(started, ended),
            time_limit_s=None if limit is None else limit * 60.0,
            requeues=_number(job.get("restart_cnt")),
            comment=str(job.get("comment") or ""),
            work_dir=str(job.get("current_working_directory") or ""),
            partition=str(job.get("partition") or ""),
            source="slurmrestd",
            raw=str(number),
        )


def _account_state(job: Mapping[str, Any]) -> BatchState:
    number = _number(job.get("job_id")) or 0
    array = job.get("array") or {}
    task, time = _number(array.get("task_id")), job.get("time") or {}
    own = job.get("state") or {}
    state, (code, signal) = _word(own.get("current")), _exit(job.get("exit_code"))
    if state == "FAILED" and code == 0 and signal is None:
        code = None  # v0.0.38 says success of every job that failed: what it does not know is left out
    limit, started = _number(time.get("limit")), _moment(time.get("start"))
    reason = str(own.get("reason") or "")
    used = [
        _number(resource.get("count"))
        for step in job.get("steps") or ()
        for resource in ((step.get("tres") or {}).get("requested") or {}).get("max") or ()
        if resource.get("type") == "mem"
    ]
    return BatchState(
        str(_number(array.get("job_id")) or number),
        task,
        str(job.get("name") or ""),
        state,
        reason if started is None and reason != "None" else "",
        _nodes(job.get("nodes")),
        code,
        signal,
        submitted_at=_moment(time.get("submission")),
        started_at=started,
        ended_at=_moment(time.get("end")),
        elapsed_s=None if (took := _number(time.get("elapsed"))) is None else float(took),
        time_limit_s=None if limit is None else limit * 60.0,
        requeues=0,
        memory_max_bytes=max((amount for amount in used if amount is not None), default=None),
        comment=str((job.get("comment") or {}).get("job") or ""),
        work_dir=str(job.get("working_directory") or ""),
        partition=str(job.get("partition") or ""),
        source="slurmrestd",
        raw=str(number),
    )


def _partition(partition: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> Partition:
    name = str(partition.get("name") or "")
    own = [node for node in nodes if name in (node.get("partitions") or ())]
    cpus = [number for node in own if (number := _number(node.get("cpus"))) is not None]
    memory = [number for node in own if (number := _number(node.get("real_memory"))) is not None]
    limit = partition.get("max_time_limit", (partition.get("maximums") or {}).get("time"))
    minutes, state = _number(limit), partition.get("state", (partition.get("partition") or {}).get("state"))
    gres = dict.fromkeys(part for node in own for part in str(node.get("gres") or "").split(",") if part)
    return Partition(
        name=name,
        default="default" in [str(flag).lower() for flag in partition.get("flags") or ()],
        up=_word(state) == "UP",
        time_limit_s=None if minutes is None else minutes * 60.0,
        nodes=_number(partition.get("total_nodes")) or len(own),
        idle=sum(_word(node.get("state")).lower() == "idle" for node in own),
        cpus_per_node=min(cpus, default=None),
        memory_per_node_bytes=min(memory) * 2**20 if memory else None,
        gres=tuple(gres),
    )


def _word(value: object) -> str:
    """A state: a word, or a list whose first is the state and whose others are flags."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = value[0] if value else ""
    return str(value or "")


def _number(value: object) -> int | None:
    """A number, plain or as `{set, infinite, number}`."""
    if isinstance(value, Mapping):
        return _number(value.get("number")) if value.get("set") and not value.get("infinite") else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _moment(value: object) -> datetime | None:
    number = _number(value)
    return datetime.fromtimestamp(number, UTC) if number else None


def _between(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start).total_seconds()


def _exit(value: object) -> tuple[int | None, int | None]:
    if not isinstance(value, Mapping):
        status = _number(value)
        return (None, None) if status is None else (status >> 8 & 0xFF, status & 0x7F or None)
    signal = value.get("signal") or {}
    return _number(value.get("return_code")), _number(signal.get("signal_id", signal.get("id"))) or None


def _nodes(value: object) -> str:
    return "" if value in (None, "None assigned") else str(value)
