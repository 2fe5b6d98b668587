"""Report numbers from any program: no server, no dependency, no configuration.

    import assay
    assay.emit({"images_per_s": 812.5, "loss": 0.031})

Under `assay run` the line goes to the pipe that an environment variable names; anywhere else it is printed.
"""

import json
import os
import sys
from collections.abc import Mapping

PIPE_VARIABLE = "ASSAY_EMIT_PIPE"


def emit(metrics: Mapping[str, float]) -> None:
    """Report metrics: one JSON line to the pipe named by ASSAY_EMIT_PIPE, else to standard output.

    Args:
        metrics: metric name → number. NaN and infinities are accepted and stay distinct.
    """
    line = json.dumps(_checked(metrics)) + "\n"
    path = os.environ.get(PIPE_VARIABLE)
    if not (path and _write(path, line.encode())):
        sys.stdout.write(line)
        sys.stdout.flush()


def _checked(metrics: Mapping[str, float]) -> dict[str, float]:
    if not isinstance(metrics, Mapping):
        raise TypeError(f"emit takes a mapping of names to numbers, not {type(metrics).__name__}")
    if not metrics:
        raise ValueError("emit was given no metric")
    return {str(name): _number(str(name), value) for name, value in metrics.items()}


def _number(name: str, value: object) -> float:
    # Numbers of array libraries (numpy, torch) are not int or float, but they know how to become one.
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise TypeError(f"the value of {name!r} is {value!r}, which is not a number")
    return float(value)


def _write(path: str, line: bytes) -> bool:
    """Write to the pipe; False when it has no reader, so that a program never hangs."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        if hasattr(os, "set_blocking"):
            os.set_blocking(fd, True)
        return os.write(fd, line) == len(line)
    except OSError:
        return False
    finally:
        os.close(fd)
