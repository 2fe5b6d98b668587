"""Pipes between a process and the child it starts: how each system hands them over and waits for them."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import Any

_LOOK_AGAIN_S = 0.02


def hand_over(*ends: int) -> tuple[dict[str, Any], list[str]]:
    """What starts a child that inherits some pipe ends, and the words by which it finds them."""
    if sys.platform == "win32":
        import msvcrt
        import subprocess

        handles = [msvcrt.get_osfhandle(end) for end in ends]
        for handle in handles:
            os.set_handle_inheritable(handle, True)
        startup = subprocess.STARTUPINFO(lpAttributeList={"handle_list": handles})
        options = {"startupinfo": startup, "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        return options, [str(handle) for handle in handles]
    return {"pass_fds": ends, "start_new_session": True}, [str(end) for end in ends]


def take_over(word: str, *, writing: bool) -> int:
    """The pipe end that a child was given, by its word."""
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.open_osfhandle(int(word), os.O_WRONLY if writing else os.O_RDONLY)
    return int(word)


def readable(end: int, wait_s: float) -> bool:
    """Whether something can be read from a pipe, or its other end is closed, within some time."""
    if sys.platform == "win32":
        return _peeked(end, wait_s)
    # Unlike select, poll knows no largest number of a file.
    poll = select.poll()
    poll.register(end, select.POLLIN)
    return bool(poll.poll(wait_s * 1000))


def _peeked(end: int, wait_s: float) -> bool:
    """The same where pipes cannot be waited for: look now and then."""
    if sys.platform != "win32":
        raise NotImplementedError
    import _winapi
    import msvcrt

    until = time.monotonic() + wait_s
    while True:
        try:
            if _winapi.PeekNamedPipe(msvcrt.get_osfhandle(end), 0)[0]:
                return True
        except OSError:  # closed: reading says so
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_LOOK_AGAIN_S)
