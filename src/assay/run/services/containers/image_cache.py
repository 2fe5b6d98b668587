"""Cache of images for all nodes: files named by their digest in a shared folder, fetched once for all that ask.

<folder>/<runtime>/<sha256>.sif       the image
<folder>/<runtime>/names/<hash>.json  what was asked for, and which file that is
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from assay.errors import MeasureError
from assay.files import write_whole
from assay.run.scratch import held

_DIGEST = re.compile(r"[0-9a-f]{64}")
_FILES = (".sif", ".sqsh", ".sqfs", ".squashfs", ".img")


@dataclass(frozen=True, slots=True)
class Image:
    """One image that is kept."""

    runtime: str
    reference: str
    """What was asked for, as the runtime names it."""
    path: Path
    sha256: str
    size_bytes: int
    fetched_at: str
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the runtime or the reference tells about its identity in the registry."""
    fresh: bool = False
    """Whether it was fetched just now."""


def find(folder: Path, runtime: str, reference: str) -> Image | None:
    """An image that was kept before; None where it is not there, or is no longer whole."""
    try:
        note = json.loads(_note(folder, runtime, reference).read_text())
        path = folder / runtime / note["file"]
        if path.stat().st_size != note["size_bytes"]:
            return None
    except (OSError, ValueError, LookupError):
        return None
    return Image(runtime, reference, path, note["sha256"], note["size_bytes"], note["fetched_at"], note["facts"])


def keep(folder: Path, runtime: str, reference: str, suffix: str, make: Callable[[Path], Mapping[str, str]]) -> Image:
    """Find an image, or fetch it; of concurrent callers, on any node, one fetches and the others wait for it."""
    if (cached := find(folder, runtime, reference)) is not None:
        return cached
    home = folder / runtime
    try:
        with held(home / "locks" / _key(runtime, reference)):
            return find(folder, runtime, reference) or _made(folder, runtime, reference, suffix, make)
    except OSError as problem:
        raise MeasureError(
            f"cannot keep the image {reference!r}: {problem.strerror or problem}",
            code="image",
            at=str(home),
            try_="check its permissions and free space, or set ASSAY_IMAGES",
        ) from None


def is_whole(image: Image) -> bool:
    """Whether a kept image still has the content that it was kept with; reads all of it."""
    try:
        return file_digest(image.path, again=True) == f"sha256:{image.sha256}"
    except OSError:
        return False


def forget(folder: Path, image: Image) -> None:
    """Remove a kept image that is damaged."""
    _note(folder, image.runtime, image.reference).unlink(missing_ok=True)
    image.path.unlink(missing_ok=True)


def is_file(image: str) -> bool:
    return image.endswith(_FILES) and "://" not in image


def present(base: Path, image: str, at: str) -> str:
    """The whole path of an image that lies here."""
    path = (base / Path(image).expanduser()).absolute()
    if not path.exists():
        raise MeasureError(
            f"the image {str(path)!r} is not there",
            code="service-command",
            at=at,
            try_="it is relative to the benchmark file's folder",
        )
    return str(path)


def file_digest(path: Path, *, again: bool = False) -> str:
    """SHA-256 of a file, as images name theirs; one that is kept here is named by it, and read only `again`."""
    if not again and _DIGEST.fullmatch(path.stem) and (path.parent / "names").is_dir():
        return f"sha256:{path.stem}"
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _made(folder: Path, runtime: str, reference: str, suffix: str, make: Callable[[Path], Mapping[str, str]]) -> Image:
    home = folder / runtime
    partial = home / f"part-{os.getpid()}-{_key(runtime, reference)[:12]}{suffix}"
    try:
        facts = dict(make(partial))
        digest = file_digest(partial).removeprefix("sha256:")
        path = home / f"{digest}{suffix}"
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    image = Image(runtime, reference, path, digest, path.stat().st_size, _now(), facts, fresh=True)
    fields = {**asdict(image), "file": path.name}
    wanted = ("runtime", "reference", "file", "sha256", "size_bytes", "fetched_at", "facts")
    write_whole(_note(folder, runtime, reference), json.dumps({key: fields[key] for key in wanted}, indent=2).encode())
    return image


def _note(folder: Path, runtime: str, reference: str) -> Path:
    return folder / runtime / "names" / f"{_key(runtime, reference)}.json"


def _key(runtime: str, reference: str) -> str:
    return hashlib.sha256(f"{runtime} {reference}".encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
