"""The `assay` command: puts the verbs together and turns errors into messages and exit codes."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from types import FrameType
from typing import Annotated, NoReturn

import typer

from assay.cli.help import WIDEST
from assay.cli.options import Verbs
from assay.cli.output import say
from assay.cli.verbs import RootGroup
from assay.errors import AssayError
from assay.version import __version__

INTERRUPTED = 130
# Impatience, or a key that is held down. A press after this time counts again.
_SAME_PRESS_S = 1.0
# Set by the script of `assay completion`.
_COMPLETE = "_ASSAY_COMPLETE"

app = Verbs(
    name="assay",
    help="Benchmarks for machine learning whose results carry their own doubt.",
    cls=RootGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
)


class Shell(StrEnum):
    """Shells that can be taught."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"
    powershell = "powershell"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell to teach.")]) -> None:
    """Print a completion script: `eval "$(assay completion bash)"`, or write it where the shell looks for it."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    say(get_completion_script(prog_name="assay", complete_var=_COMPLETE, shell=shell.value))


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"assay {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Exit codes: 0 done, 1 a check or gate failed, 2 wrong use, 3 could not measure."""


def main() -> NoReturn:
    if _COMPLETE in os.environ:  # a shell asks what could follow
        from assay.cli.completing import answer

        answer(os.environ[_COMPLETE])
    # Imports make many objects and no rubbish: looking for it again and again costs a twentieth of a second.
    gc.set_threshold(100_000, 50, 50)
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, CtrlC())
    try:
        _run()
    finally:
        # From here on there is nothing to interrupt, and Python has no handler while it ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run() -> NoReturn:
    try:
        app(standalone_mode=True)
    except AssayError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has gone; that is no failure here
        sys.exit(0)
    sys.exit(0)


class CtrlC:
    """Ctrl-C: the first press interrupts. Those that follow soon change nothing, so that everything is put in order."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._heeded_s = float("-inf")

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  (signal's signature)
        now_s = self._now_s()
        if now_s - self._heeded_s >= _SAME_PRESS_S:
            self._heeded_s = now_s
            raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  (signal's signature)
    """A polite request to end is handled like Ctrl-C: children are ended, results kept."""
    raise KeyboardInterrupt
