"""`assay completion`: the script that lets a shell complete assay's commands."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from assay.cli.output import say


class Shell(StrEnum):
    """Shells that can be taught."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"
    powershell = "powershell"


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell to teach.")],
) -> None:
    """Print a completion script: `eval "$(assay completion bash)"`, or write it where the shell looks for it."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    say(get_completion_script(prog_name="assay", complete_var="_ASSAY_COMPLETE", shell=shell.value))
