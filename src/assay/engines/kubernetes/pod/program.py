"""The measured program of a pod that has an image of its own: it runs in the container beside this one."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from assay.engines.kubernetes.pod.context import PodContext
from assay.run.services import containers
from assay.run.services.containers.registry import VARIABLE
from assay.run.services.containers.sidecar import PROGRAM, SIDECAR, opened
from assay.spec.target import CommandTarget

_STANDING = "standing-by"


@contextmanager
def beside(inside: PodContext) -> Iterator[None]:
    """Have programs run in the container beside this one for as long as the body runs; nothing where there is none.

    Both containers see the folder to work in and nothing else, so that what is made for a run must lie there.
    """
    if not _is_boxed(inside):
        yield
        return
    places = {"TMPDIR": inside.work / "tmp", "ASSAY_CACHE": inside.work / "cache"}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    os.environ.update({VARIABLE: SIDECAR.kind, **{name: str(place) for name, place in places.items()}})
    tempfile.tempdir = None  # asked for before it was set
    with opened(inside.work / PROGRAM):
        yield


def to_start(words: Sequence[str], inside: PodContext) -> tuple[list[str], dict[str, str]]:
    """How a command is started where the measured program runs: its words and variables."""
    if not _is_boxed(inside):
        return [*words], dict(os.environ)
    box = containers.Container(
        containers.Runtime(SIDECAR.kind, sys.executable), "", _STANDING, "", command=tuple(words)
    )
    return SIDECAR.words(box), SIDECAR.environment(box, os.environ)


def _is_boxed(inside: PodContext) -> bool:
    target = inside.job.definition.target
    return isinstance(target, CommandTarget) and target.is_boxed
