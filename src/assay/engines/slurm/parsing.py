"""The answers of Slurm's commands as records. Pure.

The commands are asked for fields that end in control characters, which no name or comment is split at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from assay.engines.slurm.scheduler import BatchState, Partition
from assay.errors import MeasureError

FIELD, RECORD = "\x1f", "\x1e"
QUEUE_FIELDS = (
    "ArrayJobID", "ArrayTaskID", "JobID", "Name", "State", "Reason", "NodeList", "SubmitTime", "StartTime", "EndTime",
    "TimeLimit", "TimeUsed", "exit_code", "RestartCnt", "Partition", "WorkDir", "Comment",
)  # fmt: skip
ACCOUNT_FIELDS = (
    "JobID", "JobIDRaw", "JobName", "State", "ExitCode", "NodeList", "Submit", "Start", "End", "ElapsedRaw",
    "TimelimitRaw", "Reason", "MaxRSS", "Partition", "WorkDir", "Comment",
)  # fmt: skip
COMPLETION_FIELDS = ("JobID", "JobName", "State", "ExitCode", "NodeList", "Start", "End", "TimelimitRaw", "Partition",
                     "WorkDir")  # fmt: skip
INFO_FIELDS = ("%R", "%a", "%l", "%D", "%T", "%c", "%m", "%G", "%P")
# More indexes than any cluster allows in one array: a broken answer must not fill the memory.
_MOST_INDEXES = 4_000_001
_ID = re.compile(r"^(?P<id>\d+)(?:_(?P<task>\d+)|_\[(?P<tasks>[^\]]*)\]?)?(?:\+\d+)?(?P<step>\..+)?$")
_SPAN = re.compile(r"^(?P<first>\d+)(?:-(?P<last>\d+)(?::(?P<step>\d+))?)?$")
_CLOCK = re.compile(r"^(?:(?P<days>\d+)-)?(?:(?:(?P<hours>\d+):)?(?P<minutes>\d+):)?(?P<seconds>\d+)$")
_SIZE = re.compile(r"^(?P<number>\d+(?:\.\d+)?)(?P<unit>[KMGTP]?)")
_POWER = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
# What a job was before it was put back into the queue.
_PUT_BACK = frozenset(("REQUEUED", "NODE_FAIL", "PREEMPTED", "REQUEUE_HOLD"))


def queue_format() -> str:
    """What squeue is asked to print: fields of any length, each with its end marked."""
    return ",".join(f"{name}:0{FIELD}" for name in QUEUE_FIELDS[:-1]) + f",{QUEUE_FIELDS[-1]}:0{RECORD}"


def queue_states(text: str) -> tuple[BatchState, ...]:
    """What squeue says, one state for each job or task."""
    return tuple(state for row in _rows(text, QUEUE_FIELDS, "squeue") for state in _queue_states(row))


def account_states(text: str) -> tuple[BatchState, ...]:
    """What sacct says: one state for each job or task, with the most memory that a step of it used."""
    lives: dict[str, list[BatchState]] = {}
    memory: dict[str, int] = {}
    for row in _rows(text, ACCOUNT_FIELDS, "sacct"):
        match = _ID.match(row["JobID"])
        if match is None:
            continue
        used = size(row["MaxRSS"])
        if used is not None:
            key = match["id"] if match["task"] is None else f"{match['id']}_{match['task']}"
            memory[key] = max(used, memory.get(key, 0))
        if match["step"] is None:
            for state in _account_states(row, match):
                lives.setdefault(state.key, []).append(state)
    return tuple(replace(_last(states), memory_max_bytes=memory.get(key)) for key, states in lives.items())


def completion_states(text: str, tasks: Mapping[str, tuple[str, int]]) -> tuple[BatchState, ...]:
    """What the record of completed jobs says (`sacct --completion`), which knows neither arrays nor comments."""
    states = []
    for row in _rows(text, COMPLETION_FIELDS, "sacct --completion"):
        if not row["State"]:  # a name with spaces breaks that record: it does not say how the job ended
            continue
        array, task = tasks.get(row["JobID"], (row["JobID"], None))
        state, reason = _word(row["State"])
        code, signal = _exit(row["ExitCode"])
        started, ended = moment(row["Start"]), moment(row["End"])
        states.append(
            BatchState(
                array,
                task,
                row["JobName"],
                state,
                reason,
                row["NodeList"],
                code,
                signal,
                started_at=started,
                ended_at=ended,
                elapsed_s=(None if started is None or ended is None else (ended - started).total_seconds()),
                time_limit_s=_minutes(row["TimelimitRaw"]),
                work_dir=row["WorkDir"],
                partition=row["Partition"],
                source="jobcomp",
                raw=row["JobID"],
            )
        )
    return tuple(states)


def partitions(text: str) -> tuple[Partition, ...]:
    """What sinfo says, put together for each partition."""
    by_partition: dict[str, list[dict[str, str]]] = {}
    for row in _rows(text, INFO_FIELDS, "sinfo"):
        by_partition.setdefault(row["%R"], []).append(row)
    return tuple(_partition(name, rows) for name, rows in by_partition.items())


def indexes(text: str) -> Iterator[int]:
    """The indexes of an array as Slurm writes them: `0-3,7,10-20:2%5`."""
    count = 0
    for part in text.partition("%")[0].split(","):
        match = _SPAN.match(part)
        if match is None:  # cut short by Slurm with `...`
            continue
        first, step = int(match["first"]), int(match["step"] or 1)
        for index in range(first, int(match["last"] or first) + 1, max(1, step)):
            count += 1
            if count > _MOST_INDEXES:
                return
            yield index


def seconds(text: str) -> float | None:
    """A span as Slurm writes it: `1-02:03:04`, `5:00`, `12`; None for UNLIMITED, INVALID and similar."""
    match = _CLOCK.match(text.strip())
    if match is None:
        return None
    days, hours, minutes, rest = (int(match[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


def moment(text: str) -> datetime | None:
    """A moment in seconds since 1970, as the commands are asked to write it; None for `N/A` and similar."""
    return datetime.fromtimestamp(int(text), UTC) if text.isdigit() and int(text) > 0 else None


def size(text: str) -> int | None:
    """A size as sacct writes it: `1024K`, `1.50G`; None where it is left out."""
    match = _SIZE.match(text.strip())
    return None if match is None else round(float(match["number"]) * 2 ** _POWER[match["unit"]])


def settings(text: str) -> dict[str, str]:
    """The lines `Name = value` of `scontrol show config`."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def _rows(text: str, fields: tuple[str, ...], who: str) -> Iterator[dict[str, str]]:
    for record in text.split(RECORD):
        values = record.lstrip("\n").split(FIELD)
        if values == [""]:
            continue
        if len(values) != len(fields):
            message = f"{who} answered {record.strip()[:200]!r}, which has {len(values)} fields and not {len(fields)}"
            remedy = "see whether a wrapper stands before Slurm's commands; `assay clusters check` tells more"
            raise MeasureError(message, code="slurm-answer", try_=remedy)
        yield dict(zip(fields, values, strict=True))


def _queue_states(row: Mapping[str, str]) -> Iterator[BatchState]:
    task = row["ArrayTaskID"]
    tasks: Iterable[int | None] = [None] if task in ("N/A", "") else indexes(task)
    state, started = row["State"], moment(row["StartTime"])
    waits = state == "PENDING"
    code, signal = _status(row["exit_code"])
    for index in tasks:
        yield BatchState(
            row["ArrayJobID"],
            index,
            row["Name"],
            state,
            "" if row["Reason"] == "None" else row["Reason"],
            row["NodeList"],
            exit_code=code,
            signal=signal,
            submitted_at=moment(row["SubmitTime"]),
            started_at=None if waits else started,
            ended_at=None if waits else moment(row["EndTime"]),
            estimated_start=started if waits else None,
            elapsed_s=None if waits else seconds(row["TimeUsed"]),
            time_limit_s=seconds(row["TimeLimit"]),
            requeues=_whole(row["RestartCnt"]),
            comment="" if row["Comment"] == "(null)" else row["Comment"],
            work_dir=row["WorkDir"],
            partition=row["Partition"],
            source="squeue",
            raw=row["JobID"],
        )


def _account_states(row: Mapping[str, str], match: re.Match[str]) -> Iterator[BatchState]:
    tasks: Iterable[int | None] = [int(match["task"])] if match["task"] else [None]
    if match["tasks"] is not None:
        tasks = indexes(match["tasks"])
    state, reason = _word(row["State"])
    code, signal = _exit(row["ExitCode"])
    # The reason is the last for which it waited: it tells nothing about the end of a job that ran.
    wait_reason = "" if row["Reason"] == "None" or moment(row["Start"]) else row["Reason"]
    nodes = "" if row["NodeList"] == "None assigned" else row["NodeList"]
    for index in tasks:
        yield BatchState(
            match["id"],
            index,
            row["JobName"],
            state,
            reason or wait_reason,
            nodes,
            code,
            signal,
            submitted_at=moment(row["Submit"]),
            started_at=moment(row["Start"]),
            ended_at=moment(row["End"]),
            elapsed_s=None if _whole(row["ElapsedRaw"]) is None else float(row["ElapsedRaw"]),
            time_limit_s=_minutes(row["TimelimitRaw"]),
            comment=row["Comment"],
            work_dir=row["WorkDir"],
            partition=row["Partition"],
            source="sacct",
            raw=row["JobIDRaw"],
        )


def _last(states: list[BatchState]) -> BatchState:
    """The latest life of a job, and how many came before: accounting keeps one for each time it was put back."""
    *before, last = states
    again = [
        state
        for state in before
        if state.state in _PUT_BACK and (state.name, state.work_dir) == (last.name, last.work_dir)
    ]
    return replace(last, requeues=len(again))


def _partition(name: str, rows: list[dict[str, str]]) -> Partition:
    cpus = [number for row in rows if (number := _whole(row["%c"].rstrip("+"))) is not None]
    memory = [number for row in rows if (number := _whole(row["%m"].rstrip("+"))) is not None]
    gres = dict.fromkeys(
        part for row in rows if row["%G"] != "(null)" for part in re.split(r",(?![^(]*\))", row["%G"]) if part
    )
    return Partition(
        name=name,
        default=any(row["%P"].endswith("*") for row in rows),
        up=any(row["%a"] == "up" for row in rows),
        time_limit_s=seconds(rows[0]["%l"]),
        nodes=sum(_whole(row["%D"]) or 0 for row in rows),
        idle=sum(_whole(row["%D"]) or 0 for row in rows if row["%T"] == "idle"),
        cpus_per_node=min(cpus, default=None),
        memory_per_node_bytes=None if not memory else min(memory) * 2**20,
        gres=tuple(gres),
    )


def _word(text: str) -> tuple[str, str]:
    """A state of accounting: `CANCELLED by 1000` is a word and who did it."""
    word, _, rest = text.partition(" ")
    return word.rstrip("+"), rest and f"{rest[:1].upper()}{rest[1:]}" if rest.startswith("by ") else ""


def _exit(text: str) -> tuple[int | None, int | None]:
    """`code:signal` of accounting."""
    code, _, signal = text.partition(":")
    return _whole(code), _whole(signal) or None


def _status(text: str) -> tuple[int | None, int | None]:
    """The status of a process as the kernel gives it: exit code in the upper byte, signal in the lower bits."""
    status = _whole(text)
    return (None, None) if status is None else (status >> 8 & 0xFF, status & 0x7F or None)


def _minutes(text: str) -> float | None:
    number = _whole(text)
    return None if number is None else number * 60.0


def _whole(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None
