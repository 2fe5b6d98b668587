"""Slurm through its own commands: sbatch, squeue, sacct, scancel, sinfo, scontrol.

Arguments never pass through a shell. What the controller still remembers (running, waiting, ended a few minutes ago)
comes from squeue; what it has forgotten from accounting, or from the plain record of completed jobs that small sites
keep. Accounting is asked as seldom as possible: a whole site shares it.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.engines.slurm import parsing
from assay.engines.slurm.scheduler import BatchState, ClusterFacts, Dependency, is_final, read_script, taken_as
from assay.errors import MeasureError

PATIENCE_S = 60.0
# Accounting is asked this far back for jobs whose number was lost.
_REMEMBERED = "now-90days"
_CHUNK = 500
# Of the variables that sbatch reads, those that say who pays and where; the rest would overrule the script.
_TAKEN = {"SBATCH_ACCOUNT": "--account=", "SBATCH_PARTITION": "--partition=", "SBATCH_QOS": "--qos=",
          "SBATCH_RESERVATION": "--reservation="}  # fmt: skip
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
_FILTERS = ("SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_", "SCONTROL_", "SLURM_")
_SILENT = re.compile(
    r"timed out|unable to contact|connection refused|zero bytes|communication connection failure", re.IGNORECASE
)
_GONE = re.compile(r"invalid job id|already completing or completed|job/step already", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Said:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """What it complained about, on one line."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return "; ".join(dict.fromkeys(lines))[:500] or f"exit status {self.code}, and no word about it"


@dataclass(slots=True)
class CommandLine:
    """Reaches Slurm through the commands on this machine's PATH."""

    patience_s: float = PATIENCE_S
    """How long one command may take."""
    _tasks: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Number of a task → its array and index, as squeue reported them: the record of completed jobs does not."""
    _ended: dict[str, BatchState] = field(default_factory=dict)
    """What was reported of ended jobs: it stays true when Slurm forgets them."""
    _in_accounting: set[str] = field(default_factory=set)
    """Jobs that accounting was asked for."""

    def submit(self, script: Path, *, after: Sequence[Dependency] = (), comment: str) -> str:
        """Hand over a batch script and return the number of its job."""
        words = ["sbatch", "--parsable", f"--comment={comment}"]
        # A job whose condition can no longer hold must end, or it waits for ever.
        words += [f"--dependency={','.join(map(str, after))}", "--kill-on-invalid-dep=yes"] if after else []
        try:
            said = self._run([*words, str(script)], environ=_for_sbatch(script))
            if said.code:
                raise _refused("sbatch", said, at=str(script))
        except MeasureError as problem:
            return taken_as(self, comment, problem)
        number = said.out.strip().splitlines()[-1].partition(";")[0] if said.out.strip() else ""
        if not number.isdigit():
            raise MeasureError(f"sbatch answered {said.out!r}, which is no number of a job", code="slurm-answer")
        return number

    def states(self, ids: Collection[str]) -> Mapping[str, BatchState]:
        """What Slurm tells about jobs, by their key."""
        wanted = set(ids)
        numbers = list(dict.fromkeys(key.partition("_")[0] for key in ids))
        states = {state.key: state for state in self._queue(numbers)}
        states = {**{key: state for key, state in self._ended.items() if state.id in numbers}, **states}
        forgotten = [number for number in numbers if self._is_forgotten(number, wanted, states)]
        for state in self._accounted(forgotten) if forgotten else ():
            states.setdefault(state.key, state)
        self._in_accounting |= set(forgotten)
        self._ended |= {key: state for key, state in states.items() if is_final(state.state)}
        return {key: state for key, state in states.items() if key in wanted or state.id in wanted}

    def find(self, comment_prefix: str, *, work_dir: Path | None = None) -> tuple[BatchState, ...]:
        """Jobs of this user whose comment begins with a text."""
        user = getpass.getuser()
        states = {state.key: state for state in self._read_queue([f"--user={user}"])}
        for state in self._accounting([f"--user={user}", f"--starttime={_REMEMBERED}"]):
            states.setdefault(state.key, state)
        return tuple(state for state in states.values() if _belongs(state, comment_prefix, work_dir))

    def cancel(self, ids: Collection[str]) -> None:
        """End jobs, running or waiting."""
        wanted = list(dict.fromkeys(ids))
        for begin in range(0, len(wanted), _CHUNK):
            said = self._run(["scancel", *wanted[begin : begin + _CHUNK]])
            # With --quiet, scancel says nothing about real refusals either: the lines are distinguished here.
            errors = [line for line in said.err.splitlines() if line.strip() and not _GONE.search(line)]
            if said.code and errors:
                raise _refused("scancel", _Said(said.code, "", "\n".join(errors)))

    def check(self) -> ClusterFacts:
        version = self._answer(["sinfo", "--version"]).split()[-1]
        wanted = parsing.FIELD.join(parsing.INFO_FIELDS) + parsing.RECORD
        info = self._answer(["sinfo", "--noheader", f"--format={wanted}"])
        config = parsing.settings(self._answer(["scontrol", "show", "config"]))
        accounting, why = self._accounting_kind()
        return ClusterFacts(
            version=version,
            name=config.get("ClusterName", ""),
            partitions=parsing.partitions(info),
            accounting=accounting,
            why_no_accounting=why,
            max_array=_number(config.get("MaxArraySize")),
            kept_s=_number(config.get("MinJobAge")),
        )

    def _is_forgotten(self, number: str, wanted: Collection[str], states: Mapping[str, BatchState]) -> bool:
        """Whether accounting must be asked: the queue does not say all that is wanted of a job."""
        there = [state for state in states.values() if state.id == number]
        if not there or any(key.startswith(f"{number}_") and key not in states for key in wanted):
            return True
        # The first tasks of an array may have ended long before the last; once is enough to hear of them.
        return there[0].task is not None and number in wanted and number not in self._in_accounting

    def _queue(self, numbers: Sequence[str]) -> list[BatchState]:
        states: list[BatchState] = []
        for begin in range(0, len(numbers), _CHUNK):
            states += self._read_queue([f"--jobs={','.join(numbers[begin : begin + _CHUNK])}"])
        return states

    def _read_queue(self, which: Sequence[str]) -> tuple[BatchState, ...]:
        words = ["squeue", "--noheader", "--array", "--states=all", f"--Format={parsing.queue_format()}", *which]
        said = self._run(words)
        if said.code and _GONE.search(said.err):  # the only job asked for is one that the controller forgot
            return ()
        if said.code:
            raise _refused("squeue", said)
        states = parsing.queue_states(said.out)
        self._tasks |= {state.raw: (state.id, state.task) for state in states if state.task is not None}
        return states

    def _accounted(self, numbers: Sequence[str]) -> tuple[BatchState, ...]:
        raw = [own for own, (array, _) in self._tasks.items() if array in numbers]
        return self._accounting([f"--jobs={','.join(dict.fromkeys(numbers))}"], raw)

    def _accounting(self, which: Sequence[str], raw: Sequence[str] = ()) -> tuple[BatchState, ...]:
        """What is remembered of ended jobs; nothing where no accounting is kept."""
        if shutil.which("sacct") is None:
            return ()
        said = self._sacct(parsing.ACCOUNT_FIELDS, ["--duplicates", *which])
        if said.code == 0:
            return parsing.account_states(_recorded(said.out))
        if "disabled" not in said.words.lower():
            raise _refused("sacct", said)
        more = [word if not word.startswith("--jobs=") else ",".join((word, *raw)) for word in which]
        said = self._sacct(parsing.COMPLETION_FIELDS, ["--completion", *more])
        return () if said.code else parsing.completion_states(_recorded(said.out), self._tasks)

    def _accounting_kind(self) -> tuple[str, str]:
        if shutil.which("sacct") is None:
            return "", "there is no sacct on this machine"
        said = self._sacct(("JobID",), ["--starttime=now-1hour"])
        if said.code == 0:
            return "sacct", ""
        plain = self._sacct(("JobID",), ["--completion", "--starttime=now-1hour"])
        return (
            ("jobcomp", said.words) if plain.code == 0 and "disabled" not in plain.words.lower() else ("", said.words)
        )

    def _sacct(self, fields: Sequence[str], more: Sequence[str]) -> _Said:
        return self._run(
            ["sacct", "--noheader", "--parsable", f"--delimiter={parsing.FIELD}", f"--format={','.join(fields)}", *more]
        )

    def _answer(self, words: Sequence[str]) -> str:
        said = self._run(words)
        if said.code:
            raise _refused(words[0], said)
        return said.out

    def _run(self, words: Sequence[str], environ: Mapping[str, str] | None = None) -> _Said:
        variables = _clean(os.environ) if environ is None else environ
        try:
            done = subprocess.run(
                words,
                env={**variables, "SLURM_TIME_FORMAT": "%s"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.patience_s,
                check=False,
            )
        except FileNotFoundError:
            remedy = "run assay on a login node of the cluster, load its Slurm module, or set place.slurm.rest"
            raise MeasureError(f"there is no {words[0]} on this machine", code="slurm-missing", try_=remedy) from None
        except subprocess.TimeoutExpired:
            message = f"{words[0]} did not answer within {self.patience_s:g} s"
            remedy = "see whether the controller is up: scontrol ping"
            raise MeasureError(message, code="slurm-silent", try_=remedy) from None
        return _Said(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def _recorded(text: str) -> str:
    """The lines of sacct, whose fields each end in the mark, as records."""
    return re.sub(f"{parsing.FIELD}\n(?=[0-9]|$)", parsing.RECORD, text)


def _belongs(state: BatchState, prefix: str, work_dir: Path | None) -> bool:
    if state.comment:
        return state.comment.startswith(prefix)
    return work_dir is not None and state.work_dir == str(work_dir)


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would change the meaning of a command or belongs to a surrounding job."""
    return {name: value for name, value in environ.items() if name in _KEPT or not name.startswith(_FILTERS)}


def _for_sbatch(script: Path) -> dict[str, str]:
    """The environment of a submission: defaults of the user hold where the script itself is silent."""
    lines = [line for line in read_script(script).splitlines() if line.startswith("#SBATCH")]
    own = {
        name: os.environ[name]
        for name, option in _TAKEN.items()
        if name in os.environ and not any(option in line for line in lines)
    }
    return {**_clean(os.environ), **own}


def _refused(who: str, said: _Said, at: str = "") -> MeasureError:
    words = said.words
    if _SILENT.search(words):
        message = f"{who} cannot reach the controller: {words}"
        return MeasureError(message, code="slurm-silent", at=at, try_="see whether it is up: scontrol ping")
    return MeasureError(f"{who} refused: {words}", code="slurm-refused", at=at, try_=_remedy(words))


def _remedy(words: str) -> str:
    """What to change after a refusal that is known."""
    remedies = {
        "partition": "place.slurm.partition",
        "account": "place.slurm.account",
        "qos": "place.slurm.qos",
        "time limit": "place.slurm.time",
        "memory": "place.slurm.memory",
        "generic resource": "place.slurm.gpus",
        "gres": "place.slurm.gpus",
        "node count": "place.slurm.nodes",
        "feature": "place.slurm.constraint",
        "node configuration": "place.slurm (cpus, memory, gpus, constraint)",
        "constraint": "place.slurm.constraint",
        "reservation": "place.slurm.reservation",
        "unrecognized option": "place.slurm.options",
    }
    setting = next((key for word, key in remedies.items() if word in words.lower()), "place.slurm")
    return f"change {setting}; `assay clusters check` lists partitions, limits and GPUs"


def _number(text: str | None) -> int | None:
    match = re.match(r"\d+", text or "")
    return None if match is None else int(match[0])
