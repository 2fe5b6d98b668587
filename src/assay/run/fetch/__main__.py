"""Fetches files into a folder, in the order of the root: `python -m assay.run.fetch FETCH FOLDER`.

For places where another program mounts them, such as the first container of a pod. FETCH is a JSON list as `fetch` of a
benchmark file, or a file that holds it. Nothing outside the folder is needed afterwards.
"""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from assay.errors import AssayError
from assay.folders import cache_folder
from assay.run.fetch.source import fetch
from assay.spec.target import Fetch, in_folders


def main(arguments: list[str]) -> int:
    """Fetch what is asked for."""
    given, folder = arguments[0], Path(arguments[1])
    try:
        asked = json.loads(given if given.lstrip().startswith("[") else Path(given).read_text(encoding="utf-8"))
        wanted = tuple(Fetch.model_validate_json(json.dumps(entry)) for entry in asked)
        for index, source in enumerate(in_folders(wanted)):
            for had in fetch(source, f"fetch[{index}]", Path.cwd(), cache_folder()):
                _copy(had.here, folder / had.path.lstrip("/"))
                sys.stdout.write(f"{had.src} is at {had.path}, SHA-256 {had.sha256 or 'not made of a folder'}\n")
    except AssayError as failure:
        sys.stderr.write(f"{failure}\n")
        return failure.exit_code
    except (OSError, ValueError, ValidationError) as failure:
        sys.stderr.write(f"cannot fetch: {failure}\n")
        return 2
    return 0


def _copy(here: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if here.is_dir():
        shutil.copytree(here, place)
        return
    with suppress(OSError):  # two names of one file need no room, where the file system can have them
        place.hardlink_to(here)
        return
    shutil.copyfile(here, place)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
