"""The documentation page: works without any network, and behind a proxy under any path."""

from __future__ import annotations

import copy
from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse

from assay.serve.web.access import public
from assay.serve.web.problems import MEDIA_TYPE, ProblemDocument, RequestProblem
from assay.version import __version__

API = "/api/v1"
_FILES = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}
# The page and its scripts come from here; nothing may come from anywhere else.
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"  # noqa: E501
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<link rel="stylesheet" href="{base}/docs/swagger-ui.css">
<link rel="icon" href="{base}/docs/favicon-32x32.png">
</head>
<body>
<div id="page" data-document="{base}/docs/document.json"></div>
<script src="{base}/docs/swagger-ui-bundle.js"></script>
<script src="{base}/docs/start.js"></script>
</body>
</html>
"""
_START = """const page = document.getElementById("page");
SwaggerUIBundle({
  url: page.dataset.document, domNode: page, deepLinking: true, validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis], persistAuthorization: false,
});
"""
_CACHED = {"Cache-Control": "max-age=3600"}

router = APIRouter(prefix=API, include_in_schema=False, dependencies=[public])


@router.get("/openapi.json")
def openapi(request: Request) -> JSONResponse:
    """The API as an OpenAPI 3.1 document."""
    return JSONResponse(request.app.openapi())


@router.get("/docs")
def page(request: Request) -> HTMLResponse:
    base = escape(request.scope.get("root_path", "").rstrip("/") + API)
    html = _PAGE.format(title=f"assay {escape(__version__)}: HTTP API", base=base)
    return HTMLResponse(html, headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/document.json")
def document_for_page(request: Request) -> JSONResponse:
    """The same document in the older words that the page understands."""
    return JSONResponse(as_version_3_0(request.app.openapi()))


@router.get("/docs/start.js")
def start() -> HTMLResponse:
    return HTMLResponse(_START, media_type="text/javascript", headers=_CACHED)


@router.get("/docs/{name}")
def file(name: str) -> FileResponse:
    """A file of the page; only those it needs."""
    if name not in _FILES:
        raise RequestProblem(404, f"the documentation has no file {name[:80]!r}", code="unknown-file")
    from swagger_ui_bundle import swagger_ui_path  # type: ignore[import-untyped]

    return FileResponse(swagger_ui_path / name, media_type=_FILES[name], headers=_CACHED)


def describe(app: FastAPI) -> None:
    """Have the app describe itself once, with the error answers that every route can give."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title="assay",
                version=__version__,
                description="Benchmarks for machine learning whose results carry their own doubt.",
                routes=app.routes,
                tags=app.openapi_tags,
            )
            _add_problems(made)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _add_problems(made: dict[str, Any]) -> None:
    from assay.documents import adapter

    schema = adapter(ProblemDocument).json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    schemas |= schema.pop("$defs", {})
    schemas["ProblemDocument"] = schema
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path, item in made["paths"].items():
        for operation in item.values():
            _add_problem_answers(operation, path)


_MEANING = {
    "400": "The request cannot be done as it stands.",
    "401": "No valid token.",
    "403": "The token's role does not allow this.",
    "404": "There is no such thing.",
    "413": "The body is larger than allowed.",
    "422": "The request or the document in it is not valid.",
    "503": "The database is away; ask again after `Retry-After` seconds.",
}


# How SARK's clients read errors.
_SARK_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}


def _add_problem_answers(operation: dict[str, Any], path: str) -> None:
    body: dict[str, Any] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    if path == "/api" or (path.startswith("/api/") and not path.startswith(f"{API}/")):
        # The framework itself checks parameters, before the errors get SARK's shape.
        body = {"application/json": {"schema": _SARK_ERROR}, **body}
    answers = operation["responses"]
    expected = {"400", "422", "503"}
    expected |= {"401", "403"} if operation.get("security") else set()
    expected |= {"413"} if "requestBody" in operation else set()
    expected |= {"404"} if "{" in path or "requestBody" in operation or operation.get("parameters") else set()
    for status in expected:
        answers[status] = {"description": _MEANING[status], "content": body}
    for status, said in answers.items():
        if status >= "4" and status not in expected:
            said["content"] = body


def as_version_3_0(made: dict[str, Any]) -> dict[str, Any]:
    """An OpenAPI 3.1 document in the words of 3.0, as far as reading needs it."""
    older: dict[str, Any] = _older(copy.deepcopy(made))
    return {**older, "openapi": "3.0.3"}


def _older(node: Any) -> Any:  # noqa: ANN401  (any JSON)
    if isinstance(node, list):
        return [_older(child) for child in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _older(value) for key, value in node.items()}
    options = plain.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        others = [option for option in options if option != {"type": "null"}]
        plain.pop("anyOf")
        plain |= {"nullable": True} | ({"allOf": others} if len(others) == 1 else {"anyOf": others})
    if "const" in plain:
        plain["enum"] = [plain.pop("const")]
    if isinstance(plain.get("type"), list):
        plain["anyOf"] = [{"type": kind} for kind in plain.pop("type") if kind != "null"]
    if "prefixItems" in plain:
        plain["items"] = {"anyOf": plain.pop("prefixItems")}
    return plain
