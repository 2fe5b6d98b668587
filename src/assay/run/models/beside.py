"""Files that a model names beside itself: they must lie in its own folder, or nothing of them is opened.

A model may be a stranger's. A name such as `../.ssh/id_rsa`, or a link beside the model, would have another file of
the user hashed and sent to a server.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

from assay.errors import MeasureError
from assay.run.models.graph import outline_or_none

OUTSIDE = "model-outside"
_BLOBS = "blobs"


def external_files(model: Path) -> tuple[str, ...]:
    """Names of the files that hold weights of an ONNX file; empty for another format.

    Raises:
        MeasureError: if one lies outside the folder of the model, by its name or through a link.
    """
    outline = outline_or_none(model)
    names = outline.external if outline else ()
    for name in names:
        refuse_outside(model.name, name, model.parent, also=model.resolve().parent)
    return names


def refuse_outside(model: str, name: str, folder: Path, *, also: Path | None = None) -> None:
    """Refuse a file that does not lie in the folder of its model; only links are followed, no file is opened.

    Raises:
        MeasureError: for a name that leaves the folder, and for a link that leads out of it.
    """
    windows = PureWindowsPath(name)
    parts = (*PurePosixPath(name).parts, *windows.parts)
    if not name or name.startswith(("/", "\\")) or windows.drive or ".." in parts or "\0" in name:
        raise _refused(model, name, f"outside its own folder {folder}")
    really = (folder / name).resolve()
    if not any(really.is_relative_to(root) for root in (folder.resolve(), *((also,) if also else ()))):
        raise _refused(model, name, f"which is a link to {really}, outside its own folder {folder}")


def refuse_links_out(folder: Path, names: Iterable[str]) -> None:
    """Refuse files of a model folder that are links out of it.

    In the cache of the Hugging Face hub a model is a folder of links to blobs two folders up; those are its own.

    Raises:
        MeasureError: for a link that leads elsewhere.
    """
    blobs = folder.resolve().parent.parent / _BLOBS
    own = blobs if folder.resolve().parent.name == "snapshots" and not blobs.is_symlink() else None
    for name in names:
        refuse_outside(str(folder), name, folder, also=own)


def _refused(model: str, name: str, where: str) -> MeasureError:
    return MeasureError(
        f"{model} names {name!r}, {where}; nothing of it was read",
        code=OUTSIDE,
        at="target.model",
        try_="put the file itself into the folder of the model, if you trust the model",
    )
