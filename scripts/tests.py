"""Run the tests of every folder as a process of its own, two at a time: most live tests wait more than they work.

`python scripts/tests.py [OPTIONS OF PYTEST]`. What a part printed comes when it has ended. Tests that failed beside
others are run once more alone, with nothing beside them, and named: the second answer counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

TESTS = Path("tests")
AT_ONCE = int(os.environ.get("ASSAY_TESTS_AT_ONCE", "2"))
# The longest begin first, so that none of them is left over at the end.
LONGEST = (
    "serve", "tests", "cluster", "web", "docs", "cli", "agent", "pods", "run", "run/services", "run/targets", "infra",
    "faults", "store", "analyse", "examples",
)  # fmt: skip
# Folders within folders that are parts of their own: they take minutes.
APART = tuple(one for one in ("run/services", "run/targets") if (TESTS / one).is_dir())
# More failures than this are not the fault of a neighbour.
AGAIN = 8
MOST_REASONS = 40
NOTHING = 5  # pytest's exit code where no test was chosen


@dataclass(frozen=True, slots=True)
class Part:
    """Tests that run in one process."""

    name: str
    paths: tuple[str, ...]
    """And what of them belongs to another part, as options."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the tests of a part ended."""

    part: Part
    code: int
    said: str
    took_s: float
    failed: tuple[str, ...]


def parts() -> list[Part]:
    """Every test file is in exactly one of them."""
    files = Part("tests", tuple(map(str, sorted(TESTS.glob("test_*.py")))))
    folders = sorted(one.name for one in TESTS.iterdir() if any(one.rglob("test_*.py")))
    order = {name: place for place, name in enumerate(LONGEST)}
    found = [files, *(Part(one, (f"{TESTS}/{one}", *_without(one))) for one in (*folders, *APART))]
    return sorted((one for one in found if one.paths), key=lambda one: order.get(one.name, len(order)))


def _without(name: str) -> list[str]:
    return [f"--ignore={TESTS}/{one}" for one in APART if one.startswith(f"{name}/")]


def run(part: Part, options: Sequence[str], caches: Path) -> Ended:
    """Run the tests of a part, and keep what they print."""
    began = time.monotonic()
    cache = caches / part.name.replace("/", "-")
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *options, *part.paths]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        check=False,
    )
    failed = tuple(
        line.split(" - ")[0].split(" ", 1)[1]
        for line in done.stdout.splitlines()
        if line.startswith(("FAILED ", "ERROR "))
    )
    return Ended(part, done.returncode, done.stdout, time.monotonic() - began, failed)


def tell(ended: Ended) -> None:
    """Print how a part ended: what was skipped and its last line, or all where something went wrong."""
    lines = ended.said.rstrip().splitlines() or [""]
    bad = ended.code not in (0, NOTHING)
    last = f"{ended.part.name:<16} {ended.took_s:6.0f} s  {lines[-1].strip('= ')}"
    say(*(lines if bad else [one for one in lines if one.startswith("SKIPPED")]), last)


def say(*lines: str) -> None:
    """Print lines, at once."""
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def main(options: list[str]) -> int:
    """Run all parts, then again what failed; 0 when all is well in the end."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        caches = Path(folder)
        bad = []
        for later in as_completed([pool.submit(run, part, options, caches) for part in parts()]):
            ended = later.result()
            if ended.code in (0, NOTHING):
                tell(ended)
            else:
                say(f"{ended.part.name:<16} {ended.took_s:6.0f} s  {len(ended.failed)} to be asked again")
                bad.append(ended)
        # Only failures of tests are asked again: no broken collection, no killed process.
        if sum(len(one.failed) for one in bad) > AGAIN or any(one.code != 1 for one in bad):
            for one in bad:
                tell(one)
            return 1
        return max((_again(one, options, caches) for one in bad), default=0)


def _again(first: Ended, options: Sequence[str], caches: Path) -> int:
    second = run(first.part, [*options, "--last-failed", "--last-failed-no-failures=none"], caches)
    if second.code == 0:
        say("went wrong beside others, and right alone:", *(f"  {one}" for one in first.failed), *_reasons(first))
    else:
        tell(first)
    tell(second)
    return second.code


def _reasons(ended: Ended) -> list[str]:
    """The lines of a traceback that say what was wrong."""
    return [one for one in ended.said.splitlines() if one.startswith("E   ")][:MOST_REASONS]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
