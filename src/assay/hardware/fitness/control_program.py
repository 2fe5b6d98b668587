"""The control workload as a program: every round is a sample, for a study of how much equal runs differ here.

Started as `python -m assay.hardware.fitness.control_program` by `assay noise`; never by a user.
"""

from __future__ import annotations

from typing import cast

from assay.emit import emit
from assay.hardware.fitness.control_loops import rounds


def main() -> None:
    """Run all rounds, then report them, so that nothing else happens between two."""
    times_ms = cast("dict[str, list[float]]", rounds()["rounds_ms"])
    for part, values in times_ms.items():
        for value in values:
            emit({f"{part}_ms": value})


if __name__ == "__main__":
    main()
