"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes | memoryview, *, mode: int = 0o600) -> None:
    """Write a file so that it is either there whole or not at all, also when the power goes.

    Raises:
        OSError: if there is no room or no permission; nothing half-written stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, partial = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode != 0o600:  # as it was made
            Path(partial).chmod(mode)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
