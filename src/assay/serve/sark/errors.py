"""Errors as SARK's clients read them: `{"error": text}`."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from assay.errors import AssayError, SpecError, UsageError
from assay.serve.web.problems import RequestProblem, Unavailable, is_away, status_of

_Answer = Callable[[Request], Coroutine[Any, Any, Response]]


class SarkRoute(APIRoute):
    """A route whose errors have SARK's shape; what is our own fault still goes to the log."""

    def get_route_handler(self) -> _Answer:
        """The route, with its errors turned into SARK's."""
        inner = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await inner(request)
            except RequestProblem as problem:
                return _error(problem.status_code, str(problem.body["detail"]), problem.headers)
            except HTTPException as problem:
                return _error(problem.status_code, str(problem.detail), problem.headers)
            except (AssayError, SQLAlchemyError) as problem:
                return _ours(problem)

        return answered


async def json_body(request: Request) -> dict[str, Any]:
    """The body as a JSON object, whatever type the client says it has: SARK's own examples name none."""
    try:
        body = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON", code="body") from None
    if not isinstance(body, dict):
        raise UsageError("the body must be a JSON object", code="body")
    return body


def _ours(problem: AssayError | SQLAlchemyError) -> Response:
    if is_away(problem):
        away = Unavailable()
        return _error(away.status_code, str(away.detail), away.headers)
    if isinstance(problem, SQLAlchemyError):
        raise problem
    status = HTTPStatus.BAD_REQUEST if isinstance(problem, SpecError) else status_of(problem)
    text = "; ".join(one.message for one in problem.problems)
    return _error(status, f"{text}; {problem.problem.try_}" if problem.problem.try_ else text)


def _error(status: int, text: str, headers: Any = None) -> JSONResponse:  # noqa: ANN401  (a mapping or nothing)
    return JSONResponse({"error": text}, status_code=status, headers=dict(headers or {}))
