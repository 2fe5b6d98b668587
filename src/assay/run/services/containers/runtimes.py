"""The container runtimes: podman and docker, apptainer (and singularity, its other name), charliecloud.

Podman and docker have images in a store of their own, and containers that outlive the program that started them. The
other two run image files as our own processes, and need no rights and no daemon.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.errors import MeasureError
from assay.run.services.containers import image_cache
from assay.run.services.containers.contract import LABEL, Container, Kind, ask, run, version
from assay.run.services.containers.image_cache import file_digest, is_file


@dataclass(frozen=True, slots=True)
class Oci:
    """One of the two; they differ in a handful of words."""

    kind: Kind
    programs: tuple[str, ...]
    stays: bool = True

    def image(self, image: str, base: Path, at: str) -> str:  # noqa: ARG002  (these know no files)
        """The name of an image in a registry or in the runtime's own store."""
        if is_file(image):
            raise MeasureError(
                f"{self.kind} cannot run the image file {image!r}",
                code="container-runtime",
                at=at,
                try_="install apptainer or charliecloud, or name an image of a registry",
            )
        return image.removeprefix("docker://")

    def words(self, box: Container) -> list[str]:
        """`run --rm` with everything that the box says."""
        found = [box.runtime.program, "run", "--rm", "--name", box.name, "--label", f"{LABEL}={box.tag}"]
        if box.host_network:
            found += ["--network=host"]
        elif box.port:
            found += ["--publish", f"{box.host}:{box.port}:{box.port}"]
        found += ["--shm-size", str(box.shm)] if box.shm else []
        if box.gpus:
            found += ["--device", "nvidia.com/gpu=all"] if self.kind == "podman" else ["--gpus", str(box.gpus)]
        for key, value in (box.env or {}).items():
            found += ["--env", f"{key}={value}"]
        for key in box.hidden or {}:
            found += ["--env", key]
        for here, there in (box.mounts or {}).items():
            found += ["--volume", f"{here}:{there}"]
        found += ["--workdir", box.workdir] if box.workdir else []
        if box.command is None:
            return [*found, box.image, *box.args]
        return [*found, "--entrypoint", box.command[0], box.image, *box.command[1:]]

    def environment(self, box: Container, inherited: Mapping[str, str]) -> dict[str, str]:
        """Our own, and the secrets that the command line only names."""
        return {**inherited, **(box.hidden or {})}

    def facts(self, box: Container) -> dict[str, str]:
        """Identity and digest, where the store has the image."""
        facts = {"image": box.image, "runtime": self.kind, "runtime_version": version(box.runtime.program)}
        return facts | read_inspected(ask([box.runtime.program, "image", "inspect", box.image]))

    def fetched(self, box: Container, folder: Path, within_s: float) -> Container:
        """Load a kept archive where the store does not have the image, or pull it; the start tells what failed."""
        program = box.runtime.program
        if read_inspected(ask([program, "image", "inspect", box.image])):
            return box
        archive = image_cache.find(folder, self.kind, box.image)
        if archive is None or not run([program, "load", "--quiet", "--input", str(archive.path)], within_s).ok:
            run([program, "pull", "--quiet", box.image], within_s)
        return box

    def first_pid(self, box: Container, started: int) -> int | None:  # noqa: ARG002  (that one is only the client)
        """The process inside, where this machine can see it."""
        said = ask([box.runtime.program, "inspect", "--format", "{{.State.Pid}}", box.name]).strip()
        return int(said) if said.isdigit() and int(said) > 0 and sys.platform == "linux" else None

    def remove(self, box: Container) -> None:
        ask([box.runtime.program, "rm", "--force", *at_once(box.runtime.program), box.name])

    def reference(self, image: str) -> str:
        return image

    def keep(self, program: str, image: str, folder: Path, within_s: float) -> image_cache.Image:
        """Pull an image and keep an archive of it, from which nodes without a network load it.

        Raises:
            MeasureError: if it cannot be pulled or saved.
        """

        def make(path: Path) -> dict[str, str]:
            known = read_inspected(ask([program, "image", "inspect", image]))
            if not known:
                image_cache.refuse_failed(run([program, "pull", "--quiet", image], within_s), image, "pulled")
                known = read_inspected(ask([program, "image", "inspect", image]))
            form = ["--format", "oci-archive"] if self.kind == "podman" else []
            image_cache.refuse_failed(
                run([program, "save", *form, "--output", str(path), image], within_s), image, "saved"
            )
            return known

        return image_cache.keep(folder, self.kind, image, ".tar", make)


PODMAN = Oci("podman", ("podman",))
DOCKER = Oci("docker", ("docker",))


def read_inspected(answer: str) -> dict[str, str]:
    """What a runtime's description of an image says about its identity; nothing where it knows no such image."""
    try:
        told = json.loads(answer)[0]
    except (ValueError, LookupError):
        return {}
    identity = str(told["Id"])
    digests = [told.get("Digest") or "", *(name.partition("@")[2] for name in told.get("RepoDigests") or ())]
    digest = next((one for one in digests if one), "")
    found = {"image_id": identity if ":" in identity else f"sha256:{identity}"}
    return found | ({"image_digest": digest} if digest else {})


def at_once(program: str) -> Sequence[str]:
    """Options that spare a forced removal its own waiting; it comes after ours."""
    return ("--time", "0") if Path(program).name == "podman" else ()


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
        return image_cache.present(base, image, at)

    def words(self, box: Container) -> list[str]:
        """`exec` with the command, or `run` for the image's own."""
        found = [box.runtime.program, "run" if box.command is None else "exec"]
        # Images are read-only here; many services write beside their program, as they may with the other runtimes.
        found += ["--cleanenv", "--writable-tmpfs", *(["--nv"] if box.gpus else [])]
        for here, there in (box.mounts or {}).items():
            found += ["--bind", f"{here}:{there}"]
        found += ["--pwd", box.workdir] if box.workdir else []
        return [*found, box.image, *(box.args if box.command is None else box.command)]

    def environment(self, box: Container, inherited: Mapping[str, str]) -> dict[str, str]:
        """Our own, with the container's variables under the names that the runtime looks for."""
        inside = {**(box.env or {}), **(box.hidden or {})}
        # Both names: what is called singularity may be either of the two projects.
        return {
            **inherited,
            **{f"{kind}ENV_{key}": value for key, value in inside.items() for kind in ("APPTAINER", "SINGULARITY")},
        }

    def facts(self, box: Container) -> dict[str, str]:
        """The digest of the image file."""
        facts = {"image": box.image, "runtime": self.kind, "runtime_version": version(box.runtime.program)}
        return facts | ({} if "://" in box.image else {"image_digest": file_digest(Path(box.image))})

    def fetched(self, box: Container, folder: Path, within_s: float) -> Container:
        """The box with the kept file in place of a URL."""
        if "://" not in box.image:
            return box
        return replace(box, image=str(self.keep(box.runtime.program, box.image, folder, within_s).path))

    def first_pid(self, box: Container, started: int) -> int | None:  # noqa: ARG002  (it becomes the container)
        """The program itself: what runs inside is below it."""
        return started

    def remove(self, box: Container) -> None:
        """Nothing stays behind when its processes are gone."""

    def reference(self, image: str) -> str:
        return image

    def keep(self, program: str, image: str, folder: Path, within_s: float) -> image_cache.Image:
        """Make a registry's image into a file, once for all nodes.

        Raises:
            MeasureError: if it cannot be pulled.
        """

        def make(path: Path) -> dict[str, str]:
            image_cache.refuse_failed(run([program, "pull", "--force", str(path), image], within_s), image, "pulled")
            return {"image_digest": image.partition("@")[2]} if "@sha256:" in image else {}

        return image_cache.keep(folder, self.kind, image, ".sif", make)


APPTAINER = Apptainer()


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
            return image_cache.present(base, image, at)
        if "://" not in image and (base / image).is_dir():
            return image_cache.present(base, image, at)
        return image.removeprefix("docker://")

    def words(self, box: Container) -> list[str]:
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

    def environment(self, box: Container, inherited: Mapping[str, str]) -> dict[str, str]:
        """Nearly nothing: what ch-run has in its own environment, the container has too."""
        user = inherited.get("USER") or getpass.getuser()
        return {"USER": user, "HOME": _TMP, "PATH": _PATH, **(box.hidden or {})}

    def facts(self, box: Container) -> dict[str, str]:
        """The digest of the image file; a folder has none."""
        facts = {"image": box.image, "runtime": self.kind, "runtime_version": version(box.runtime.program)}
        path = Path(box.image)
        if path.is_dir():
            return {**facts, "image_id": f"folder:{path}", "image_digest_absent": "the image is a folder"}
        runs = path.is_file() and not box.image.endswith(_ARCHIVES)
        return facts | ({"image_digest": file_digest(path)} if runs else {})

    def fetched(self, box: Container, folder: Path, within_s: float) -> Container:
        """The box with a kept squashfs file in place of an archive or a name."""
        path = Path(box.image)
        if path.is_dir() or (path.is_file() and not box.image.endswith(_ARCHIVES)):
            return box
        return replace(box, image=str(self.keep(box.runtime.program, box.image, folder, within_s).path))

    def first_pid(self, box: Container, started: int) -> int | None:  # noqa: ARG002  (there is no other name for it)
        """The program itself: it became the command, or holds it below where it serves a squashfs file to it."""
        return started

    def remove(self, box: Container) -> None:
        """Nothing stays behind when its processes are gone."""

    def reference(self, image: str) -> str:
        """Its own name; an archive is known by its content, since under its name there may be another one tomorrow."""
        return f"{image}@{file_digest(Path(image))}" if Path(image).is_file() else image

    def keep(self, program: str, image: str, folder: Path, within_s: float) -> image_cache.Image:
        """Make an archive or a registry's image into a squashfs file, once for all nodes.

        Raises:
            MeasureError: if it cannot be pulled or converted.
        """
        beside = Path(program).parent
        env = {**os.environ, "USER": os.environ.get("USER") or getpass.getuser()}

        def make(path: Path) -> dict[str, str]:
            form = "tar" if Path(image).is_file() else "ch-image"
            if form == "ch-image":
                image_cache.refuse_failed(
                    run([str(beside / "ch-image"), "pull", image], within_s, env), image, "pulled"
                )
            words = [str(beside / "ch-convert"), "-i", form, "-o", "squash", image, str(path)]
            image_cache.refuse_failed(run(words, within_s, env), image, "converted")
            return {"image_digest": image.partition("@")[2]} if "@sha256:" in image else {}

        return image_cache.keep(folder, self.kind, self.reference(image), ".sqfs", make)


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
