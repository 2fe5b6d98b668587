"""The pages of the dashboard: a built file where there is one of that name, else the page that shows all others."""

from __future__ import annotations

import gzip
import re
import secrets
import threading
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from starlette.routing import Match

from assay.serve.web.access import public
from assay.serve.web.problems import RequestProblem
from assay.version import __version__

# Style elements that scripts make bear the number of the page; scripts come as files alone.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)


# The wheel carries it, a checkout builds it.
BUILT = Path(__file__).parents[1] / "dashboard/built"
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
    """The files of one folder; rebuilt, they are read again."""

    folder: Path
    _stamp: tuple[int, int] | None = None
    _names: frozenset[str] = frozenset()
    _read: dict[str, BuiltFile] = field(default_factory=dict)
    _reading: threading.Lock = field(default_factory=threading.Lock)

    def find(self, name: str) -> BuiltFile | None:
        """A file by its name below the folder; None where there is none of that name."""
        with self._reading:
            self._read_names()
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

    def _read_names(self) -> None:
        """Learn the names again after a build: only these can be asked for, whatever a path says."""
        try:
            facts = (self.folder / INDEX).stat()
            stamp = (facts.st_mtime_ns, facts.st_size)
        except OSError:
            stamp = None
        if stamp != self._stamp:
            self._stamp, self._read = stamp, {}
            paths = self.folder.rglob("*") if stamp else ()
            files = (path for path in paths if path.suffix in _KINDS and path.is_file() and not path.is_symlink())
            self._names = frozenset(path.relative_to(self.folder).as_posix() for path in files)


def is_built(folder: Path | None) -> bool:
    """Whether there are pages in a folder, or in the one that came with assay."""
    return ((folder or BUILT) / INDEX).is_file()


def content_headers(file: BuiltFile, *, packed: bool) -> Mapping[str, str]:
    cache_control = "public, max-age=31536000, immutable" if file.hashed else "public, max-age=3600"
    headers = {"Cache-Control": cache_control}
    if file.packed is not None:
        headers["Vary"] = "Accept-Encoding"
    return headers | {"Content-Encoding": "gzip"} if packed else headers


def _file(folder: Path, name: str) -> BuiltFile:
    content, suffix = (folder / name).read_bytes(), Path(name).suffix
    packed = None
    if suffix in _PACKED and len(content) >= _WORTH_PACKING:
        short = gzip.compress(content, compresslevel=9, mtime=0)
        packed = short if len(short) < len(content) else None
    return BuiltFile(content, packed, _KINDS[suffix], name.startswith(_HASHED))


# Not pages, whatever follows: programs ask there, and get a 404 in their own format.
_NOT_PAGES = frozenset({"api", "metrics", "docs"})
# What a browser loads for a page. A name of a benchmark may have a point in it too, and is a page.
_FILE = re.compile(r"^[^/]*\.\w+$|^assets/|\.(css|html?|ico|js|map|mjs|png|svg|wasm|woff2?)$", re.IGNORECASE)

_NOT_BUILT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<title>assay</title>
</head>
<body>
<h1>The dashboard was not built</h1>
<p>This is the server of assay {version}, run from a source checkout. Build its web pages once, in the checkout:</p>
<pre>make web</pre>
<p>Then load this page again. Everything else works without it: see <a href="{base}api/v1/docs">the HTTP API</a>.</p>
</body>
</html>
"""


class PageRoute(APIRoute):
    """A route that leaves the addresses of programs alone, so that a wrong one is answered as it always was."""

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        path = _own_path(scope)
        if path.lstrip("/").partition("/")[0] in _NOT_PAGES:
            return Match.NONE, {}
        # Where a proxy shows the server, people leave the last slash out.
        return super().matches(scope if path else {**scope, "path": f"{scope['path']}/"})


router = APIRouter(include_in_schema=False, dependencies=[public], route_class=PageRoute)


@router.api_route("/{path:path}", methods=["GET", "HEAD"])
def show(path: str, request: Request) -> Response:
    """A file of the dashboard, or the page that finds out by itself what the address means."""
    files: BuiltFiles = request.app.state.dashboard
    built_file = files.find(path)
    if built_file is not None:
        packed = built_file.packed if built_file.packed and _takes_gzip(request) else None
        headers = content_headers(built_file, packed=packed is not None)
        return Response(packed or built_file.content, media_type=built_file.kind, headers=dict(headers))
    if _FILE.search(path):
        raise RequestProblem(404, f"the dashboard has no file {path[:80]!r}", code="unknown-file")
    return _page(files, request.scope.get("root_path", "").rstrip("/") + "/")


def _page(files: BuiltFiles, base: str) -> HTMLResponse:
    nonce = secrets.token_urlsafe(18)
    html = files.page(base, nonce) or _NOT_BUILT.format(version=escape(__version__), base=escape(base))
    return HTMLResponse(
        html, headers={"Content-Security-Policy": _POLICY.format(nonce=nonce), "Cache-Control": "no-store"}
    )


def _own_path(scope: MutableMapping[str, Any]) -> str:
    """The path of a request below the one at which a proxy shows the server, whether or not the proxy took that off."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and f"{path}/".startswith(f"{root}/") else path


def _takes_gzip(request: Request) -> bool:
    asked = request.headers.get("accept-encoding", "")
    words = (word.replace(" ", "").lower() for word in asked.split(","))
    return any(
        word == "gzip" or (word.startswith("gzip;q=") and word not in ("gzip;q=0", "gzip;q=0.0")) for word in words
    )
