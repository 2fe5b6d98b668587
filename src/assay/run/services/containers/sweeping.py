"""Containers that a run may have left: written down before they start, removed by whoever sweeps."""

from __future__ import annotations

import json
from pathlib import Path

from assay.run.services.containers.asking import ask
from assay.run.services.containers.box import LABEL, Box
from assay.run.services.containers.choosing import way_of
from assay.run.services.containers.oci import at_once

# Written before the first container starts, and read by whoever sweeps.
MARKER = "containers.jsonl"


def mark(box: Box, scratch: Path) -> None:
    """Write down that a container may exist, before it does."""
    if way_of(box.runtime).stays:  # of the others, nothing stays behind when their processes are gone
        with (scratch / MARKER).open("a") as file:
            file.write(json.dumps({"program": box.runtime.program, "tag": box.tag}) + "\n")


def sweep_containers(tag: str, scratch: Path) -> int:
    """Remove every container that a run left behind; return how many that was.

    Costs nothing where the run started none.
    """
    try:
        lines = (scratch / MARKER).read_text().splitlines()
    except OSError:
        return 0
    programs = {found["program"] for line in lines if (found := json.loads(line))["tag"] == tag}
    removed = 0
    for program in sorted(programs):
        names = ask([program, "ps", "--all", "--quiet", "--filter", f"label={LABEL}={tag}"]).split()
        if names:
            ask([program, "rm", "--force", *at_once(program), *names])
        removed += len(names)
    return removed
