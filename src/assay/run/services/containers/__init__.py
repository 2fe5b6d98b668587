"""Containers: which program runs them here, the command lines for it, and their certain end.

`contract.Way` is what a runtime must be able to do; `oci`, `apptainer` and `charliecloud` are the ones there are.
"""

from __future__ import annotations

from assay.run.services.containers.asking import ask
from assay.run.services.containers.box import LABEL, Box, Kind, Runtime
from assay.run.services.containers.choosing import WAYS, find_runtime, make_box, way_of
from assay.run.services.containers.sweeping import MARKER, mark, sweep_containers

__all__ = ["LABEL", "MARKER", "WAYS", "Box", "Kind", "Runtime", "ask", "find_runtime", "make_box", "mark",
           "sweep_containers", "way_of"]  # fmt: skip
