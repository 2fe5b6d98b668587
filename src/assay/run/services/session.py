"""Sessions of services: they run as long as the body of a `with`, and never longer, however it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import MeasureError
from assay.folders import images_folder
from assay.run.processes import GRACE_S, HURRIED_GRACE_S, IN_GOOD_ORDER, TAG_VARIABLE, kill_tree, sweep
from assay.run.services.containers import sweep_containers
from assay.run.services.discovery import announced
from assay.run.services.plan import HOST, ServiceSpec, refuse_meaningless, words
from assay.run.services.service import RunningService, tail_of

if TYPE_CHECKING:
    from assay.spec.benchmark import Service

Tell = Callable[[str], None]
KEEPER_LOG = "keeper.log"
# Ending by force and removing containers come after the time that services are given.
_AFTER_GRACE_S = 20.0


@contextmanager
def started(
    services: Mapping[str, Service],
    base: Path,
    scratch: Path,
    *,
    known: Mapping[str, RunningService] | None = None,
    tell: Tell | None = None,
    host: str = HOST,
) -> Iterator[Mapping[str, RunningService]]:
    """Start services in the order of the file, give them when all are ready, and end them afterwards.

    Args:
        tell: called about once a second with what is waited for.

    Raises:
        MeasureError: if one cannot be started or does not get ready; those before it are ended.
    """
    if not services:
        yield {}
        return
    tag = os.environ.get(TAG_VARIABLE) or uuid.uuid4().hex
    with (
        _keeper(_order(services, base, scratch, tag, known or {}, host), scratch, tag) as keeper,
        announced(_ready(keeper, scratch, tell)) as ready,
    ):
        yield ready


@contextmanager
def held(
    services: Mapping[str, Service],
    base: Path,
    folder: Path,
    *,
    known: Mapping[str, RunningService] | None = None,
    tell: Tell | None = None,
    host: str = HOST,
    logs: Path | None = None,
) -> Iterator[Mapping[str, RunningService]]:
    """Start the services that all runs of a job share, in the process that starts the runs.

    They have a tag of their own, so that the sweep after a run does not take them; it is swept here at the end.

    Args:
        folder: for what is kept about them on this machine, and for their log files.
        tell: called about once a second with what is waited for.
        logs: another folder for their log files, which may lie on a shared file system.
    """
    if not services:
        yield {}
        return
    tag = uuid.uuid4().hex
    try:
        with (
            _keeper(_order(services, base, folder, tag, known or {}, host, logs), folder, tag) as keeper,
            announced(_ready(keeper, folder, tell)) as ready,
        ):
            yield ready
    finally:
        sweep(tag)
        sweep_containers(tag, folder)


@contextmanager
def _keeper(order: str, scratch: Path, tag: str) -> Iterator[subprocess.Popen[bytes]]:
    with (scratch / KEEPER_LOG).open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "assay.run.services.keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, TAG_VARIABLE: tag},
            start_new_session=True,  # Ctrl-C is for us; it hears of it by its lifeline
        )
    grace_s = HURRIED_GRACE_S
    try:
        _say(keeper, order.encode() + b"\n")
        yield keeper
        grace_s = GRACE_S
    except Exception:
        grace_s = GRACE_S
        raise
    finally:
        _let_go(keeper, grace_s, tag, scratch)


def _let_go(keeper: subprocess.Popen[bytes], grace_s: float, tag: str, scratch: Path) -> None:
    """Cut the lifeline and wait until everything is ended; a second Ctrl-C ends it by force."""
    try:
        if grace_s == GRACE_S:
            _say(keeper, IN_GOOD_ORDER)
        with suppress(OSError):
            keeper.stdin.close()  # type: ignore[union-attr]
        keeper.wait(timeout=grace_s + _AFTER_GRACE_S)
    except BaseException as problem:
        # Only what is below the keeper: in a run, its tag is also that of the process that measures.
        kill_tree(keeper.pid, f"below-{tag}")
        keeper.wait()
        sweep_containers(tag, scratch)
        if not isinstance(problem, subprocess.TimeoutExpired):
            raise
    finally:
        keeper.stdout.close()  # type: ignore[union-attr]


def _say(keeper: subprocess.Popen[bytes], said: bytes) -> None:
    with suppress(OSError):  # it has ended; what it told says why
        keeper.stdin.write(said)  # type: ignore[union-attr]
        keeper.stdin.flush()  # type: ignore[union-attr]


def _ready(keeper: subprocess.Popen[bytes], scratch: Path, tell: Tell | None) -> dict[str, RunningService]:
    """Follow what the keeper tells until all services are ready."""
    ready: dict[str, RunningService] = {}
    for line in keeper.stdout or ():
        said: dict[str, Any] = json.loads(line)
        event = said.pop("event")
        if event == "waiting" and tell is not None:
            tell(f"{said['name']} not ready after {said['seconds']:.0f} s: {said['answer']}")
        elif event == "ready":
            ready[said["name"]] = _running(said)
        elif event == "failed":
            raise MeasureError(said["message"], code=said["code"], at=said["at"], try_=said["try_"])
        elif event == "all":
            return ready
    lines = "\n".join(tail_of(scratch / KEEPER_LOG, 10))
    raise MeasureError(
        f"the process that keeps the services ended: {lines or 'it wrote nothing'}",
        code="service",
        at="services",
        try_="was it killed for memory?",
    )


def _running(said: Mapping[str, Any]) -> RunningService:
    paths = {key: Path(said[key]) for key in ("stdout", "stderr")}
    return RunningService(**{**said, **paths, "secrets": tuple(said["secrets"])})


def _order(
    services: Mapping[str, Service],
    base: Path,
    scratch: Path,
    tag: str,
    known: Mapping[str, RunningService],
    host: str,
    logs: Path | None = None,
) -> str:
    """The order for the keeper; secrets stay references in it, which the keeper resolves itself."""
    asked = [service_spec(name, service) for name, service in services.items()]
    for one in asked:
        refuse_meaningless(one)
    return json.dumps(
        {
            "base": str(base.absolute()),
            "scratch": str(scratch.absolute()),
            "tag": tag,
            "host": host,
            "images": str(images_folder()),
            "logs": None if logs is None else str(logs.absolute()),
            "known": {name: (one.host, one.port) for name, one in known.items()},
            "services": [asdict(one) for one in asked],
        }
    )


def service_spec(name: str, service: Service) -> ServiceSpec:
    """A service's section in its plain form; with `container: none` its image is only a remark."""
    at = f"services.{name}"
    plain = service.container == "none"
    return ServiceSpec(
        name=name,
        image=None if plain else service.image,
        command=words(service.command, f"{at}.command"),
        cwd=service.cwd,
        port=service.port,
        env=service.env,
        container="auto" if plain else service.container,
        mounts=service.mounts,
        gpus=service.needs.gpus,
        ready_http=service.ready.http,
        ready_tcp=service.ready.tcp,
        ready_command=words(service.ready.command, f"{at}.ready.command"),
        within_s=service.ready.within,
        unused_image=service.image if plain else None,
    )
