"""Scratch folders of runs: swept up later if their process was killed, held by one process at a time.

Files that a run leaves in one for its result are checked, freed of secrets and bounded in size before they are kept.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO
from urllib.parse import quote

from assay.run.processes import is_alive, own_start
from assay.spec.references import HIDDEN

_PREFIX = "assay-run-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for one run, named after this process so that others can tell whether it is still used."""
    name = f"{_PREFIX}{os.getpid()}-{own_start():.0f}-"
    folder = Path(tempfile.mkdtemp(prefix=name))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep_abandoned() -> int:
    """Remove folders whose process is gone; return how many there were."""
    swept = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = re.match(rf"{_PREFIX}(\d+)-(\d+)(-|$)", folder.name)
        if owner and not is_alive(int(owner[1]), float(owner[2])):
            shutil.rmtree(folder, ignore_errors=True)
            swept += 1
    return swept


@contextmanager
def held(folder: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a folder for one process; the system frees it even when the process is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+b") as file:
        if not _lock(file.fileno(), wait=False):
            if on_wait is not None:
                on_wait()
            _lock(file.fileno(), wait=True)
        yield  # closing the file frees the lock


def is_held(folder: Path) -> bool:
    """Whether a process holds a folder now."""
    if not (folder / ".lock").is_file():
        return False
    with (folder / ".lock").open("a+b") as file:
        return not _lock(file.fileno(), wait=False)


def _lock(handle: int, *, wait: bool) -> bool:
    if sys.platform == "win32":
        return _lock_on_windows(handle, wait=wait)
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_on_windows(handle: int, *, wait: bool) -> bool:
    if sys.platform != "win32":
        raise NotImplementedError
    import msvcrt

    os.lseek(handle, 0, os.SEEK_SET)
    while True:
        try:
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:  # even when it waits, it gives up after ten seconds
            if not wait:
                return False
        else:
            return True


# Whatever lies in this folder of the scratch folder is kept, also when the run's process was killed.
FOLDER = "files"
MAX_BYTES = 256 * 2**20
# The logs of services, wherever in the scratch folder they are written: they explain a run that was killed.
_LOGS = re.compile(r"service-.+\.(out|err)")
# What a command wrote; the last two are there only where its run was ended from outside.
COMMAND_LOGS = ("command.log", "command.log.tail-before", "command.log.tail")
_BLOCK = 1 << 20
_SHORTEST_SECRET = 4  # shorter ones would garble ordinary words; see `spec.secrets.redact`
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


class _LeftOutError(Exception):
    """Why a file is not kept."""


def gather(
    scratch: Path,
    reported: Mapping[str, str],
    secrets: Sequence[str],
    environ: Mapping[str, str] | None = None,
    at_most: int = MAX_BYTES,
    *,
    shared: Sequence[Path] = (),
) -> tuple[dict[str, Path], dict[str, str]]:
    """Find the files of a run and make them fit to be kept; empty ones say nothing and are left out.

    Args:
        reported: name → path of the files that the target gave back.
        secrets: names of the environment variables whose values must not be kept.
        at_most: largest size of one file. Of a longer text its end is kept.
        shared: logs of services that several runs share, as far as they are written.

    Returns:
        Name → file, and name → why a file was left out or cut.
    """
    hidden = _pattern(secrets, os.environ if environ is None else environ)
    files: dict[str, Path] = {}
    absent: dict[str, str] = {}
    # Those of services on other machines lie in a folder of their own, without the word.
    outside = {path.name if _LOGS.fullmatch(path.name) else f"service-{path.name}": path for path in shared}
    for name, path in {
        **outside,
        **_lying(scratch),
        **{name: Path(reported_path) for name, reported_path in reported.items()},
    }.items():
        try:
            _check(name, path, path.parent if path in shared else scratch)
            if path.stat().st_size:
                files[name], note = _fit(path, scratch / "fit" / name, hidden, at_most)
                absent |= {name: note} if note else {}
        except _LeftOutError as why:
            absent[name] = str(why)
        except (OSError, EOFError, ValueError, zlib.error) as problem:
            absent[name] = f"the file cannot be read: {getattr(problem, 'strerror', None) or problem}"
    return files, absent


def _lying(scratch: Path) -> dict[str, Path]:
    """Files that need no word of the target: logs of its command and services, and the folder that is kept whole."""
    logs = [path for depth in ("", "*/") for path in scratch.glob(f"{depth}service-*") if _LOGS.fullmatch(path.name)]
    logs += [scratch / name for name in COMMAND_LOGS]
    folder = scratch / FOLDER
    return {path.name: path for path in [*logs, *(folder.iterdir() if folder.is_dir() else ())] if path.is_file()}


def _check(name: str, path: Path, scratch: Path) -> None:
    if not name or len(name.encode()) > 200 or name.startswith(".") or re.search(r"[/\\:]", name):
        raise _LeftOutError("its name is no plain file name")
    if not name.isprintable():
        raise _LeftOutError("its name holds a control character")
    if not path.resolve().is_relative_to(scratch.resolve()):
        raise _LeftOutError("it does not lie in the run's folder")
    if not path.is_file():
        raise _LeftOutError("there is no such file")


def _fit(path: Path, copy: Path, hidden: re.Pattern[bytes] | None, at_most: int) -> tuple[Path, str]:
    """The file itself where it can be kept as it is, else a copy that can; and what was cut off, in words."""
    with path.open("rb") as file:
        begin = file.read(8192)
    size = path.stat().st_size
    is_text = not begin.startswith((_GZIP, _PARQUET)) and b"\0" not in begin
    if size > at_most and not is_text:
        raise _LeftOutError(f"it has {size:,} bytes; at most {at_most:,} are kept of one file")
    if hidden is None and size <= at_most:
        return path, ""
    copy.parent.mkdir(exist_ok=True)
    if is_text:
        return copy, _copy_text(path, copy, hidden, at_most)
    if begin.startswith(_GZIP):
        # No time and no name inside: the same answers are the same file.
        with gzip.open(path, "rb") as source, copy.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as sink:
            sink.writelines(_without(hidden, _blocks(source)))
        return copy, ""
    if hidden is not None and _holds(path, hidden, packed=begin.startswith(_PARQUET)):
        raise _LeftOutError("it holds the value of a secret, and nothing can be cut out of it")
    return path, ""


def _copy_text(path: Path, copy: Path, hidden: re.Pattern[bytes] | None, at_most: int) -> str:
    """Copy a text without secrets; of one that is too long the end, which says what happened last."""
    with path.open("rb") as source, copy.open("wb") as sink:
        over = source.seek(0, os.SEEK_END) - at_most
        source.seek(max(over, 0))
        if over > 0:
            skipped = len(source.readline(_BLOCK))  # whole lines, where there are lines
            sink.write(b"[%d bytes before this are left out]\n" % (over + skipped))
        sink.writelines(_without(hidden, _blocks(source)))
    return f"only its end is kept: {over + at_most:,} bytes were written, {at_most:,} are kept" if over > 0 else ""


def _holds(path: Path, hidden: re.Pattern[bytes], *, packed: bool) -> bool:
    """Whether a binary file holds a secret."""
    rest = b""
    with path.open("rb") as source:
        for block in _blocks(source):
            rest = rest[-len(hidden.pattern) :] + block
            if hidden.search(rest):
                return True
    return packed and any(hidden.search(text) for text in _texts_of_parquet(path))


def _texts_of_parquet(path: Path) -> Iterator[bytes]:
    """Every text in a Parquet file, where it lies packed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path).read(use_threads=False)
    yield from (part for pair in (table.schema.metadata or {}).items() for part in pair)
    for field in table.schema:
        yield field.name.encode()
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type) or pa.types.is_dictionary(field.type):
            yield from (str(value).encode() for value in table.column(field.name).unique().to_pylist())


def _pattern(names: Sequence[str], environ: Mapping[str, str]) -> re.Pattern[bytes] | None:
    """What must not be kept: the values of variables, also as JSON and URLs write them; None when there are none."""
    values = {form for name in names for form in (environ.get(name, ""), environ.get(name, "").strip())}
    forms = {*values, *(quote(value, safe="") for value in values)}
    forms |= {json.dumps(value, ensure_ascii=ascii_)[1:-1] for value in values for ascii_ in (True, False)}
    longest_first = sorted((form for form in forms if len(form) >= _SHORTEST_SECRET), key=len, reverse=True)
    encoded = [re.escape(form.encode("utf-8", "surrogateescape")) for form in longest_first]
    # In any case of letters: the host of a URL is written in small ones.
    return re.compile(b"|".join(encoded), re.IGNORECASE) if encoded else None


def _without(hidden: re.Pattern[bytes] | None, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Put stars in place of secrets, also of those that lie across two blocks."""
    if hidden is None:
        yield from blocks
        return
    longest = len(hidden.pattern)  # no form is longer than all of them together
    rest = b""
    for block in blocks:
        rest += block
        sure = len(rest) - longest  # what begins before this ends inside
        parts, done = [], 0
        for match in hidden.finditer(rest):
            if match.start() >= sure:
                break
            parts += [rest[done : match.start()], HIDDEN.encode()]
            done = match.end()
        cut = max(done, sure, 0)
        yield b"".join([*parts, rest[done:cut]])
        rest = rest[cut:]
    yield hidden.sub(HIDDEN.encode(), rest)


def _blocks(source: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    return iter(partial(source.read, _BLOCK), b"")
