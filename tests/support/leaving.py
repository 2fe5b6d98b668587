"""A package with a small target that leaves files, and a scorer: installed for one test, found as any other package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from assay.run.capabilities import local_profile

TARGET = """
import os, signal
from pathlib import Path
import numpy as np
from assay.errors import MeasureError
from assay.run.contract import Measured
from assay.run.records import SampleSet
from assay.run.scoring import Output, scored, write_outputs


def measure(order, stage, rules):
    told = order.job.definition.target.search
    scratch = Path(order.scratch)
    secret = os.environ.get("LEAVER_KEY", "")
    (scratch / "service-llm.err").write_text(f"run {order.run_id} is up with {secret}\\n")
    with open(Path(order.job.base) / "started", "a") as file:
        file.write(f"{order.run_id}\\n")
    with stage.phase("measure"):
        if told.get("die") == order.run_id:
            os.kill(os.getpid(), signal.SIGKILL)
        if told.get("refuse"):
            raise MeasureError("the service fell over", code="service")
        while told.get("wait") and not (Path(order.job.base) / f"go{order.run_id}").exists():
            pass
    answers = told.get("answers", ["a cat sat on the mat", "", "dogs bark"])
    references = told.get("references", ["the cat sat on a mat", "something", "dogs bark"])
    outputs = [Output(f"item-{i}", i, 0, f"{text}{' ' + secret if told.get('echo') else ''}", reference, {"row": i},
                      more={"ttft_ms": 1.5 + i}) for i, (text, reference) in enumerate(zip(answers, references))]
    outputs += [Output("item-0", len(outputs), 0, "", "the cat", outcome="timeout")] * told.get("failed", 0)
    path = scratch / "outputs.jsonl.gz"
    write_outputs(path, outputs)
    with stage.phase("score"):
        found = scored(outputs, order.job.definition.workload.scorers or ())
    at = np.arange(len(outputs), dtype=np.int64)
    speed = SampleSet("e2e_ms", "measure", at, np.array([10.0 + i for i in at]))
    return Measured(
        absent=found.absent,
        samples=(speed, *(SampleSet(metric, "measure", at[np.isfinite(values)], values[np.isfinite(values)])
                          for metric, values in found.values.items())),
        facts={"scores": found.facts},
        files={"outputs.jsonl.gz": path},
    )
"""

SCORER = """
def vowels(outputs):
    return {"vowel_share": [sum(c in "aeiou" for c in one.text) / max(len(one.text), 1) for one in outputs]}


def short(outputs):
    return {"short": [1.0]}


def broken(outputs):
    raise KeyError("nothing here")


def slow(outputs):
    import time
    time.sleep(30)
"""

ENTRIES = """[assay.targets]
leaver = leaving_target:measure
[assay.scorers]
vowels = leaving_scorer:vowels
short = leaving_scorer:short
broken = leaving_scorer:broken
slow = leaving_scorer:slow
missing = no_such_module:scorer
"""


def install(folder: Path, monkeypatch: Any) -> None:
    """Make the package importable here and in every process that is started from here."""
    info = folder / "leaving-2.5.dist-info"
    info.mkdir(parents=True)
    (folder / "leaving_target.py").write_text(TARGET)
    (folder / "leaving_scorer.py").write_text(SCORER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: leaving\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(folder))
    local_profile.cache_clear()  # what this process knows of the machine was read before the package was there
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))


def document(*, runs: int = 2, scorers: tuple[str, ...] = ("rouge", "exact-match"), **search: Any) -> dict[str, Any]:
    """A benchmark of that target; nobody looks from the side, so that its files are those it leaves itself."""
    measure = {"runs": runs, "probe": "off"}
    target = {"library": "leaver", "search": {"key": "${env:LEAVER_KEY}", **search}}
    return {"benchmark": "leaver", "target": target, "measure": measure, "workload": {"scorers": list(scorers)}}
