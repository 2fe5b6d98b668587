"""Run the benches, print their pages and write them to benches/results.

python -m benches [overhead truth startup samples queue fleet ingest durability idle load_speed load_truth load_cost
    probe_cost warmup series ab ab_designs compare_many campaigns slurm kubernetes dashboard calibration capacity]
    [--quick] [--rounds 10000]
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from time import perf_counter

from benches import calibration
from benches.page import RESULTS

NAMES = (
    "overhead", "truth", "startup", "samples", "queue", "fleet", "ingest", "durability", "idle", "load_speed",
    "load_truth", "load_cost", "probe_cost", "warmup", "series", "ab", "ab_designs", "compare_many", "campaigns",
    "slurm", "kubernetes", "dashboard", "calibration", "capacity",
)  # fmt: skip
# Benches whose module would hide a name that it needs.
_MODULES = {"slurm": "slurm_overhead", "kubernetes": "kubernetes_overhead"}
# Only by name: it needs namespaces of its own, and would write down that it measured nothing.
_BY_NAME = ("kubernetes",)


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; 1 when a target was missed."""
    options = _options(arguments)
    missed = []
    for name in options.names or [name for name in NAMES if name not in _BY_NAME]:
        begin = perf_counter()
        text, failed = _bench(name, options.quick, options.rounds)
        print(f"{text}\n{name} took {perf_counter() - begin:.0f} s\n", flush=True)
        if not options.quick:
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / f"{name}.md").write_text(text)
        missed += [name] if failed else []
    print(f"missed a target: {', '.join(missed)}" if missed else f"no target missed; results in {RESULTS}")
    return 1 if missed else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benches", description="Our own speed beside peers.")
    default = f"all but {_BY_NAME[0]} when left out"
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; {default}")
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it works; nothing is written")
    parser.add_argument("--rounds", type=int, default=10_000, help="simulated experiments per line of calibration")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(NAMES)):
        parser.error(f"{unknown[0]!r} is no bench; there are {', '.join(NAMES)}")
    return options


def _bench(name: str, quick: bool, rounds: int) -> tuple[str, bool]:
    """The page of one bench, and whether it missed a target."""
    if name == "calibration":
        return _captured(lambda: calibration.main(200 if quick else rounds))
    load_before = os.getloadavg()[0]
    page = import_module(f"benches.{_MODULES.get(name, name)}").bench(quick=quick)
    return page.markdown(load_before), page.failed


def _captured(main: Callable[[], int]) -> tuple[str, bool]:
    text = io.StringIO()
    with redirect_stdout(text):
        failed = main()
    return text.getvalue(), bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
