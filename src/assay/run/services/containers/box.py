"""What a container is asked to be: one record that every runtime reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["apptainer", "podman", "charliecloud", "docker", "kubernetes"]
LABEL = "assay"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A program that runs containers."""

    kind: Kind
    program: str


@dataclass(frozen=True, slots=True)
class Box:
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
