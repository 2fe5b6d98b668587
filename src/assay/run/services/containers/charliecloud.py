"""Charliecloud: images are folders or squashfs files, `ch-run` becomes the process inside, no rights needed."""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from assay.errors import MeasureError
from assay.run.services.containers import kept
from assay.run.services.containers.asking import run, version
from assay.run.services.containers.box import Box, Kind
from assay.run.services.containers.kept import file_digest, is_file

# What containers of other runtimes have where the image says nothing.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Its own, in memory, and the only place in which it may write.
_TMP = "/tmp"  # noqa: S108
# The image's own variables, as `ch-image` leaves them.
_VARIABLES = "ch/environment"
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz")


@dataclass(frozen=True, slots=True)
class Charliecloud:
    """Runs folders and `.sqfs` files; archives and a registry's images are made into one, once, and kept."""

    kind: Kind = "charliecloud"
    programs: tuple[str, ...] = ("ch-run",)
    stays: bool = False

    def image(self, image: str, base: Path, at: str) -> str:
        """The path of a folder or a file, or the name of an image in a registry."""
        if is_file(image) or image.endswith(_ARCHIVES) or image.startswith(("/", "./", "../")):
            return kept.present(base, image, at)
        if "://" not in image and (base / image).is_dir():
            return kept.present(base, image, at)
        return image.removeprefix("docker://")

    def words(self, box: Box) -> list[str]:
        """`ch-run` with everything that the box says.

        Raises:
            MeasureError: if there is no command: this runtime has no entry points.
        """
        if box.command is None:
            raise MeasureError(
                "charliecloud starts no entry point of an image",
                code="service-command",
                at="services",
                try_="write the whole command",
            )
        # A /tmp of its own, for the same reason as with apptainer: the image itself is read-only.
        found = [box.runtime.program, "--private-tmp"]
        if Path(box.image).is_file():
            found += [f"--mount={mount_point()}"]
        found += ["--set-env"] if has_variables(box.image) else []
        found += ["--env-no-expand"]
        # The file's variables win over the image's; those with secrets go by the environment.
        found += [f"--set-env={key}={value}" for key, value in (box.env or {}).items()]
        # It knows no mounts that are only read.
        found += [f"--bind={here}:{there.removesuffix(':ro')}" for here, there in (box.mounts or {}).items()]
        found += [f"--cd={box.workdir}"] if box.workdir else []
        return [*found, box.image, "--", *box.command]

    def environment(self, box: Box, inherited: Mapping[str, str]) -> dict[str, str]:
        """Nearly nothing: what ch-run has in its own environment, the container has too."""
        user = inherited.get("USER") or getpass.getuser()
        return {"USER": user, "HOME": _TMP, "PATH": _PATH, **(box.hidden or {})}

    def facts(self, box: Box) -> dict[str, str]:
        """The digest of the image file; a folder has none."""
        facts = {"image": box.image, "runtime": self.kind, "runtime_version": version(box.runtime.program)}
        path = Path(box.image)
        if path.is_dir():
            return {**facts, "image_id": f"folder:{path}", "image_digest_absent": "the image is a folder"}
        runs = path.is_file() and not box.image.endswith(_ARCHIVES)
        return facts | ({"image_digest": file_digest(path)} if runs else {})

    def fetched(self, box: Box, folder: Path, within_s: float) -> Box:
        """The box with a kept squashfs file in place of an archive or a name."""
        path = Path(box.image)
        if path.is_dir() or (path.is_file() and not box.image.endswith(_ARCHIVES)):
            return box
        return replace(box, image=str(self.keep(box.runtime.program, box.image, folder, within_s).path))

    def first_pid(self, box: Box, started: int) -> int | None:  # noqa: ARG002  (there is no other name for it)
        """The program itself: it became the command, or holds it below where it serves a squashfs file to it."""
        return started

    def remove(self, box: Box) -> None:
        """Nothing stays behind when its processes are gone."""

    def reference(self, image: str) -> str:
        """Its own name; an archive is known by its content, since under its name there may be another one tomorrow."""
        return f"{image}@{file_digest(Path(image))}" if Path(image).is_file() else image

    def keep(self, program: str, image: str, folder: Path, within_s: float) -> kept.Image:
        """Make an archive or a registry's image into a squashfs file, once for all nodes.

        Raises:
            MeasureError: if it cannot be pulled or converted.
        """
        beside = Path(program).parent
        env = {**os.environ, "USER": os.environ.get("USER") or getpass.getuser()}

        def make(path: Path) -> dict[str, str]:
            form = "tar" if Path(image).is_file() else "ch-image"
            if form == "ch-image":
                kept.done(run([str(beside / "ch-image"), "pull", image], within_s, env), image, "pulled")
            words = [str(beside / "ch-convert"), "-i", form, "-o", "squash", image, str(path)]
            kept.done(run(words, within_s, env), image, "converted")
            return {"image_digest": image.partition("@")[2]} if "@sha256:" in image else {}

        return kept.keep(folder, self.kind, self.reference(image), ".sqfs", make)


CHARLIECLOUD = Charliecloud()


def mount_point() -> Path:
    """A folder on which squashfs files are mounted, each in a name space of its own."""
    folder = Path(tempfile.gettempdir()) / f"assay-images-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def has_variables(image: str) -> bool:
    """Whether an image says which variables it wants; ch-run refuses to read a list that is not there."""
    if Path(image).is_dir():
        return (Path(image) / _VARIABLES).is_file()
    return run(["unsquashfs", "-cat", image, _VARIABLES]).ok


def lacks(image: str, places: Iterable[Path]) -> list[Path]:
    """Those of some folders that cannot be mounted at their own place, since the image does not have it.

    Its /tmp is in memory, where any folder can be made.
    """
    return [place for place in places if not place.is_relative_to(_TMP) and not _has_folder(image, place)]


def _has_folder(image: str, place: Path) -> bool:
    inside = place.relative_to("/")
    if Path(image).is_dir():
        return (Path(image) / inside).is_dir()
    listed = run(["unsquashfs", "-lls", image, str(inside)]).text
    return any(line.startswith("d") and line.endswith(f"squashfs-root/{inside}") for line in listed.splitlines())
