"""The whole system on this machine in containers, by the Compose file of deploy/ with Podman or Docker."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from assay.errors import MeasureError, UsageError
from assay.files import write_whole
from assay.infra.commands import call, deploy_folder, show, succeeds
from assay.infra.processes.parts import HERE, agent, page, probed
from assay.infra.processes.setup import server_port
from assay.infra.record import (
    InfraOptions,
    Keys,
    Notify,
    PartState,
    Status,
    find_system,
    how_to_use,
    keep,
    make_folder,
    make_keys,
    remove_folder,
    url_of,
)
from assay.run.services.plan import free_port
from assay.version import __version__

RECORD = "compose.json"
SETTINGS = "compose.env"
FILE = "docker-compose.yml"
_POLL_S = 1.0
_COMMANDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "docker": (("docker", "compose"), ("docker-compose",)),
    "podman": (("podman", "compose"), ("podman-compose",)),
}
_TRY = {
    "docker": "install Docker with its Compose plug-in",
    "podman": "install a newer podman-compose (`pipx install podman-compose`; Debian 12's is too old), or use --with "
    "processes",
}


@dataclass(frozen=True, slots=True)
class ComposeRecord:
    """A system in containers, as it was asked for and set up."""

    version: str
    runtime: str
    command: tuple[str, ...]
    """The words that call Compose."""
    project: str
    host: str
    port: int
    metrics_port: int
    tag: str
    made: tuple[str, ...] = ()

    def words(self, folder: Path, *more: str) -> list[str]:
        where = ("--project-name", self.project, "--env-file", str(folder / SETTINGS))
        return [*self.command, *where, "--file", str(deploy_folder() / FILE), *more]


def create(options: InfraOptions, notify: Notify) -> Status:
    """Bring the system up, or bring it up again."""
    folder, record = find_system("local", options.name, RECORD, ComposeRecord)
    if record is None:
        _refuse_no_tree()
        runtime, host = str(options.with_), options.host or HERE
        command = compose_command(runtime)
        port = server_port(options.port, host)
        record = ComposeRecord(
            version=__version__,
            runtime=runtime,
            command=command,
            project=f"assay-{options.name}",
            host=host,
            port=port,
            metrics_port=free_port({port}),
            tag=secrets.token_hex(8),
            made=make_folder(folder),
        )
        keep(folder, RECORD, record)
    keys = make_keys(folder)
    write_whole(folder / SETTINGS, settings(record, keys, options.allow).encode())
    notify("building images and starting containers; the first time takes minutes")
    show(record.words(folder, "up", "--detach", "--build"), code="compose")
    _refuse_unstarted(record)
    _await(record, keys, options.within_s, notify)
    return status(options.name)


def status(name: str) -> Status:
    folder, record = find_system("local", name, RECORD, ComposeRecord)
    if record is None:
        return Status("local", name, "absent")
    then = how_to_use(url_of(record.host, record.port), folder) | {"logs": " ".join(record.words(folder, "logs"))}
    return Status.of("local", name, _parts(record, make_keys(folder)), folder, then)


def destroy(name: str, notify: Notify, *, keep_data: bool) -> None:
    """Remove the containers of a system, and its volumes, images and folder unless the data are kept."""
    folder, record = find_system("local", name, RECORD, ComposeRecord)
    if record is None:
        return
    call(record.words(folder, "down", *(() if keep_data else ("--volumes",))), code="compose")
    _sweep(record, keep_data=keep_data)
    if keep_data:
        notify(f"the containers are gone; volumes and {folder} are kept")
        return
    for image in images():
        if succeeds([record.runtime, "image", "rm", image]):
            notify(f"removed the image {image}")
    remove_folder(folder, record.made)
    notify(f"containers, volumes and {folder} are removed; images of other projects stay in {record.runtime}")


def compose_command(runtime: str) -> tuple[str, ...]:
    """The words that call Compose with a container runtime."""
    for words in _COMMANDS[runtime]:
        # The secrets reach it by a file, which the first releases of podman-compose could not be given.
        if succeeds([*words, "--env-file", os.devnull, "version"]):
            return words
    raise UsageError(
        f"there is no Compose for {runtime} on this machine that knows --env-file",
        code="no-compose",
        at=f"--with {runtime}",
        try_=_TRY[runtime],
    )


def images() -> tuple[str, ...]:
    return tuple(f"localhost/assay-{kind}:{__version__}" for kind in ("server", "agent"))


def settings(record: ComposeRecord, keys: Keys, allow: tuple[str, ...]) -> str:
    """The variables of the Compose file, with the secrets: in a file that its owner alone can read."""
    server, worker = images()
    values = {
        "ASSAY_SERVER_IMAGE": server,
        "ASSAY_AGENT_IMAGE": worker,
        "ASSAY_BIND": record.host,
        "ASSAY_PORT": str(record.port),
        "ASSAY_METRICS_PORT": str(record.metrics_port),
        "ASSAY_TAG": record.tag,
        "ASSAY_AGENT_ALLOW": " ".join(allow),
        "ASSAY_DATABASE_PASSWORD": keys.database,
        "ASSAY_REDIS_PASSWORD": keys.redis,
        "ASSAY_ADMIN_TOKEN": keys.admin,
        "ASSAY_AGENT_TOKEN": keys.agent,
        "ASSAY_READER_TOKEN": keys.reader,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _refuse_no_tree() -> None:
    """Raise where there is nothing that images can be built from: an installed package has no tree around it."""
    tree = deploy_folder().parent
    if not (tree / "pyproject.toml").is_file():
        raise UsageError(
            "the images are built from a checkout of assay, and this one is installed",
            code="no-tree",
            at=str(tree),
            try_="run it from a checkout, or use --with processes",
        )


def _sweep(record: ComposeRecord, *, keep_data: bool) -> None:
    """Remove what Compose left: a container that starts again by itself is not always gone when it says so."""
    kinds = {"container": ("rm", "--force", "--volumes"), "network": ("rm",)}
    for kind, words in {**kinds, **({} if keep_data else {"volume": ("rm",)})}.items():
        for resource in _of_project(record, kind):
            succeeds([record.runtime, kind, *words, resource])
        if left := _of_project(record, kind):
            raise MeasureError(
                f"a {kind} of the system is still there: {left[0]}",
                code="compose",
                try_=f"{record.runtime} {kind} rm --force {left[0]}, then destroy again",
            )


def _refuse_unstarted(record: ComposeRecord) -> None:
    """Raise if a container was made and never started: Compose does not always fail when the runtime refuses one."""
    made = _of_project(record, "container", "--filter", "status=created", "--format", "{{.Names}}")
    if made:
        raise MeasureError(
            f"{record.runtime} did not start {', '.join(made)}",
            code="compose",
            try_=f"see its messages above, fix the cause, then create it again; `{record.runtime} start "
            f"{made[0]}` says it once more",
        )


def _of_project(record: ComposeRecord, kind: str, *more: str) -> list[str]:
    words = (kind, "ls", *(("--all",) if kind == "container" else ()), *(more or ("--quiet",)))
    mark = f"label=com.docker.compose.project={record.project}"
    return call([record.runtime, *words, "--filter", mark], code="compose").split()


def _await(record: ComposeRecord, keys: Keys, within_s: float, notify: Notify) -> None:
    until = time.monotonic() + within_s
    reported: set[str] = set()
    while True:
        late = []
        for part in _parts(record, keys):
            if part.state != "healthy":
                late.append(part)
            elif part.name not in reported:
                reported.add(part.name)
                notify(f"{part.name} is healthy")
        if not late:
            return
        if time.monotonic() > until:
            raise MeasureError(
                f"{late[0].name} was not healthy within {within_s:g} s: {late[0].detail}",
                code="infra",
                try_="`assay infra status` says how to read the logs",
            )
        time.sleep(_POLL_S)


def _parts(record: ComposeRecord, keys: Keys) -> tuple[PartState, ...]:
    """The parts that can be reached from here; that the server is ready says the same of database and queue."""
    url, metrics = url_of(record.host, record.port), f"http://127.0.0.1:{record.metrics_port}"
    parts: dict[str, tuple[str, Callable[[], str | None]]] = {
        "server": (url, lambda: page(f"{url}/api/v1/ready")),
        "prometheus": (metrics, lambda: page(f"{metrics}/-/ready")),
        "agent": ("", lambda: agent(url, keys.reader, record.tag)),
    }
    answers = {name: probed(probe, keys) for name, (_, probe) in parts.items()}
    return tuple(
        PartState(name, "unhealthy" if answers[name] else "healthy", address, detail=answers[name] or "")
        for name, (address, _) in parts.items()
    )
