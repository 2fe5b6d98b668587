"""Addresses of the dashboard: a file where there is one of that name, else the page that shows all others."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from html import escape
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from starlette.routing import Match

from assay.serve.dashboard.files import BuiltFiles, content_headers
from assay.serve.dashboard.policy import new_nonce, page_headers
from assay.serve.web.access import public
from assay.serve.web.problems import RequestProblem
from assay.version import __version__

# Not pages, whatever follows: programs ask there, and are told that something is not there in their own words.
_NOT_PAGES = frozenset({"api", "metrics", "docs"})
# What a browser loads for a page. A name of somebody's benchmark may have a point in it too, and is a page.
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
        """Whether a request is for a page or one of its files."""
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
    found = files.find(path)
    if found is not None:
        packed = found.packed if found.packed and _takes_gzip(request) else None
        headers = content_headers(found, packed=packed is not None)
        return Response(packed or found.content, media_type=found.kind, headers=dict(headers))
    if _FILE.search(path):
        raise RequestProblem(404, f"the dashboard has no file {path[:80]!r}", code="unknown-file")
    return _page(files, request.scope.get("root_path", "").rstrip("/") + "/")


def _page(files: BuiltFiles, base: str) -> HTMLResponse:
    nonce = new_nonce()
    html = files.page(base, nonce) or _NOT_BUILT.format(version=escape(__version__), base=escape(base))
    return HTMLResponse(html, headers=page_headers(nonce))


def _own_path(scope: MutableMapping[str, Any]) -> str:
    """The path of a request below the one at which a proxy shows the server, whether or not the proxy took that off."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and f"{path}/".startswith(f"{root}/") else path


def _takes_gzip(request: Request) -> bool:
    asked = request.headers.get("accept-encoding", "")
    words = (one.replace(" ", "").lower() for one in asked.split(","))
    return any(one == "gzip" or (one.startswith("gzip;q=") and one not in ("gzip;q=0", "gzip;q=0.0")) for one in words)
