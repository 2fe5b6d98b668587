"""Which server is told about a campaign, and which results it has: a file beside the campaign.

A lost file loses nothing: what a server has already is told once more, and changes nothing there.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from assay.files import write_whole

FILE = "server.json"


@dataclass(slots=True)
class Record:
    """What one server was told of one campaign."""

    path: Path
    url: str
    told: dict[int, str] = field(default_factory=dict)
    """Index of a job → hash of the result document that the server has."""

    def save(self) -> None:
        """Write it down; a folder that cannot be written to costs a repetition, and nothing else."""
        document = {"server": self.url, "told": {str(index): digest for index, digest in sorted(self.told.items())}}
        with suppress(OSError):
            write_whole(self.path, json.dumps(document).encode())


def read_record(folder: Path, url: str) -> Record:
    """What a server was told; nothing, where it was another one."""
    server, told = _read(folder / FILE)
    return Record(folder / FILE, url, told if server == url else {})


def remembered_server(folder: Path) -> str | None:
    """The server that was told about a campaign before; None where nobody was."""
    return _read(folder / FILE)[0]


def _read(path: Path) -> tuple[str | None, dict[int, str]]:
    try:
        found = json.loads(path.read_bytes())
        return str(found["server"]), {int(index): str(digest) for index, digest in found["told"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, {}
