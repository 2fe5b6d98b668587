"""Podman and Docker: images in a store of their own, containers that outlive the program that started them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.errors import MeasureError
from assay.run.services.containers import kept
from assay.run.services.containers.asking import ask, run, version
from assay.run.services.containers.box import LABEL, Box, Kind
from assay.run.services.containers.kept import is_file


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

    def words(self, box: Box) -> list[str]:
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

    def environment(self, box: Box, inherited: Mapping[str, str]) -> dict[str, str]:
        """Our own, and the secrets that the command line only names."""
        return {**inherited, **(box.hidden or {})}

    def facts(self, box: Box) -> dict[str, str]:
        """Identity and digest, where the store has the image."""
        facts = {"image": box.image, "runtime": self.kind, "runtime_version": version(box.runtime.program)}
        return facts | read_inspected(ask([box.runtime.program, "image", "inspect", box.image]))

    def fetched(self, box: Box, folder: Path, within_s: float) -> Box:
        """Load a kept archive where the store does not have the image, or pull it; the start tells what failed."""
        program = box.runtime.program
        if read_inspected(ask([program, "image", "inspect", box.image])):
            return box
        archive = kept.find(folder, self.kind, box.image)
        if archive is None or not run([program, "load", "--quiet", "--input", str(archive.path)], within_s).ok:
            run([program, "pull", "--quiet", box.image], within_s)
        return box

    def first_pid(self, box: Box, started: int) -> int | None:  # noqa: ARG002  (that one is only the client)
        """The process inside, where this machine can see it."""
        said = ask([box.runtime.program, "inspect", "--format", "{{.State.Pid}}", box.name]).strip()
        return int(said) if said.isdigit() and int(said) > 0 and sys.platform == "linux" else None

    def remove(self, box: Box) -> None:
        ask([box.runtime.program, "rm", "--force", *at_once(box.runtime.program), box.name])

    def reference(self, image: str) -> str:
        return image

    def keep(self, program: str, image: str, folder: Path, within_s: float) -> kept.Image:
        """Pull an image and keep an archive of it, from which nodes without a network load it.

        Raises:
            MeasureError: if it cannot be pulled or saved.
        """

        def make(path: Path) -> dict[str, str]:
            known = read_inspected(ask([program, "image", "inspect", image]))
            if not known:
                kept.done(run([program, "pull", "--quiet", image], within_s), image, "pulled")
                known = read_inspected(ask([program, "image", "inspect", image]))
            form = ["--format", "oci-archive"] if self.kind == "podman" else []
            kept.done(run([program, "save", *form, "--output", str(path), image], within_s), image, "saved")
            return known

        return kept.keep(folder, self.kind, image, ".tar", make)


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
