"""Log files that stay small: the beginning and the end of what came, in order, whatever its pieces."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from assay.run.services import BoundedLog

HEAD, TAIL = 40, 100


@settings(max_examples=300)
@given(st.lists(st.integers(1, 90), max_size=40))
def test_head_and_tail_are_kept_and_the_rest_is_counted(sizes):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        log, whole = BoundedLog(path, HEAD, TAIL), b""
        for number, size in enumerate(sizes):
            piece = bytes([97 + number % 26]) * size
            log.write(piece)
            whole += piece
            # The writer may be one piece above its bound just before it shortens, never after.
            assert path.stat().st_size <= HEAD + 2 * TAIL + 60
        log.close()
        text = path.read_bytes()
    if len(whole) <= HEAD + TAIL:
        assert text == whole
        return
    head, dropped, tail = re.fullmatch(rb"(.*)\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n(.*)", text, re.DOTALL).groups()
    assert head == whole[:HEAD]
    assert whole.endswith(tail)
    assert len(tail) == TAIL
    assert len(head) + int(dropped) + len(tail) == len(whole)


def test_a_full_disk_stops_nobody(tmp_path):
    log = BoundedLog(Path("/dev/full"))
    log.write(b"x" * 100)
    log.close()
