"""`python -m assay` is the `assay` command; Ctrl-C works from the first moment, while the rest is still loading."""

from __future__ import annotations

import itertools
import os
import signal
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 130
_presses = itertools.count()


def main() -> NoReturn:
    """Load the command line and run it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a parent that ignores it is respected
        signal.signal(signal.SIGINT, _while_loading)
    from assay.cli.main import main as run

    run()


def _while_loading(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  (signal's signature)
    """Exit immediately: nothing has started that would need cleaning up."""
    if next(_presses) == 0:
        os.write(2, b"interrupted\n")
        os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
