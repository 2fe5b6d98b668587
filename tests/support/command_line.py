"""The command line by a call: in a tenth of the time of a process. For what measures nothing."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from assay.cli.main import main


def called(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What `assay WORDS` printed and ended with."""
    out, err, before = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGTERM)
    with redirect_stdout(out), redirect_stderr(err), chdir(cwd or Path.cwd()), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["assay", *words])
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            signal.signal(signal.SIGTERM, before)
    return subprocess.CompletedProcess(words, int(ended.value.code or 0), out.getvalue(), err.getvalue())
