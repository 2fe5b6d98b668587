"""Containers: which program runs them here, the command lines for it, and their certain end.

`command` is the whole command inside the container with all of them: it takes the place of the image's entry point.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from assay.errors import MeasureError
from assay.run.services.plan import Ports, Wanted
from assay.spec.secrets import REFERENCE

Kind = Literal["apptainer", "podman", "docker"]
# In the order in which they are looked for; the first needs no rights and no daemon.
PROGRAMS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("apptainer", ("apptainer", "singularity")),
    ("podman", ("podman",)),
    ("docker", ("docker",)),
)
LABEL = "assay"
# The containers that a run may have left; written before the first one starts, and read by whoever sweeps.
MARKER = "containers.jsonl"
_PATIENCE_S = 30.0


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
    env: Mapping[str, str] | None = None
    """Variables whose values may be read in the list of processes."""
    hidden: Mapping[str, str] | None = None
    """Variables with secrets: named on the command line, their values go by the program's own environment."""
    mounts: Mapping[str, str] | None = None
    workdir: str | None = None
    gpus: int | None = None
    port: int = 0
    host_network: bool = True


def find_runtime(asked: str, at: str, which: Callable[[str], str | None] = shutil.which) -> Runtime:
    """The program that runs containers here: the one asked for, or the first that is there.

    Raises:
        MeasureError: if it is missing, with what was looked for.
    """
    looked: list[str] = []
    for kind, names in PROGRAMS:
        if asked not in ("auto", kind):
            continue
        for name in names:
            looked.append(name)
            if found := which(name):
                return Runtime(kind, found)
    raise MeasureError(
        f"no program that runs containers is here (looked for {', '.join(looked)})",
        code="container-runtime",
        at=at,
        try_="install one of them, or start the service as a plain process with `command`",
    )


def make_box(
    wanted: Wanted,
    ports: Ports,
    env: Mapping[str, str],
    base: Path,
    *,
    name: str,
    tag: str,
    which: Callable[[str], str | None] = shutil.which,
) -> Box:
    """What runs a service's image.

    Args:
        wanted: the service.
        ports: put in for `{port}`.
        env: its variables, secrets put in.
        base: the benchmark file's folder.
        name: of the container, never used before.
        tag: by which a sweep finds it.
        which: where a program lies.
    """
    at = f"{wanted.at}.image"
    runtime = find_runtime(wanted.container, at, which)
    secret = {key for key, value in wanted.env.items() if REFERENCE.search(value)}
    return Box(
        runtime,
        image_for(runtime.kind, wanted.image or "", base, at),
        name,
        tag,
        command=None if wanted.command is None else tuple(ports.fill(word) for word in wanted.command),
        env={key: value for key, value in env.items() if key not in secret},
        hidden={key: value for key, value in env.items() if key in secret},
        mounts=_mounts(wanted, base),
        workdir=wanted.cwd,
        gpus=wanted.gpus,
        port=ports.own,
        # Elsewhere containers live in a virtual machine, whose network is not ours.
        host_network=sys.platform == "linux",
    )


def image_for(kind: Kind, image: str, base: Path, at: str) -> str:
    """An image's name as a runtime wants it: `docker://…` and a plain name mean the same.

    Raises:
        MeasureError: if the file of an image is not there, or this runtime cannot read it.
    """
    is_file = image.endswith((".sif", ".sqsh", ".img")) and "://" not in image
    if kind == "apptainer":
        if not is_file:
            return image if "://" in image else f"docker://{image}"
        path = (base / image).absolute()
        if not path.exists():
            raise MeasureError(f"the image {str(path)!r} is not there", code="service-command", at=at,
                               try_="it is relative to the benchmark file's folder")  # fmt: skip
        return str(path)
    if is_file:
        raise MeasureError(f"{kind} cannot run the image file {image!r}", code="container-runtime", at=at,
                           try_="install apptainer, or name an image of a registry")  # fmt: skip
    return image.removeprefix("docker://")


def run_words(box: Box) -> list[str]:
    """The command line that runs a container in the foreground."""
    return _apptainer_words(box) if box.runtime.kind == "apptainer" else _oci_words(box)


def client_environment(box: Box, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of the program that runs the container."""
    if box.runtime.kind != "apptainer":
        return {**inherited, **(box.hidden or {})}
    inside = {**(box.env or {}), **(box.hidden or {})}
    # Both names: what is called singularity may be either of the two projects.
    return {**inherited, **{f"{kind}ENV_{key}": value for key, value in inside.items()
                            for kind in ("APPTAINER", "SINGULARITY")}}  # fmt: skip


def mark(box: Box, scratch: Path) -> None:
    """Write down that a container may exist, before it does."""
    if box.runtime.kind != "apptainer":  # its processes are ours; nothing stays behind when they are gone
        with (scratch / MARKER).open("a") as file:
            file.write(json.dumps({"program": box.runtime.program, "tag": box.tag}) + "\n")


def remove(box: Box) -> None:
    """End a container by its name, whatever became of the program that started it."""
    if box.runtime.kind != "apptainer":
        _ask([box.runtime.program, "rm", "--force", *_at_once(box.runtime.program), box.name])


def sweep_containers(tag: str, scratch: Path) -> int:
    """Remove every container that a run left behind; return how many that was.

    Costs nothing where the run started none.

    Args:
        tag: the run's, as `assay.run.processes.TAG_VARIABLE` has it.
        scratch: the run's folder, where its containers were written down.
    """
    try:
        lines = (scratch / MARKER).read_text().splitlines()
    except OSError:
        return 0
    programs = {found["program"] for line in lines if (found := json.loads(line))["tag"] == tag}
    removed = 0
    for program in sorted(programs):
        names = _ask([program, "ps", "--all", "--quiet", "--filter", f"label={LABEL}={tag}"]).split()
        if names:
            _ask([program, "rm", "--force", *_at_once(program), *names])
        removed += len(names)
    return removed


def image_facts(box: Box) -> dict[str, str]:
    """What the runtime says the image really is; asked before the start, so that it disturbs nothing."""
    facts = {"image": box.image, "runtime": box.runtime.kind, "runtime_version": _version(box.runtime)}
    if box.runtime.kind == "apptainer":
        return {**facts, **_apptainer_digest(box.image)}
    return facts | read_inspected(_ask([box.runtime.program, "image", "inspect", box.image]))


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


def fetch(box: Box, within_s: float) -> None:
    """Fetch an image that is not here yet, before the clock of a start runs; the start then tells what failed."""
    if box.runtime.kind != "apptainer":
        _ask([box.runtime.program, "pull", "--quiet", box.image], within_s)


def first_pid(box: Box) -> int | None:
    """The container's first process as this machine sees it."""
    if box.runtime.kind == "apptainer":
        return None
    said = _ask([box.runtime.program, "inspect", "--format", "{{.State.Pid}}", box.name]).strip()
    return int(said) if said.isdigit() and int(said) > 0 and sys.platform == "linux" else None


def _oci_words(box: Box) -> list[str]:
    kind, program = box.runtime.kind, box.runtime.program
    found = [program, "run", "--rm", "--name", box.name, "--label", f"{LABEL}={box.tag}"]
    found += ["--network=host"] if box.host_network else ["--publish", f"127.0.0.1:{box.port}:{box.port}"]
    if box.gpus:
        found += ["--device", "nvidia.com/gpu=all"] if kind == "podman" else ["--gpus", str(box.gpus)]
    for key, value in (box.env or {}).items():
        found += ["--env", f"{key}={value}"]
    for key in box.hidden or {}:
        found += ["--env", key]
    for here, there in (box.mounts or {}).items():
        found += ["--volume", f"{here}:{there}"]
    found += ["--workdir", box.workdir] if box.workdir else []
    if box.command is None:
        return [*found, box.image]
    return [*found, "--entrypoint", box.command[0], box.image, *box.command[1:]]


def _apptainer_words(box: Box) -> list[str]:
    found = [box.runtime.program, "run" if box.command is None else "exec"]
    # Images are read-only here; many services write beside their program, as they may with the other runtimes.
    found += ["--cleanenv", "--writable-tmpfs", *(["--nv"] if box.gpus else [])]
    for here, there in (box.mounts or {}).items():
        found += ["--bind", f"{here}:{there}"]
    found += ["--pwd", box.workdir] if box.workdir else []
    return [*found, box.image, *(box.command or ())]


def _mounts(wanted: Wanted, base: Path) -> dict[str, str]:
    found = {}
    for here, there in wanted.mounts.items():
        path = (base / Path(here).expanduser()).absolute()
        if not path.exists():
            raise MeasureError(
                f"mounts names {str(path)!r}, which is not there",
                code="service-command",
                at=f"{wanted.at}.mounts",
                try_="it is relative to the benchmark file's folder",
            )
        found[str(path)] = there
    return found


def _apptainer_digest(image: str) -> dict[str, str]:
    if "@sha256:" in image:
        return {"image_digest": image.partition("@")[2]}
    if "://" in image:
        return {"image_digest_absent": "apptainer does not tell it; name the image by @sha256:… to fix it"}
    with Path(image).open("rb") as file:
        return {"image_digest": f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"}


def _version(runtime: Runtime) -> str:
    return _ask([runtime.program, "--version"]).strip()


def _at_once(program: str) -> Sequence[str]:
    """Options that spare a forced removal its own waiting; it comes after ours."""
    return ("--time", "0") if Path(program).name == "podman" else ()


def _ask(command: Iterable[str], within_s: float = _PATIENCE_S) -> str:
    """What a runtime answers; nothing where it fails or does not answer."""
    try:
        done = subprocess.run([*command], capture_output=True, text=True, timeout=within_s, check=False,
                              stdin=subprocess.DEVNULL)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
