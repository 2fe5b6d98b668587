"""Where results live: one folder, shown and settable."""

from __future__ import annotations

import os
from pathlib import Path

from assay.folders import cache_folder

__all__ = ["cache_folder", "store_folder"]

VARIABLE = "ASSAY_STORE"


def store_folder(given: str | Path | None = None) -> Path:
    """The folder of the store: as given, else from ASSAY_STORE, else the user's data folder."""
    if given or os.environ.get(VARIABLE):
        return Path(given or os.environ[VARIABLE]).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("assay", appauthor=False))
