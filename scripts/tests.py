"""Run the tests in two processes side by side: those of the documentation, which mostly wait, and all the others.

`python scripts/tests.py [OPTIONS OF PYTEST]`; what the first printed comes after what the second printed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

BESIDE = "tests/docs"


def main(options: list[str]) -> int:
    """Run both; 0 when neither has failed."""
    pytest = [sys.executable, "-m", "pytest", *options]
    with tempfile.TemporaryFile("w+") as said:
        beside = subprocess.Popen([*pytest, BESIDE], stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            code = subprocess.run([*pytest, f"--ignore={BESIDE}"], check=False).returncode
            other = beside.wait()
        finally:
            beside.terminate()
        said.seek(0)
        sys.stdout.write(said.read())
    return code or other


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
