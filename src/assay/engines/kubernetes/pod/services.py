"""Services in pods of their own, reached by their names: waited for until they answer, and made warm."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from assay.engines.kubernetes.pod.context import Address, PodContext
from assay.engines.node import service_patience_s
from assay.errors import MeasureError
from assay.run.services import RunningService
from assay.run.services.readiness import Question, steps
from assay.run.services.warmup import warm
from assay.spec.addresses import Ports
from assay.spec.benchmark import Definition, Service
from assay.spec.target import Served, ServiceTarget

_TELL_EVERY_S = 10.0
Tell = Callable[[str], None]


def await_services(inside: PodContext, *, tell: Tell, unless: Callable[[], None]) -> dict[str, RunningService]:
    """Wait until the services of the job answer under their names.

    Kubernetes sends nobody to a service before its own probe has found it ready, so an answer means that it is. Nobody
    waits for ever: longer than a service may take to get ready or to fail, and no more.

    Raises:
        MeasureError: if one does not answer in time.
    """
    definition = inside.job.definition
    begun_s = time.monotonic()
    found = {}
    for name, address in inside.services.items():
        found[name] = _awaited(name, address, inside, begun_s, tell, unless)
        tell(f"the service {name} answers at {found[name].base_url}")
    return {name: _warmed(one, definition, unless) for name, one in found.items()}


def _awaited(
    name: str, address: Address, inside: PodContext, begun_s: float, tell: Tell, unless: Callable[[], None]
) -> RunningService:
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
        answer = question.ask(max(0.1, left_s))
        if answer is None:
            return _running(name, address, section, started_ns, inside.work)
        if left_s <= 0:
            raise MeasureError(
                f"the service {name} did not answer within {bound:g} s; last answer: {answer}",
                code="service-not-ready",
                at=f"services.{name}",
                try_=f"look at its log (assay logs JOB --service {name}), or raise ready.within",
            )
        if time.monotonic() - told_s >= _TELL_EVERY_S:
            told_s = time.monotonic()
            tell(f"waiting for {name} since {told_s - begun_s:.0f} s: {answer}")
        time.sleep(step_s)
    raise AssertionError("the steps never end")


def _ports(name: str, inside: PodContext) -> Ports:
    own, others = inside.services[name], inside.services
    return Ports(
        own.port,
        {one: at.port for one, at in others.items()},
        f"services.{name}",
        own.host,
        {one: at.host for one, at in others.items()},
    )


def _running(name: str, address: Address, section: Service, started_ns: int, work: Path) -> RunningService:
    # What it writes is in its own pod; whoever follows the campaign keeps it. Empty files say nothing here.
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


def _warmed(running: RunningService, definition: Definition, unless: Callable[[], None]) -> RunningService:
    """The service with its model loaded, where it is the target and its protocol can be asked for that."""
    target = definition.target
    own = isinstance(target, ServiceTarget) and target.service == running.name
    if not own or not isinstance(target, Served):
        return running
    within_s = definition.services[running.name].ready.within
    warmed = warm(target, running.base_url, within_s, unless=unless)
    return replace(running, facts={**running.facts, **warmed.facts()})
