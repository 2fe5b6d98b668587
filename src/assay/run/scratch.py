"""Temporary folders of runs: removed when a run ends, and swept up later if its process was killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.run.processes import is_alive, own_start

_PREFIX = "assay-run-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for one run, named after this process so that others can tell whether it is still used."""
    name = f"{_PREFIX}{os.getpid()}-{own_start():.0f}-"
    folder = Path(tempfile.mkdtemp(prefix=name))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep_abandoned() -> int:
    """Remove folders whose process is gone; return how many there were."""
    swept = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        parts = folder.name.removeprefix(_PREFIX).split("-")
        if (
            len(parts) >= 2
            and parts[0].isdigit()
            and parts[1].isdigit()
            and not is_alive(int(parts[0]), float(parts[1]))
        ):
            shutil.rmtree(folder, ignore_errors=True)
            swept += 1
    return swept
