"""Which modules a job goes through on each engine, and which of them all engines share.

Loaded are the command, the driver, the door of `exec` and the measuring process, and what the engine adds: on the side
that submits and on the side that measures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src" / "assay"
ALWAYS = ("cli.run", "api.run", "engines.drive", "exec.document", "exec.child", "run.execute")
NODE, POD = "engines.slurm.node", "engines.kubernetes.pod"
ENGINES = {
    "local": ("engines.local",),
    "fleet": ("engines.fleet", "agent.agent"),
    "slurm": (
        "engines.slurm.engine",
        "engines.slurm.draft",
        *(f"{NODE}.{name}" for name in ("task", "service", "end", "monitor")),
    ),
    "kubernetes": ("engines.kubernetes.engine", "engines.kubernetes.draft", f"{POD}.task"),
}
_CODE = """
import json, sys
from importlib import import_module
for name in json.loads(sys.argv[1]):
    import_module(f"assay.{name}")
print(json.dumps([name.removeprefix("assay.") for name in sys.modules if name.startswith("assay.")]))
"""


def modules_of(engine: str) -> set[str]:
    """The modules that are loaded for an engine; packages are left out."""
    names = json.dumps([*ALWAYS, *ENGINES[engine]])
    done = subprocess.run([sys.executable, "-c", _CODE, names], capture_output=True, text=True, check=True)
    return {name for name in json.loads(done.stdout) if not (ROOT / name.replace(".", "/")).is_dir()}


def main() -> None:
    """Print the shared modules by room, then what each engine adds to them."""
    loaded = {engine: modules_of(engine) for engine in ENGINES}
    shared = set.intersection(*loaded.values())
    sys.stdout.write(f"shared by all ({len(shared)}): {' '.join(sorted(shared))}\n")
    for engine, modules in loaded.items():
        own = modules - shared - (loaded["local"] if engine != "local" else set())
        sys.stdout.write(f"\n{engine} adds {len(own)}: {' '.join(sorted(own))}\n")


if __name__ == "__main__":
    main()
