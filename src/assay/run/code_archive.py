"""Code that travels with a benchmark: packed so that the same content is the same file, and unpacked without trust."""

from __future__ import annotations

import hashlib
import os
import posixpath
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

from assay.errors import MeasureError
from assay.files import file_digest
from assay.units import show_bytes

FOLDER = "code"
SUFFIX = ".tar"
MAX_BYTES = 512 * 2**20
MAX_FILES = 50_000
# What tools make again by themselves, and what is larger than the code and no part of it.
_LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox",
     ".ipynb_checkpoints", ".DS_Store"}
)  # fmt: skip
_BLOCK = 1 << 20
# How a script that names its interpreter begins, and a program of Linux.
_PROGRAMS = (b"#!", b"\x7fELF")

Stamp = tuple[tuple[str, int, int, int], ...]  # name, time of change, size, mode


@dataclass(frozen=True, slots=True)
class CodeArchive:
    """Code in one file."""

    path: Path
    sha256: str
    size_bytes: int
    files: int
    """How many files it holds."""


def pack(source: Path, cache: Path) -> CodeArchive:
    """Pack a folder or a file under its own name; a `.tar` is taken as it is.

    Equal content gives equal bytes, on every machine and at any time; what is packed already is not packed again.
    """
    try:
        if source.is_file() and source.name.lower().endswith(SUFFIX):
            return _as_it_is(source)
        root = source.resolve(strict=True)
        name = root.name if source.name in ("", "..") else source.name
        stamp = tuple(_stamps(root))
        if not stamp:
            raise _refused(f"{str(source)!r} holds no file", "name the folder with your code")
        packed = _packed(root, name, cache, stamp)
        # The cache may have been emptied since.
        return packed if packed.path.is_file() else _packed.__wrapped__(root, name, cache, stamp)
    except FileNotFoundError:
        raise _refused(
            f"{str(source)!r} is not there", "target.code is relative to the benchmark file's folder"
        ) from None
    except OSError as problem:
        raise _refused(
            f"{str(source)!r} cannot be packed: {problem.strerror or problem}",
            "check its permissions and those of the cache folder",
        ) from None


def unpack(packed: Path, folder: Path) -> int:
    """Unpack code into a folder that is made for it; return how many files it holds."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(packed) as archive:
            return _taken_out(archive, folder.resolve())
    except tarfile.TarError as problem:
        raise _refused(f"{packed.name} is no archive that can be read: {problem}", "make it with `tar -cf`") from None
    except OSError as problem:
        raise _refused(f"{packed.name} cannot be unpacked: {problem.strerror or problem}", "free some space") from None


def _as_it_is(source: Path) -> CodeArchive:
    if not tarfile.is_tarfile(source):
        raise _refused(f"{str(source)!r} is no archive that can be read", "make it with `tar -cf`, or name the folder")
    with tarfile.open(source) as archive:
        files = sum(1 for member in archive if member.isfile() or member.islnk())
    return CodeArchive(source, file_digest(source), source.stat().st_size, files)


def _stamps(source: Path) -> Iterator[tuple[str, int, int, int]]:
    """The files of the code in order, with what tells a changed one; checked before anything is written."""
    size = 0
    for count, path in enumerate(_files(source), start=1):
        status = path.lstat()
        size += status.st_size
        if size > MAX_BYTES or count > MAX_FILES:
            raise _refused(
                f"{str(source)!r} holds more than {show_bytes(MAX_BYTES)} or {MAX_FILES:,} files, which is no code",
                "name the folder with the code alone, and put data under target.fetch",
            )
        yield path.relative_to(source).as_posix(), status.st_mtime_ns, status.st_size, status.st_mode


def _files(source: Path) -> Iterator[Path]:
    """Every file and link of the code, in an order that does not depend on the disk."""
    if source.is_file():
        yield source
        return
    for above, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        links = [name for name in folders if (Path(above) / name).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(above) / name
            if name in _LEFT_OUT or name.endswith(".pyc"):
                continue
            if path.is_symlink() and (path.readlink().is_absolute() or not path.resolve().is_relative_to(source)):
                raise _refused(f"{str(path)!r} is a link that leads out of the code", "put the file itself there")
            if not path.is_symlink() and not path.is_file():
                raise _refused(f"{str(path)!r} is no file that could be packed", "remove it")
            yield path


@lru_cache(maxsize=64)
def _packed(source: Path, name: str, cache: Path, stamp: Stamp) -> CodeArchive:
    """Pack the files of a stamp; a changed one has another stamp, so that it is packed again."""
    folder = cache / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    handle, made = tempfile.mkstemp(dir=folder, prefix=".part-")
    partial = Path(made)
    try:
        with os.fdopen(handle, "w+b") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
                for member, *_ in stamp:
                    _add(archive, source / member, posixpath.normpath(posixpath.join(name, member)))
            file.seek(0)
            digest, size = hashlib.file_digest(file, "sha256").hexdigest(), file.seek(0, os.SEEK_END)
        place = folder / f"{digest}{SUFFIX}"
        partial.replace(place)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return CodeArchive(place, digest, size, len(stamp))


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    """Add a file without anything that differs from machine to machine: owner, time and most of its mode."""
    member = tarfile.TarInfo(name)
    member.mode = 0o755 if path.lstat().st_mode & 0o100 else 0o644
    if path.is_symlink():
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        archive.addfile(member)
        return
    with path.open("rb") as file:
        member.size = os.fstat(file.fileno()).st_size
        archive.addfile(member, file)


def _taken_out(archive: tarfile.TarFile, folder: Path) -> int:
    files = size = 0
    for member in archive:
        place = _place(member.name, folder)
        # An earlier member may be a link: whatever is made through it must still end up in the folder.
        if not (place if member.isdir() else place.parent).resolve().is_relative_to(folder):
            raise _leads_out(member.name)
        if member.isdir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        files, size = files + 1, size + member.size
        if size > MAX_BYTES or files > MAX_FILES:
            raise _refused(f"it unfolds to more than {show_bytes(MAX_BYTES)} or {MAX_FILES:,} files", "pack less")
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink():
            place.unlink()
        if member.issym():
            place.symlink_to(member.linkname)
        else:
            _write(archive, member, place)
    return files


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    try:
        content: IO[bytes] | None = archive.extractfile(member) if member.isfile() or member.islnk() else None
    except (KeyError, RecursionError):
        raise _refused(
            f"{member.name!r} in it is a link to no file of the archive ({member.linkname!r})", "pack it again"
        ) from None
    if content is None:
        raise _refused(f"{member.name!r} in it is no file", "pack files and folders alone")
    with content, place.open("wb") as file:
        begin = content.read(_BLOCK)
        file.write(begin)
        shutil.copyfileobj(content, file, _BLOCK)
    # A checkout without modes, or an archive from another system, loses the bit of an entry point.
    place.chmod(0o755 if member.mode & 0o100 or begin.startswith(_PROGRAMS) else 0o644)


def _place(name: str, folder: Path) -> Path:
    clean = posixpath.normpath(name)
    if clean.startswith(("/", "../")) or clean == ".." or "\\" in clean or "\0" in clean:
        raise _leads_out(name)
    return folder / clean


def _leads_out(name: str) -> MeasureError:
    return _refused(f"{name!r} in it leads out of the folder", "pack it again, with names that lie below one folder")


def _refused(message: str, try_: str) -> MeasureError:
    return MeasureError(f"the code cannot be used: {message}", code="code", at="target.code", try_=try_)
