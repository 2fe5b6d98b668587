"""How long a user waits before anything happens, and how much is installed for it."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter

from benches import venvs
from benches.figures import median_of
from benches.page import ROOT, Page, Table
from benches.processes import BUILD, run, there_and_back

HELP_MS, IMPORT_MS, COMPLETION_MS = 150, 100, 150
DIRECT, INSTALLED = 15, 35

# Everything that `pip install .` brings, assay included; pip and setuptools come with the environment.
_COUNT = """
import json
from importlib.metadata import distributions
kept = [d for d in distributions() if d.metadata["Name"].lower() not in ("pip", "setuptools")]
files = {d.metadata["Name"]: [f.locate() for f in d.files or ()] for d in kept}
print(json.dumps({name: sum(f.stat().st_size for f in found if f.is_file()) for name, found in files.items()}))
"""


def bench(*, quick: bool = False) -> Page:
    """Install the package alone, then start it again and again."""
    python = _base_install()
    rounds = 5 if quick else 20
    return Page(
        "startup", "Start and size", _ABOUT, [_starts(python, rounds), _completions(python, rounds), _sizes(python)]
    )


def _base_install() -> Path:
    """Always made anew: what an older version needed must not be counted, and the code is that of today."""
    python = venvs.empty("base")
    venvs.install(python, ["--constraint", str(ROOT / "constraints.txt"), str(ROOT)])
    return python


def _starts(python: Path, rounds: int) -> Table:
    commands = {
        "`assay --help`": [str(python.parent / "assay"), "--help"],
        "bare python": [str(python), "-c", "pass"],
        "`import assay`": [str(python), "-c", "import assay"],
        "`import assay; assay.run`": [str(python), "-c", "import assay; assay.run"],
    }
    for command in commands.values():
        _wall_ms(command)
    walls: dict[str, list[float]] = {name: [] for name in commands}
    for name in there_and_back(list(commands), rounds):
        walls[name].append(_wall_ms(commands[name]))
    notes = [
        f"Median of {rounds} fresh processes each, interleaved, with its 95 % interval; files are in the page cache.",
        (
            "`import assay` is what a training script pays that only calls `assay.emit`; the rest is loaded at first "
            "use, which the last line shows."
        ),
    ]
    columns = ["what", "wall, ms", "above bare python, ms", "target", "kept"]
    return Table("Start", columns, _start_rows(walls), notes)


def _start_rows(walls: Mapping[str, Sequence[float]]) -> list[list[str]]:
    bare = walls["bare python"]
    above = {
        name: median_of([one - start for one, start in zip(values, bare, strict=True)])
        for name, values in walls.items()
        if name != "bare python"
    }
    verdicts = {
        "`assay --help`": (f"wall < {HELP_MS} ms", median_of(walls["`assay --help`"]).below(HELP_MS)),
        "`import assay`": (f"above bare python < {IMPORT_MS} ms", above["`import assay`"].below(IMPORT_MS)),
    }
    rows = []
    for name, values in walls.items():
        extra = above[name].text(1) if name in above else ""
        rows.append([name, median_of(values).text(1), extra, *verdicts.get(name, ("", ""))])
    return rows


def _wall_ms(command: Sequence[str]) -> float:
    begin = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=BUILD)
    return 1000 * (perf_counter() - begin)


def _completions(python: Path, rounds: int) -> Table:
    """What a press of Tab costs: with an empty store, for what needs one."""
    lines = ("assay ", "assay results show ", "assay run --", "assay agents drain ", "assay init s")
    spent = {line: median_of([_cpu_ms(python, line) for _ in range(rounds + 1)][1:]) for line in lines}
    rows = [
        [f"`{line}`", cost.text(1), f"processor time < {COMPLETION_MS} ms", cost.below(COMPLETION_MS)]
        for line, cost in spent.items()
    ]
    notes = [f"Median processor time (user and system) of {rounds} presses of Tab each, with its 95 % interval."]
    return Table("Completion", ["after", "processor time, ms", "target", "kept"], rows, notes)


def _cpu_ms(python: Path, line: str) -> float:
    words = line.split(" ")
    asked = {"_ASSAY_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(
        [str(python.parent / "assay")], env={**os.environ, **asked}, check=True, stdout=subprocess.DEVNULL, cwd=BUILD
    )
    after = getrusage(RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _sizes(python: Path) -> Table:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = len(project["dependencies"])
    sizes: dict[str, int] = json.loads(run([str(python), "-c", _COUNT], timeout_s=60))
    largest = sorted(sizes, key=lambda name: -sizes[name])[:5]
    rows = [
        ["direct dependencies", str(direct), f"≤ {DIRECT}", _at_most(direct, DIRECT)],
        ["installed distributions, assay included", str(len(sizes)), f"≤ {INSTALLED}", _at_most(len(sizes), INSTALLED)],
        ["installed size, MB", f"{sum(sizes.values()) / 1e6:.0f}", "", ""],
        ["assay itself, MB", f"{sizes['assay'] / 1e6:.1f}", "", ""],
    ]
    notes = [
        "`pip install .` with constraints.txt into an empty environment; pip and setuptools are not counted.",
        "Largest: " + ", ".join(f"{name} {sizes[name] / 1e6:.0f} MB" for name in largest) + ".",
    ]
    return Table("Base install", ["what", "figure", "target", "kept"], rows, notes)


def _at_most(count: int, limit: int) -> str:
    return "pass" if count <= limit else "**fail**"


_ABOUT = "What a user waits for and what is put on the disk, by a plain install of the package without extras."
