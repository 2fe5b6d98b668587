"""The tests run in parts; none is left out, and a failure beside others is asked again, alone."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "tests.py"

BEFORE = "import pathlib\n\nSEEN = pathlib.Path(__file__).with_name('seen')\n\n\n"
PASSES = "def test_it():\n    pass\n"
FAILS = "def test_it():\n    assert False\n"
FAILS_ONCE = f"{BEFORE}def test_it():\n    if not SEEN.exists():\n        SEEN.touch()\n        assert False\n"
BROKEN = "import nothing_of_this_name\n"


def test_every_test_file_is_in_exactly_one_part(monkeypatch):
    monkeypatch.chdir(ROOT)
    spec = importlib.util.spec_from_file_location("parts_of_the_tests", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, script)
    spec.loader.exec_module(script)
    found = []
    for part in script.parts():
        left_out = {Path(one.removeprefix("--ignore=")) for one in part.paths if one.startswith("--")}
        for path in [Path(one) for one in part.paths if not one.startswith("--")]:
            files = [path] if path.is_file() else list(path.rglob("test_*.py"))
            found += [one for one in files if not left_out & set(one.parents)]
    assert sorted(found) == sorted(Path("tests").rglob("test_*.py"))


@pytest.mark.live
@pytest.mark.parametrize(
    ("other", "code", "said"),
    [(PASSES, 0, "1 passed"), (FAILS_ONCE, 0, "right alone"), (FAILS, 1, "assert False"), (BROKEN, 1, "nothing")],
    ids=["well", "once", "always", "broken"],
)  # fmt: skip
def test_a_failure_is_asked_again_and_the_second_answer_counts(tmp_path, other, code, said):
    for name, text in (("one/test_one.py", PASSES), ("two/test_two.py", other)):
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    done = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == code, done.stdout
    assert said in done.stdout
