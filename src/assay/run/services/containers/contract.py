"""The seam between services and what runs their containers: the record of a container, and what a runtime must do."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from assay.errors import MeasureError
from assay.run.services.containers import image_cache
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
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
            env=env,
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


def run_on_image(
    command: Iterable[str], image: str, verb: str, within_s: float, env: Mapping[str, str] | None = None
) -> None:
    result = run(command, within_s, env)
    if not result.ok:
        raise MeasureError(
            f"the image {image!r} could not be {verb}: {result.problem}",
            code="image",
            at="services",
            try_="fetch it where there is a network: `assay prepare FILE`",
        )


def runtime_output(command: Iterable[str], within_s: float = PATIENCE_S) -> str:
    """What a runtime answers; nothing where it fails or does not answer."""
    result = run(command, within_s)
    return result.text if result.ok else ""


def version(program: str) -> str:
    """What a runtime says about itself."""
    # One of them refuses to say anything to a user without a name, and says it on standard error.
    result = run([program, "--version"], env={"USER": getpass.getuser(), **os.environ})
    return (result.text.strip() or result.beside.strip()) if result.ok else ""


class ContainerRuntime:
    """How one runtime is used. `command` is the whole command inside: it takes the place of the entry point."""

    kind: Kind
    programs: tuple[str, ...] = ()
    """Names under which it is looked for."""
    stays = False
    """Whether a container outlives the program that started it, so that it must be written down and removed."""
    suffix = ""
    """Of the files that hold its images."""

    def image(self, image: str, base: Path, at: str) -> str:
        """An image's name as the runtime wants it.

        Args:
            image: as the file has it; `docker://…` and a plain name mean the same.

        Raises:
            MeasureError: if the file of an image is not there, or this runtime cannot read it.
        """
        raise NotImplementedError

    def words(self, box: Container) -> list[str]:
        """The command line that runs a container in the foreground.

        Raises:
            MeasureError: if the runtime knows no command of the image's own, and the box has none.
        """
        raise NotImplementedError

    def environment(self, box: Container, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment of the program that runs the container: here the secrets that its command line only names."""
        return {**inherited, **(box.hidden or {})}

    def facts(self, box: Container) -> dict[str, str]:
        """What the image really is: `image_digest` or `image_id` where it is here; asked before the start."""
        facts = {"image": box.image, "runtime": self.kind, "runtime_version": version(box.runtime.program)}
        return facts | self.identity(box)

    def identity(self, box: Container) -> dict[str, str]:
        """What tells an image that is here from others."""
        raise NotImplementedError

    def fetched(self, box: Container, folder: Path, within_s: float) -> Container:
        """The box with an image that is here: kept before, or fetched now and kept where the runtime has no store.

        Raises:
            MeasureError: if it cannot be fetched, with the runtime's own words.
        """
        return replace(box, image=str(self.keep(box.runtime.program, box.image, folder, within_s).path))

    def first_pid(self, box: Container, started: int) -> int | None:  # noqa: ARG002
        """The container's first process as this machine sees it: the program itself, unless it is a client."""
        return started

    def reference(self, image: str) -> str:
        """The name under which an image is kept."""
        return image

    def keep(self, program: str, image: str, folder: Path, within_s: float) -> Image:
        """Keep an image for all nodes; one that was kept before is only found.

        Raises:
            MeasureError: if it cannot be fetched, with the runtime's own words.
        """
        make = partial(self.make, program, image, within_s)
        return image_cache.keep(folder, self.kind, self.reference(image), self.suffix, make)

    def make(self, program: str, image: str, within_s: float, path: Path) -> dict[str, str]:
        """Fetch an image into a file; what the runtime or its name tells about its identity in the registry."""
        raise NotImplementedError

    def remove(self, box: Container) -> None:
        """End a container by its name; by default nothing stays behind when its processes are gone."""


def registry_name(image: str, program: str, at: str, try_: str) -> str:
    """The name of an image in a registry or in a runtime's own store."""
    if image_cache.is_file(image):
        message = f"{program} cannot run the image file {image!r}"
        raise MeasureError(message, code="container-runtime", at=at, try_=try_)
    return image.removeprefix("docker://")


def digest_in(image: str) -> dict[str, str]:
    """The digest that the name of an image holds."""
    return {"image_digest": image.partition("@")[2]} if "@sha256:" in image else {}
