"""The seam between services and what runs their containers: a small interface, one module for each runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from assay.run.services.containers.box import Box, Kind
from assay.run.services.containers.kept import Image


class Way(Protocol):
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

    def words(self, box: Box) -> list[str]:
        """The command line that runs a container in the foreground."""
        ...

    def environment(self, box: Box, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment of the program that runs the container."""
        ...

    def facts(self, box: Box) -> dict[str, str]:
        """What the image really is: `image_digest` or `image_id` where it is here; asked before the start."""
        ...

    def fetched(self, box: Box, folder: Path, within_s: float) -> Box:
        """The box with an image that is here: kept before, or fetched now and kept where the runtime has no store.

        Raises:
            MeasureError: if it cannot be fetched, with the runtime's own words.
        """
        ...

    def first_pid(self, box: Box, started: int) -> int | None:
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

    def remove(self, box: Box) -> None:
        """End a container by its name, whatever became of the program that started it."""
        ...
