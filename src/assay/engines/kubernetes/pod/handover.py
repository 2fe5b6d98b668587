"""Run in a waiting pod: writes to standard output what did not fit into the pod's log.

`python -m assay.engines.kubernetes.pod.handover taken` acknowledges that everything has arrived, so the pod may end.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from assay.engines.kubernetes.pod.context import read_inside
from assay.engines.kubernetes.pod.log_transport import HELD, TAKEN, Sender


def main(arguments: list[str], out: Path | None = None) -> int:
    """Give out what is held back, or let the pod go."""
    folder = read_inside().out if out is None else out
    if arguments == ["taken"]:
        (folder / TAKEN).touch()
        return 0
    try:
        names = json.loads((folder / HELD).read_bytes())
    except OSError as problem:
        sys.stderr.write(f"nothing is held back here: {problem.strerror}\n")
        return 1
    sender = Sender(folder, _write, budget=float("inf"))
    sender.send([folder / str(name) for name in names])
    sender.end()
    sys.stdout.flush()
    return 0


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
