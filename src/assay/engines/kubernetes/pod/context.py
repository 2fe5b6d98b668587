"""What a pod knows of itself: its documents, its place to work, its services, and who else goes with it."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assay.documents import from_json
from assay.engines.node import service_patience_s, warm_facts
from assay.errors import MeasureError, UsageError
from assay.plan.job import Job, JobFile
from assay.run.services import RunningService
from assay.spec.benchmark import Service
from assay.spec.references import Ports

# Where Kubernetes reads a pod's last words; set to another place where there is no such file.
ENDED, ENDED_FILE = "ASSAY_POD_ENDED", "/dev/termination-log"
# Of a pod whose results go to a server.
SERVER = "ASSAY_POD_SERVER"
_JOB, _WORK, _FILES = "ASSAY_POD_JOB", "ASSAY_POD_WORK", "ASSAY_POD_FILES"
_RANK = "ASSAY_POD_RANK"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service is reached."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Ranks:
    """The pods that go together, and which of them this is."""

    rank: int
    peers: tuple[str, ...]
    """Their names, in order of rank."""
    port: int
    launch: str = "each"
    others: tuple[str, ...] = ()
    """What pods but the first run, where the first alone runs the command."""


@dataclass(frozen=True, slots=True)
class PodContext:
    """One pod, seen from inside."""

    documents: Path
    work: Path
    job: Job
    services: Mapping[str, Address] = field(default_factory=dict)
    ranks: Ranks | None = None
    files: Path | None = None
    name: str = ""
    node: str = ""
    address: str = ""

    @property
    def out(self) -> Path:
        """What the measurement leaves."""
        return self.work / "out"

    @property
    def base(self) -> Path:
        """The folder that relative paths of the job start from."""
        return self.work / "base"

    @property
    def secret(self) -> str:
        """What the pods that go together know, and no other process needs to."""
        peers = self.ranks.peers if self.ranks is not None else ()
        return hashlib.sha256("\0".join((self.job.campaign, *peers)).encode()).hexdigest()

    def fetch(self, file: JobFile, to: Path) -> None:
        """Put a file of the job where it belongs, from the parts that were mounted."""
        parts = [] if self.files is None else list(self.files.glob(f"{file.sha256}.*"))
        if not parts:
            message = f"the file {file.name} did not come with the pod"
            raise UsageError(message, code="no-file", at=str(self.files or ""), try_="submit the campaign again")
        to.parent.mkdir(parents=True, exist_ok=True)
        with to.open("wb") as sink:
            for part in sorted(parts, key=lambda piece: int(piece.suffix[1:])):
                sink.write(part.read_bytes())


def read_inside(environ: Mapping[str, str] | None = None) -> PodContext:
    """What this pod knows of itself."""
    variables = os.environ if environ is None else environ
    if _JOB not in variables or _WORK not in variables:
        message = f"{_JOB} and {_WORK} are not set: this is no pod of a campaign"
        remedy = "`assay run FILE` starts such pods; `assay exec` measures a job document here"
        raise UsageError(message, code="no-campaign", try_=remedy)
    documents = Path(variables[_JOB])
    job = from_json(Job, _read(documents / "job.json"), source=str(documents / "job.json"))
    services = {
        name: Address(str(entry["host"]), int(entry["port"]))
        for name, entry in _json(documents / "services.json").items()
    }
    return PodContext(
        documents,
        Path(variables[_WORK]),
        job,
        services,
        _ranks(documents, variables),
        Path(variables[_FILES]) if variables.get(_FILES) else None,
        variables.get("ASSAY_POD_NAME", ""),
        variables.get("ASSAY_POD_NODE", ""),
        variables.get("ASSAY_POD_IP", ""),
    )


def _ranks(documents: Path, known: Mapping[str, str]) -> Ranks | None:
    if _RANK not in known:
        return None
    document = _json(documents / "ranks.json")
    return Ranks(
        int(known[_RANK]),
        tuple(map(str, document["peers"])),
        int(document["port"]),
        str(document.get("launch") or "each"),
        tuple(map(str, document.get("others") or ())),
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(_read(path))
    except ValueError as broken:
        raise UsageError(f"not a document: {broken}", code="document", at=str(path)) from None
    return content if isinstance(content, dict) else {}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UsageError(
            f"cannot read a document of the pod: {problem.strerror}", code="no-file", at=str(path)
        ) from None


_NOTIFY_EVERY_S = 10.0
Notify = Callable[[str], None]


def await_services(inside: PodContext, *, notify: Notify, unless: Callable[[], None]) -> dict[str, RunningService]:
    """Wait until the services of the job answer under their names.

    Kubernetes routes no request to a service before its own probe has found it ready, so an answer means that it
    is. The wait has a limit: a little longer than a service may take to get ready or to fail.
    """
    begun_s = time.monotonic()
    running = {}
    for name, address in inside.services.items():
        running[name] = _awaited(name, address, inside, begun_s, notify, unless)
        notify(f"the service {name} answers at {running[name].base_url}")
    for name, service in running.items():
        facts = warm_facts(name, service.base_url, inside.job.definition, unless)
        running[name] = replace(service, facts={**service.facts, **facts})
    return running


def _awaited(
    name: str, address: Address, inside: PodContext, begun_s: float, notify: Notify, unless: Callable[[], None]
) -> RunningService:
    from assay.run.services.launch import Question, steps

    section = inside.job.definition.services[name]
    ready = section.ready
    # A command that tells whether it is ready can only be run beside it, which Kubernetes does.
    path = None if ready.http is None else _ports(name, inside).fill(ready.http)
    question = Question(address.port, address.host, http=path, tcp=ready.tcp or path is None)
    started_ns = time.perf_counter_ns()
    bound, told_s = service_patience_s(section), time.monotonic()
    for step_s in steps():
        unless()
        left_s = begun_s + bound - time.monotonic()
        answer = question.probe(max(0.1, left_s))
        if answer is None:
            return _running(name, address, section, started_ns, inside.work)
        if left_s <= 0:
            message = f"the service {name} did not answer within {bound:g} s; last answer: {answer}"
            remedy = f"look at its log (assay logs JOB --service {name}), or raise ready.within"
            raise MeasureError(message, code="service-not-ready", at=f"services.{name}", try_=remedy)
        if time.monotonic() - told_s >= _NOTIFY_EVERY_S:
            told_s = time.monotonic()
            notify(f"waiting for {name} since {told_s - begun_s:.0f} s: {answer}")
        time.sleep(step_s)
    raise AssertionError("the steps never end")


def _ports(name: str, inside: PodContext) -> Ports:
    own, others = inside.services[name], inside.services
    return Ports(
        own.port,
        {other: at.port for other, at in others.items()},
        f"services.{name}",
        own.host,
        {other: at.host for other, at in others.items()},
    )


def _running(name: str, address: Address, section: Service, started_ns: int, work: Path) -> RunningService:
    # What it writes is in its own pod; the process that follows the campaign keeps it. Empty files say nothing here.
    logs = work / "services"
    logs.mkdir(parents=True, exist_ok=True)
    out, err = logs / f"{name}.out", logs / f"{name}.err"
    for path in (out, err):
        path.touch()
    command = section.command if isinstance(section.command, str) else " ".join(section.command or ())
    facts = {"command": command, "image": section.image or "", "service": address.host}
    return RunningService(
        name=name,
        host=address.host,
        port=address.port,
        base_url=f"http://{address.host}:{address.port}",
        started_ns=started_ns,
        ready_ns=time.perf_counter_ns(),
        pid=None,
        how="kubernetes",
        stdout=out,
        stderr=err,
        facts={key: text for key, text in facts.items() if text},
    )
