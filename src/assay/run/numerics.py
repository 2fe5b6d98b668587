"""NumPy without its pool of threads, for processes that measure what computes elsewhere.

NumPy's library for matrices starts a thread for each core as soon as it is loaded, and all of them spin for a while:
on 16 cores that is two seconds of processor time in every process. A process that only reads samples needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from assay.spec.benchmark import Definition
from assay.spec.protocols import is_api
from assay.spec.target import CommandTarget

_VARIABLE, _ONE = "OPENBLAS_NUM_THREADS", "1"
# Says that the variable is ours, so that the programs that are measured do not see it.
_OURS = "ASSAY_ONE_THREAD"


def for_child(definition: Definition, environ: Mapping[str, str]) -> dict[str, str]:
    """What is added to the environment of a run's process; nothing where it computes, or where the user chose."""
    target = definition.target
    # A protocol sends requests and computes nothing; answers of vector databases are held against an oracle of ours.
    elsewhere = isinstance(target, CommandTarget) or is_api(target)
    return {_VARIABLE: _ONE, _OURS: "1"} if elsewhere and _VARIABLE not in environ else {}


def forget(environ: MutableMapping[str, str]) -> None:
    """Take what `for_child` added out of the environment, once NumPy is loaded."""
    if environ.pop(_OURS, None) is not None:
        environ.pop(_VARIABLE, None)
