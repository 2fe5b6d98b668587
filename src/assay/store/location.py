"""Where results live: one folder, shown and settable; and the error for a disk that does not take them."""

from __future__ import annotations

import os
from pathlib import Path

from assay.errors import StoreError
from assay.folders import cache_folder

__all__ = ["cache_folder", "store_folder"]

VARIABLE = "ASSAY_STORE"


def cannot_write(problem: OSError, path: Path) -> StoreError:
    return StoreError(
        f"cannot write: {problem.strerror}",
        code="disk",
        at=str(path),
        try_="free some space or set another place with --store",
    )


def store_folder(folder: str | Path | None = None) -> Path:
    """The folder of the store: as given, else from ASSAY_STORE, else the user's data folder."""
    if folder or os.environ.get(VARIABLE):
        return Path(folder or os.environ[VARIABLE]).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("assay", appauthor=False))
