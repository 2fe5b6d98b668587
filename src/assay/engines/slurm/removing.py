"""What a campaign leaves beside the store when it is removed: its shared folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from assay.engines.slurm.document import folder_of, forget_folder, is_on_cluster, read_document
from assay.engines.slurm.folder import Folder
from assay.errors import AssayError, UsageError
from assay.run.scratch import is_held


def refuse_followed(store: Path, campaign: str, *also: Path) -> None:
    """Refuse to remove what a process still follows.

    Raises:
        UsageError: `busy` if one does.
    """
    shared = [folder_of(store, campaign).path] if is_on_cluster(store, campaign) else []
    if any(path.is_dir() and is_held(path) for path in (*shared, *also)):
        raise UsageError(f"a process follows campaign {campaign}", code="busy", try_="wait until it ends")


def remove_folder(store: Path, campaign: str) -> str:
    """Remove the shared folder of a campaign that was removed; return what became of it in words, empty for none."""
    if not is_on_cluster(store, campaign):
        return ""
    folder = folder_of(store, campaign)
    said = _removed(folder, campaign) if folder.path.is_dir() else ""
    forget_folder(store, campaign)
    return said


def _removed(folder: Folder, campaign: str) -> str:
    try:
        found = read_document(folder).campaign
    except AssayError:
        found = ""
    if found != campaign:  # nothing is removed of which nobody knows what it is
        return f"left {folder.path}: it does not say that it is this campaign's"
    try:
        shutil.rmtree(folder.path)
    except OSError as problem:
        return f"could not remove all of {folder.path}: {problem.strerror or problem}; remove it by hand"
    return f"removed {folder.path}"
