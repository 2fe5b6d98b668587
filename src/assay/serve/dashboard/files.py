"""The built files of the dashboard: known by name, held in memory, packed once."""

from __future__ import annotations

import gzip
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

# Beside this file; the wheel carries it, a checkout builds it.
BUILT = Path(__file__).parent / "built"
INDEX = "index.html"
# Their names hold a hash of their content, so a name never means another content.
_HASHED = "assets/"
_KINDS = {
    ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8", ".json": "application/json", ".png": "image/png",
    ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8", ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}  # fmt: skip
_PACKED = frozenset({".css", ".html", ".js", ".json", ".svg", ".txt", ".webmanifest"})
# Smaller ones gain nothing.
_WORTH_PACKING = 1024

_BASE = re.compile(r"<base\b[^>]*>")
_NONCE = re.compile(r"""<meta name="csp-nonce"[^>]*>""")


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """A file as it is sent."""

    content: bytes
    packed: bytes | None
    """The same by gzip, where that is shorter."""
    kind: str
    hashed: bool
    """The name stands for this content for ever."""


@dataclass(slots=True)
class BuiltFiles:
    """The files of one folder; built anew, they are read anew."""

    folder: Path
    _stamp: tuple[int, int] | None = None
    _names: frozenset[str] = frozenset()
    _read: dict[str, BuiltFile] = field(default_factory=dict)
    _reading: threading.Lock = field(default_factory=threading.Lock)

    def find(self, name: str) -> BuiltFile | None:
        """A file by its name below the folder; None where there is none of that name."""
        with self._reading:
            self._look()
            if name not in self._names or name == INDEX:
                return None
            if name not in self._read:
                self._read[name] = _file(self.folder, name)
            return self._read[name]

    def page(self, base: str, nonce: str) -> str | None:
        """The single page of the dashboard, for the path it is served under; None if nothing was built."""
        try:
            text = (self.folder / INDEX).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        based = _BASE.sub(lambda _: f'<base href="{escape(base)}">', text, count=1)
        return _NONCE.sub(lambda _: f'<meta name="csp-nonce" content="{escape(nonce)}">', based, count=1)

    def _look(self) -> None:
        """Learn the names anew after a build: only these can be asked for, whatever a path says."""
        stamp = _stamp(self.folder / INDEX)
        if stamp != self._stamp:
            self._stamp, self._read = stamp, {}
            self._names = frozenset(_names(self.folder)) if stamp else frozenset()


def is_built(folder: Path | None) -> bool:
    """Whether there are pages in a folder, or in the one that came with assay."""
    return ((folder or BUILT) / INDEX).is_file()


def content_headers(file: BuiltFile, *, packed: bool) -> Mapping[str, str]:
    kept = "public, max-age=31536000, immutable" if file.hashed else "public, max-age=3600"
    headers = {"Cache-Control": kept}
    if file.packed is not None:
        headers["Vary"] = "Accept-Encoding"
    return headers | {"Content-Encoding": "gzip"} if packed else headers


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _names(folder: Path) -> list[str]:
    return [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.suffix in _KINDS and path.is_file() and not path.is_symlink()
    ]


def _file(folder: Path, name: str) -> BuiltFile:
    content, suffix = (folder / name).read_bytes(), Path(name).suffix
    packed = None
    if suffix in _PACKED and len(content) >= _WORTH_PACKING:
        short = gzip.compress(content, compresslevel=9, mtime=0)
        packed = short if len(short) < len(content) else None
    return BuiltFile(content, packed, _KINDS[suffix], name.startswith(_HASHED))
