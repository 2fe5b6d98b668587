"""Programs that report through the client library of Benchmark AI: the variables that it looks for.

Its `emit` writes the same lines as ours, one JSON object of numbers each, to a named pipe or to standard output. So the
pipe is ours, and what is printed is read as well.
"""

from __future__ import annotations

# Their jobs wait this long for the pipe; ours is there before the program starts.
_WAIT_S, _STEP_S = "60", "0.5"


def variables(pipe: str | None, code: str | None) -> dict[str, str]:
    """What their library and their scripts find in the environment.

    Args:
        pipe: path of the pipe as the program sees it; None where it cannot reach one, so that lines are printed.
        code: folder with the code that travels with the benchmark, as the program sees it.
    """
    found = {"BENCHMARK_AI": "stdout"}
    if pipe is not None:
        found = {
            "BENCHMARK_AI": "fifo",
            "BENCHMARK_AI_FIFO_FILEPATH": pipe,
            "BENCHMARK_AI_FIFO_MAX_WAIT_TIME": _WAIT_S,
            "BENCHMARK_AI_FIFO_WAIT_TIME_STEP": _STEP_S,
        }
    return found if code is None else {**found, "BAI_SCRIPTS_PATH": code}
