"""Folders of this user that may be deleted at any time: what is fetched is kept there for the next one."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder of fetched models; safe to delete at any time."""
    if os.environ.get("ASSAY_CACHE"):
        return Path(os.environ["ASSAY_CACHE"]).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("assay", appauthor=False))


def images_folder() -> Path:
    """The folder of container images: from ASSAY_IMAGES, else beside the models. Nodes of a cluster must share it."""
    if os.environ.get("ASSAY_IMAGES"):
        return Path(os.environ["ASSAY_IMAGES"]).expanduser().absolute()
    return cache_folder() / "images"
