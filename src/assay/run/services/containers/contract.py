"""The seam between services and what runs their containers: the record of a container, and what a runtime must do."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from assay.run.services.containers.image_cache import Image

Kind = Literal["apptainer", "podman", "charliecloud", "docker", "kubernetes"]
LABEL = "assay"
# The container beside ours in a pod, which no program here starts.
SIDECAR_KIND: Kind = "kubernetes"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A program that runs containers."""

    kind: Kind
    program: str


@dataclass(frozen=True, slots=True)
class Container:
    """One container: everything that its command line says."""

    runtime: Runtime
    image: str
    name: str
    tag: str
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] = ()
    """Words for the image's own command, where `command` is left out."""
    env: Mapping[str, str] | None = None
    """Variables whose values may be read in the list of processes."""
    hidden: Mapping[str, str] | None = None
    """Variables with secrets: named on the command line, their values go by the program's own environment."""
    mounts: Mapping[str, str] | None = None
    workdir: str | None = None
    gpus: int | None = None
    port: int = 0
    host: str = LOOPBACK
    """The address that the service listens on."""
    host_network: bool = True
    shm: int | None = None
    """Bytes of shared memory, for runtimes that give little by themselves."""


PATIENCE_S = 30.0
_LAST_LINES = 5


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command of a runtime ended."""

    ok: bool
    text: str
    """What it printed."""
    problem: str = ""
    """Its last words, where it failed."""
    beside: str = ""
    """What it wrote to standard error."""


def run(command: Iterable[str], within_s: float = PATIENCE_S, env: Mapping[str, str] | None = None) -> CommandResult:
    words = [*command]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
            env=env,
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return CommandResult(False, "", f"{words[0]} did not end within {within_s:.0f} s")
    except OSError as failure:
        return CommandResult(False, "", f"{words[0]}: {failure.strerror or failure}")
    if done.returncode == 0:
        return CommandResult(True, done.stdout, beside=done.stderr)
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return CommandResult(
        False, done.stdout, " | ".join(lines[-_LAST_LINES:]) or f"{words[0]} ended with {done.returncode}"
    )


def ask(command: Iterable[str], within_s: float = PATIENCE_S) -> str:
    """What a runtime answers; nothing where it fails or does not answer."""
    said = run(command, within_s)
    return said.text if said.ok else ""


def version(program: str) -> str:
    """What a runtime says about itself."""
    # One of them refuses to say anything to a user without a name, and says it on standard error.
    said = run([program, "--version"], env={"USER": getpass.getuser(), **os.environ})
    return (said.text.strip() or said.beside.strip()) if said.ok else ""


class ContainerRuntime(Protocol):
    """How one runtime is used. `command` is the whole command inside: it takes the place of the entry point."""

    @property
    def kind(self) -> Kind:
        """Its name in the file."""
        ...

    @property
    def programs(self) -> tuple[str, ...]:
        """Names under which it is looked for."""
        ...

    @property
    def stays(self) -> bool:
        """Whether a container outlives the program that started it, so that it must be written down and removed."""
        ...

    def image(self, image: str, base: Path, at: str) -> str:
        """An image's name as the runtime wants it.

        Args:
            image: as the file has it; `docker://…` and a plain name mean the same.

        Raises:
            MeasureError: if the file of an image is not there, or this runtime cannot read it.
        """
        ...

    def words(self, box: Container) -> list[str]:
        """The command line that runs a container in the foreground."""
        ...

    def environment(self, box: Container, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment of the program that runs the container."""
        ...

    def facts(self, box: Container) -> dict[str, str]:
        """What the image really is: `image_digest` or `image_id` where it is here; asked before the start."""
        ...

    def fetched(self, box: Container, folder: Path, within_s: float) -> Container:
        """The box with an image that is here: kept before, or fetched now and kept where the runtime has no store.

        Raises:
            MeasureError: if it cannot be fetched, with the runtime's own words.
        """
        ...

    def first_pid(self, box: Container, started: int) -> int | None:
        """The container's first process as this machine sees it."""
        ...

    def reference(self, image: str) -> str:
        """The name under which an image is kept."""
        ...

    def keep(self, program: str, image: str, folder: Path, within_s: float) -> Image:
        """Keep an image for all nodes; one that was kept before is only found.

        Raises:
            MeasureError: if it cannot be fetched, with the runtime's own words.
        """
        ...

    def remove(self, box: Container) -> None:
        """End a container by its name, whatever became of the program that started it."""
        ...
