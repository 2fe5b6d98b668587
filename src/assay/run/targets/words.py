"""The words of a command."""

from __future__ import annotations

import shlex

from assay.spec.commands import split_words
from assay.spec.target import CommandTarget


def words_of(target: CommandTarget) -> list[str]:
    """The command as a list of words; the shell's own text when it goes through a shell.

    Of an image's own command, which nobody here knows, its arguments alone.

    Raises:
        ValueError: for a quote that is never closed.
    """
    command = target.args if target.command is None else target.command
    if target.shell:
        return [command if isinstance(command, str) else shlex.join(command)]
    return list(split_words(command) if isinstance(command, str) else command)
