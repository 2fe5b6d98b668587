"""What a benchmark may ask for here: said before anything is planned."""

from __future__ import annotations

from collections.abc import Collection

from assay.errors import MeasureError
from assay.spec.benchmark import Benchmark

_PLACES = {"local": "on the local machine", "fleet": "on the agents of a server"}


def refuse_unsupported(benchmark: Benchmark, engines: Collection[str] = ("local",)) -> None:
    """Refuse what would silently not happen.

    Args:
        benchmark: what is asked for.
        engines: the engines that can place its jobs here.

    Raises:
        MeasureError: for an engine that is not one of these.
    """
    if benchmark.place.engine not in engines:
        first = next(iter(engines))
        raise MeasureError(
            f"place.engine is {benchmark.place.engine!r}; this installation runs jobs {_PLACES[first]} only",
            code="engine",
            try_=f"set place.engine: {first}, or leave place out",
        )
