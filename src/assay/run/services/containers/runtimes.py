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
from pathlib import Path

from assay.errors import MeasureError
from assay.run.services.containers import image_cache
from assay.run.services.containers.contract import (
    LABEL,
    Container,
    ContainerRuntime,
    digest_in,
    registry_name,
    run,
    run_on_image,
    runtime_output,
)
from assay.run.services.containers.image_cache import file_digest, is_file


class Oci(ContainerRuntime):
    """One of the two; they differ in a handful of words."""

    stays, suffix = True, ".tar"

    def image(self, image: str, base: Path, at: str) -> str:  # noqa: ARG002  (these know no files)
        hint = "install apptainer or charliecloud, or name an image of a registry"
        return registry_name(image, self.kind, at, hint)

    def words(self, box: Container) -> list[str]:
        arguments = [box.runtime.program, "run", "--rm", "--name", box.name, "--label", f"{LABEL}={box.tag}"]
        if box.host_network:
            arguments += ["--network=host"]
        elif box.port:
            arguments += ["--publish", f"{box.host}:{box.port}:{box.port}"]
        arguments += ["--shm-size", str(box.shm)] if box.shm else []
        if box.gpus:
            arguments += ["--device", "nvidia.com/gpu=all"] if self.kind == "podman" else ["--gpus", str(box.gpus)]
        for key, value in (box.env or {}).items():
            arguments += ["--env", f"{key}={value}"]
        for key in box.hidden or {}:
            arguments += ["--env", key]
        for here, there in (box.mounts or {}).items():
            arguments += ["--volume", f"{here}:{there}"]
        arguments += ["--workdir", box.workdir] if box.workdir else []
        if box.command is None:
            return [*arguments, box.image, *box.args]
        return [*arguments, "--entrypoint", box.command[0], box.image, *box.command[1:]]

    def identity(self, box: Container) -> dict[str, str]:
        return self._inspected(box.runtime.program, box.image)

    def fetched(self, box: Container, folder: Path, within_s: float) -> Container:
        """Load a kept archive where the store does not have the image, or pull it; the start tells what failed."""
        program = box.runtime.program
        if self._inspected(program, box.image):
            return box
        archive = image_cache.find(folder, self.kind, box.image)
        if archive is None or not run([program, "load", "--quiet", "--input", str(archive.path)], within_s).ok:
            run([program, "pull", "--quiet", box.image], within_s)
        return box

    def first_pid(self, box: Container, started: int) -> int | None:  # noqa: ARG002  (that one is only the client)
        """The process inside, where this machine can see it."""
        pid = runtime_output([box.runtime.program, "inspect", "--format", "{{.State.Pid}}", box.name]).strip()
        return int(pid) if pid.isdigit() and int(pid) > 0 and sys.platform == "linux" else None

    def remove(self, box: Container) -> None:
        runtime_output([box.runtime.program, "rm", "--force", *at_once(box.runtime.program), box.name])

    def make(self, program: str, image: str, within_s: float, path: Path) -> dict[str, str]:
        """Pull an image and save an archive of it, from which nodes without a network load it."""
        if not (identity := self._inspected(program, image)):
            run_on_image([program, "pull", "--quiet", image], image, "pulled", within_s)
            identity = self._inspected(program, image)
        form = ["--format", "oci-archive"] if self.kind == "podman" else []
        run_on_image([program, "save", *form, "--output", str(path), image], image, "saved", within_s)
        return identity

    def _inspected(self, program: str, image: str) -> dict[str, str]:
        return read_inspected(runtime_output([program, "image", "inspect", image]))


class Podman(Oci):
    kind, programs = "podman", ("podman",)


class Docker(Oci):
    kind, programs = "docker", ("docker",)


PODMAN, DOCKER = Podman(), Docker()


def read_inspected(answer: str) -> dict[str, str]:
    """What a runtime's description of an image says about its identity; nothing where it knows no such image."""
    try:
        described = json.loads(answer)[0]
    except (ValueError, LookupError):
        return {}
    identity = str(described["Id"])
    digests = [described.get("Digest") or "", *(name.partition("@")[2] for name in described.get("RepoDigests") or ())]
    digest = next((candidate for candidate in digests if candidate), "")
    facts = {"image_id": identity if ":" in identity else f"sha256:{identity}"}
    return facts | ({"image_digest": digest} if digest else {})


def at_once(program: str) -> Sequence[str]:
    """Options that spare a forced removal its own waiting; it comes after ours."""
    return ("--time", "0") if Path(program).name == "podman" else ()


class Apptainer(ContainerRuntime):
    """Runs `.sif` files; a registry's image is made into one, once, and kept."""

    kind, programs, suffix = "apptainer", ("apptainer", "singularity"), ".sif"

    def image(self, image: str, base: Path, at: str) -> str:
        """The path of an image file, or a URL."""
        if not is_file(image):
            return image if "://" in image else f"docker://{image}"
        return image_cache.present(base, image, at)

    def words(self, box: Container) -> list[str]:
        """`exec` with the command, or `run` for the image's own."""
        arguments = [box.runtime.program, "run" if box.command is None else "exec"]
        # Images are read-only here; many services write beside their program, as they may with the other runtimes.
        arguments += ["--cleanenv", "--writable-tmpfs", *(["--nv"] if box.gpus else [])]
        for here, there in (box.mounts or {}).items():
            arguments += ["--bind", f"{here}:{there}"]
        arguments += ["--pwd", box.workdir] if box.workdir else []
        return [*arguments, box.image, *(box.args if box.command is None else box.command)]

    def environment(self, box: Container, inherited: Mapping[str, str]) -> dict[str, str]:
        """Our own, with the container's variables under the names that the runtime looks for."""
        inside = {**(box.env or {}), **(box.hidden or {})}
        # Both names: what is called singularity may be either of the two projects.
        return {
            **inherited,
            **{f"{kind}ENV_{key}": value for key, value in inside.items() for kind in ("APPTAINER", "SINGULARITY")},
        }

    def identity(self, box: Container) -> dict[str, str]:
        return {} if "://" in box.image else {"image_digest": file_digest(Path(box.image))}

    def fetched(self, box: Container, folder: Path, within_s: float) -> Container:
        """The box with the kept file in place of a URL."""
        return super().fetched(box, folder, within_s) if "://" in box.image else box

    def make(self, program: str, image: str, within_s: float, path: Path) -> dict[str, str]:
        run_on_image([program, "pull", "--force", str(path), image], image, "pulled", within_s)
        return digest_in(image)


APPTAINER = Apptainer()


# What containers of other runtimes have where the image says nothing.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Its own, in memory, and the only place in which it may write.
_TMP = "/tmp"  # noqa: S108
# The image's own variables, as `ch-image` leaves them.
_VARIABLES = "ch/environment"
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz")


class Charliecloud(ContainerRuntime):
    """Runs folders and `.sqfs` files; archives and a registry's images are made into one, once, and kept."""

    kind, programs, suffix = "charliecloud", ("ch-run",), ".sqfs"

    def image(self, image: str, base: Path, at: str) -> str:
        """The path of a folder or a file, or the name of an image in a registry."""
        if is_file(image) or image.endswith(_ARCHIVES) or image.startswith(("/", "./", "../")):
            return image_cache.present(base, image, at)
        if "://" not in image and (base / image).is_dir():
            return image_cache.present(base, image, at)
        return image.removeprefix("docker://")

    def words(self, box: Container) -> list[str]:
        if box.command is None:
            raise MeasureError(
                "charliecloud starts no entry point of an image",
                code="service-command",
                at="services",
                try_="write the whole command",
            )
        # A /tmp of its own, for the same reason as with apptainer: the image itself is read-only.
        arguments = [box.runtime.program, "--private-tmp"]
        if Path(box.image).is_file():
            arguments += [f"--mount={mount_point()}"]
        arguments += ["--set-env"] if has_variables(box.image) else []
        arguments += ["--env-no-expand"]
        # The file's variables win over the image's; those with secrets go by the environment.
        arguments += [f"--set-env={key}={value}" for key, value in (box.env or {}).items()]
        # It knows no mounts that are only read.
        arguments += [f"--bind={here}:{there.removesuffix(':ro')}" for here, there in (box.mounts or {}).items()]
        arguments += [f"--cd={box.workdir}"] if box.workdir else []
        return [*arguments, box.image, "--", *box.command]

    def environment(self, box: Container, inherited: Mapping[str, str]) -> dict[str, str]:
        """Nearly nothing: what ch-run has in its own environment, the container has too."""
        user = inherited.get("USER") or getpass.getuser()
        return {"USER": user, "HOME": _TMP, "PATH": _PATH, **(box.hidden or {})}

    def identity(self, box: Container) -> dict[str, str]:
        path = Path(box.image)
        if path.is_dir():
            return {"image_id": f"folder:{path}", "image_digest_absent": "the image is a folder"}
        return {"image_digest": file_digest(path)} if _is_run_as_it_is(path) else {}

    def fetched(self, box: Container, folder: Path, within_s: float) -> Container:
        """The box with a kept squashfs file in place of an archive or a name."""
        return box if _is_run_as_it_is(Path(box.image)) else super().fetched(box, folder, within_s)

    def reference(self, image: str) -> str:
        """Its own name; an archive is known by its content, since under its name there may be another one tomorrow."""
        return f"{image}@{file_digest(Path(image))}" if Path(image).is_file() else image

    def make(self, program: str, image: str, within_s: float, path: Path) -> dict[str, str]:
        beside = Path(program).parent
        env = {**os.environ, "USER": os.environ.get("USER") or getpass.getuser()}
        form = "tar" if Path(image).is_file() else "ch-image"
        if form == "ch-image":
            run_on_image([str(beside / "ch-image"), "pull", image], image, "pulled", within_s, env)
        words = [str(beside / "ch-convert"), "-i", form, "-o", "squash", image, str(path)]
        run_on_image(words, image, "converted", within_s, env)
        return digest_in(image)


CHARLIECLOUD = Charliecloud()


def _is_run_as_it_is(image: Path) -> bool:
    return image.is_dir() or (image.is_file() and not image.name.endswith(_ARCHIVES))


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
