"""A program of your own: it is given the message as JSON on its standard input, without a shell.

Only the server's own channels file can name one; a benchmark file names channels, never programs.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Literal

from pydantic import Field, field_validator

from assay.alert.message import Message
from assay.alert.notify.protocol import REPAIR_S, Channel, NotifyError, payload, revealed
from assay.report.wording import one_line
from assay.run.processes import TAG_VARIABLE, kill_tree

# What a program needs to run at all; the secrets of the server are none of its business.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT")
_NEVER_EXIT = 65  # EX_DATAERR of sysexits.h
_SHOWN = 300


class Command(Channel):
    """A program that tells people."""

    kind: Literal["command"]
    command: tuple[str, ...] = Field(min_length=1)
    """The program and its arguments, one by one; there is no shell."""
    folder: Path | None = None
    """Where it runs; the root of the file system when left out."""
    env: dict[str, str] = Field(default_factory=dict)
    """Its environment beside PATH, HOME, LANG, LC_ALL, TZ and TMPDIR; nothing else of the server's is passed on."""

    @field_validator("command")
    @classmethod
    def _names_a_program(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value[0].strip() or any("\0" in part for part in value):
            raise ValueError("the first part names a program")
        return value

    def send(self, message: Message) -> None:
        """Run the program; exit code 0 says that the message was taken, 65 that it never will be."""
        # A file takes any amount of output, and is not kept open by what the program leaves behind.
        with tempfile.TemporaryFile() as output:
            code = self._run(json.dumps(payload(message)).encode(), message, output)
            if code != 0:
                said = _end_of(output)
                raise NotifyError(
                    f"{self._name} ended with {code}{f': {said}' if said else ''}",
                    retry=code != _NEVER_EXIT,
                    code="command",
                )

    def _run(self, document: bytes, message: Message, output: IO[bytes]) -> int:
        tag = secrets.token_hex(8)
        with self._start(message, tag, output) as process:
            try:
                process.communicate(document, timeout=self.timeout)
            except subprocess.TimeoutExpired:
                kill_tree(process.pid, tag)
                said = _end_of(output)
                raise NotifyError(
                    f"{self._name} had not ended after {self.timeout:g} s{f': {said}' if said else ''}", code="timeout"
                ) from None
            return process.returncode

    def _start(self, message: Message, tag: str, output: IO[bytes]) -> subprocess.Popen[bytes]:
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= {name: revealed(value) for name, value in self.env.items()}
        environment |= {"ASSAY_KEY": message.key, "ASSAY_EVENT": message.event, TAG_VARIABLE: tag}
        try:
            return subprocess.Popen(
                [revealed(part) for part in self.command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self.folder or Path("/"),
                start_new_session=True,
            )
        except OSError as problem:
            raise NotifyError(
                f"{self._name} cannot be started: {problem.strerror}",
                after_s=REPAIR_S,
                code="command",
                try_="give its whole path, and check that it may be run",
            ) from None

    @property
    def _name(self) -> str:
        return Path(self.command[0]).name


def _end_of(output: IO[bytes]) -> str:
    """The last words of a program."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(size - 4 * _SHOWN, 0))
    return one_line(output.read().decode("utf-8", "replace"))[-_SHOWN:]
