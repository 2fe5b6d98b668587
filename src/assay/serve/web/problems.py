"""Errors as application/problem+json: what failed, where, and what to do."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException

from assay.errors import AssayError, Problem, SpecError, StoreError, UsageError
from assay.serve.observability import tell, tell_failure

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2

# Problem codes whose HTTP status is not that of their class.
_STATUS = {
    "agent-key": 403,
    "busy": 409,
    "conflict": 409,
    "exists": 409,
    "lifecycle": 409,
    "lost": 409,
    "mismatch": 422,
    "missing-artefact": 409,
    "no-result": 404,
    "not-yours": 409,
    "precondition": 412,
    "too-large": 413,
    "disk": 507,
    "sample-file": 422,
    "samples": 500,
    "value": 422,
}
# Problem codes that mean that something is away for a while, and what it is.
_AWAY = {"store": "the database", "redis": "Redis", "objects-away": "the object store"}


@dataclass(frozen=True, slots=True)
class ProblemItem:
    """One of several things that are wrong with a request."""

    message: str
    code: str = ""
    at: str = ""
    try_: Annotated[str, Field(alias="try")] = ""


@dataclass(frozen=True, slots=True)
class ProblemDocument:
    """What an error answer says (application/problem+json)."""

    type: str
    """A name of the kind of problem: `urn:assay:problem:<code>`."""
    title: str
    """The status in words."""
    status: int
    detail: str
    """What failed, for people."""
    code: str
    """What failed, for programs."""
    at: str = ""
    """Where in the request or document."""
    try_: Annotated[str, Field(alias="try")] = ""
    """What to do about it."""
    errors: tuple[ProblemItem, ...] = ()
    """Every single problem, when there are several."""


class RequestProblem(HTTPException):
    """A request that is refused, raised where the reason is known."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str,
        try_: str = "",
        at: str = "",
        errors: Sequence[Mapping[str, object]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, headers=dict(headers or {}))
        self.body = document(status, detail, code=code, try_=try_, at=at, errors=errors)


class Unavailable(RequestProblem):
    """Something that the server stands on is away for a while; whoever asks should ask again."""

    def __init__(self, what: str = "the database") -> None:
        super().__init__(
            503,
            f"{what} is away",
            code="unavailable",
            try_=f"ask again in {RETRY_AFTER_S} s",
            headers={"Retry-After": str(RETRY_AFTER_S)},
        )


def document(
    status: int,
    detail: str,
    *,
    code: str,
    try_: str = "",
    at: str = "",
    errors: Sequence[Mapping[str, object]] = (),
) -> dict[str, Any]:
    """The body of an error answer."""
    title = HTTPStatus(status).phrase
    body: dict[str, Any] = {
        "type": f"urn:assay:problem:{code}",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
    }
    body |= {"at": at} if at else {}
    body |= {"try": try_} if try_ else {}
    body |= {"errors": [dict(one) for one in errors]} if errors else {}
    return body


def answer(body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(body, status_code=body["status"], headers=dict(headers or {}), media_type=MEDIA_TYPE)


def add_problem_answers(app: FastAPI) -> None:
    """Turn every error into a problem document."""
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(AssayError, _ours)
    app.add_exception_handler(SQLAlchemyError, _database)


def is_away(problem: BaseException) -> bool:
    """Whether an error means that the database, Redis or the object store cannot be reached for now."""
    if isinstance(problem, Unavailable):
        return True
    if isinstance(problem, StoreError):
        return problem.problem.code in _AWAY
    if isinstance(problem, DataError | IntegrityError):
        return False
    return isinstance(problem, DBAPIError | PoolTimeoutError)


def _http(request: Request, problem: Exception) -> JSONResponse:
    if isinstance(problem, RequestProblem):
        return answer(problem.body, problem.headers)
    assert isinstance(problem, HTTPException)  # noqa: S101  (registered for this class alone)
    code = HTTPStatus(problem.status_code).phrase.lower().replace(" ", "-")
    said = f"{request.method} {request.url.path}: {str(problem.detail).lower()}"
    return answer(document(problem.status_code, said, code=code), problem.headers)


def _invalid(request: Request, problem: Exception) -> JSONResponse:  # noqa: ARG001  (the framework's signature)
    assert isinstance(problem, RequestValidationError)  # noqa: S101
    # What was sent is not repeated: it may hold a secret.
    errors = [{"message": one["msg"], "at": ".".join(map(str, one["loc"]))} for one in problem.errors()[:20]]
    detail = "; ".join(f"{one['at']}: {one['message']}" for one in errors[:3])
    return answer(document(422, detail or "the request is not valid", code="request", errors=errors))


def _ours(request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, AssayError)  # noqa: S101
    if is_away(problem):
        return _away(problem)
    status = status_of(problem)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        tell_failure("request failed", problem, path=request.url.path, code=problem.problem.code)
    first = problem.problem
    several = [_item(one) for one in problem.problems] if isinstance(problem, SpecError) else []
    # Where in a benchmark is for the client; where on this machine is not.
    at = first.at if isinstance(problem, SpecError) else ""
    return answer(document(status, first.message, code=first.code, try_=first.try_, at=at, errors=several))


def status_of(problem: AssayError) -> int:
    """The HTTP status of one of our errors."""
    code = problem.problem.code
    if code in _STATUS:
        return _STATUS[code]
    if code.startswith("unknown-") and not isinstance(problem, SpecError):
        return 404
    if isinstance(problem, UsageError):
        return 422 if isinstance(problem, SpecError) else 400
    return 503 if isinstance(problem, StoreError) else 422


def _item(problem: Problem) -> dict[str, str]:
    named = {"message": problem.message, "code": problem.code, "at": problem.at, "try": problem.try_}
    return {key: text for key, text in named.items() if text}


def _database(request: Request, problem: Exception) -> JSONResponse:
    if is_away(problem):
        return _away(problem)
    if isinstance(problem, DataError):
        return answer(document(422, "a value of the request cannot be kept", code="request"))
    if isinstance(problem, IntegrityError):
        return answer(
            document(
                409,
                "this was changed by somebody else at the same time",
                code="conflict",
                try_="read it again and repeat the request",
            )
        )
    return unexpected(request.scope, problem)


def _away(problem: Exception) -> JSONResponse:
    what = _AWAY.get(problem.problem.code, "the database") if isinstance(problem, StoreError) else "the database"
    tell("away", level=logging.DEBUG, what=what, kind=type(problem).__name__)
    unavailable = Unavailable(what)
    return answer(unavailable.body, unavailable.headers)


def unexpected(scope: Mapping[str, Any], problem: Exception) -> JSONResponse:
    """The answer when our own code failed: the log says where, the client is told no detail."""
    tell_failure("request failed", problem, path=scope.get("path", ""), request=scope.get("request_id", ""))
    return answer(document(500, "the server failed on this request; its log says where", code="internal"))
