"""Apptainer (and Singularity, its other name): images are files, processes are ours, no rights and no daemon needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from assay.run.services.containers import kept
from assay.run.services.containers.asking import run, version
from assay.run.services.containers.box import Box, Kind
from assay.run.services.containers.kept import file_digest, is_file


@dataclass(frozen=True, slots=True)
class Apptainer:
    """Runs `.sif` files; a registry's image is made into one, once, and kept."""

    kind: Kind = "apptainer"
    programs: tuple[str, ...] = ("apptainer", "singularity")
    stays: bool = False

    def image(self, image: str, base: Path, at: str) -> str:
        """The path of an image file, or a URL."""
        if not is_file(image):
            return image if "://" in image else f"docker://{image}"
        return kept.present(base, image, at)

    def words(self, box: Box) -> list[str]:
        """`exec` with the command, or `run` for the image's own."""
        found = [box.runtime.program, "run" if box.command is None else "exec"]
        # Images are read-only here; many services write beside their program, as they may with the other runtimes.
        found += ["--cleanenv", "--writable-tmpfs", *(["--nv"] if box.gpus else [])]
        for here, there in (box.mounts or {}).items():
            found += ["--bind", f"{here}:{there}"]
        found += ["--pwd", box.workdir] if box.workdir else []
        return [*found, box.image, *(box.args if box.command is None else box.command)]

    def environment(self, box: Box, inherited: Mapping[str, str]) -> dict[str, str]:
        """Our own, with the container's variables under the names that the runtime looks for."""
        inside = {**(box.env or {}), **(box.hidden or {})}
        # Both names: what is called singularity may be either of the two projects.
        return {
            **inherited,
            **{f"{kind}ENV_{key}": value for key, value in inside.items() for kind in ("APPTAINER", "SINGULARITY")},
        }

    def facts(self, box: Box) -> dict[str, str]:
        """The digest of the image file."""
        facts = {"image": box.image, "runtime": self.kind, "runtime_version": version(box.runtime.program)}
        return facts | ({} if "://" in box.image else {"image_digest": file_digest(Path(box.image))})

    def fetched(self, box: Box, folder: Path, within_s: float) -> Box:
        """The box with the kept file in place of a URL."""
        if "://" not in box.image:
            return box
        return replace(box, image=str(self.keep(box.runtime.program, box.image, folder, within_s).path))

    def first_pid(self, box: Box, started: int) -> int | None:  # noqa: ARG002  (it becomes the container)
        """The program itself: what runs inside is below it."""
        return started

    def remove(self, box: Box) -> None:
        """Nothing stays behind when its processes are gone."""

    def reference(self, image: str) -> str:
        return image

    def keep(self, program: str, image: str, folder: Path, within_s: float) -> kept.Image:
        """Make a registry's image into a file, once for all nodes.

        Raises:
            MeasureError: if it cannot be pulled.
        """

        def make(path: Path) -> dict[str, str]:
            kept.done(run([program, "pull", "--force", str(path), image], within_s), image, "pulled")
            return {"image_digest": image.partition("@")[2]} if "@sha256:" in image else {}

        return kept.keep(folder, self.kind, image, ".sif", make)


APPTAINER = Apptainer()
