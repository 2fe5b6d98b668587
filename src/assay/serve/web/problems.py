"""Errors as application/problem+json: what failed, where, and what to do."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field, ValidationError
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException

from assay.documents import adapter, validation_words
from assay.errors import AssayError, SpecError, StoreError, UsageError
from assay.serve.observability import log_event, log_failure

T = TypeVar("T")
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
        self.body: dict[str, Any] = {
            "type": f"urn:assay:problem:{code}",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": detail,
            "code": code,
            **({"at": at} if at else {}),
            **({"try": try_} if try_ else {}),
            **({"errors": [dict(error) for error in errors]} if errors else {}),
        }

    def answer(self, **more: str) -> JSONResponse:
        """The answer that says so, with further headers."""
        headers = {**(self.headers or {}), **more}
        return JSONResponse(self.body, status_code=self.status_code, headers=headers, media_type=MEDIA_TYPE)


class Unavailable(RequestProblem):
    """Something that the server stands on is away for a while; the client should ask again."""

    def __init__(self, what: str = "the database") -> None:
        super().__init__(
            503,
            f"{what} is away",
            code="unavailable",
            try_=f"ask again in {RETRY_AFTER_S} s",
            headers={"Retry-After": str(RETRY_AFTER_S)},
        )


def bad_value(at: str, what: str) -> RequestProblem:
    return RequestProblem(422, what, code="request", at=at)


def read_body(kind: type[T], body: bytes, what: str, code: str) -> T:
    """Read a document that was sent; what was sent is not repeated in an error: it may hold a secret."""
    try:
        return adapter(kind).validate_json(body)
    except ValidationError as invalid:
        failures = invalid.errors(include_url=False, include_input=False, include_context=False)[:20]
        errors = [{"message": validation_words(error), "at": ".".join(map(str, error["loc"]))} for error in failures]
        raise RequestProblem(422, f"this is not a {what}", code=code, errors=errors) from None


def add_problem_answers(app: FastAPI) -> None:
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
        return problem.answer()
    assert isinstance(problem, HTTPException)  # noqa: S101  (registered for this class alone)
    code = HTTPStatus(problem.status_code).phrase.lower().replace(" ", "-")
    said = f"{request.method} {request.url.path}: {str(problem.detail).lower()}"
    return RequestProblem(problem.status_code, said, code=code, headers=problem.headers).answer()


def _invalid(request: Request, problem: Exception) -> JSONResponse:  # noqa: ARG001  (the framework's signature)
    assert isinstance(problem, RequestValidationError)  # noqa: S101
    # What was sent is not repeated: it may hold a secret.
    errors = [
        {"message": validation_words(error), "at": ".".join(map(str, error["loc"]))} for error in problem.errors()[:20]
    ]
    detail = "; ".join(f"{error['at']}: {error['message']}" for error in errors[:3])
    return RequestProblem(422, detail or "the request is not valid", code="request", errors=errors).answer()


def _ours(request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, AssayError)  # noqa: S101
    if is_away(problem):
        return _away(problem)
    status = status_of(problem)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log_failure("request failed", problem, path=request.url.path, code=problem.problem.code)
    first = problem.problem
    several: list[dict[str, str]] = []
    for entry in problem.problems if isinstance(problem, SpecError) else ():
        named = {"message": entry.message, "code": entry.code, "at": entry.at, "try": entry.try_}
        several.append({key: text for key, text in named.items() if text})
    # Where in a benchmark is for the client; where on this machine is not.
    at = first.at if isinstance(problem, SpecError) else ""
    said = RequestProblem(status, first.message, code=first.code, try_=first.try_, at=at, errors=several)
    return said.answer()


def status_of(problem: AssayError) -> int:
    code = problem.problem.code
    if code in _STATUS:
        return _STATUS[code]
    if code.startswith("unknown-") and not isinstance(problem, SpecError):
        return 404
    if isinstance(problem, UsageError):
        return 422 if isinstance(problem, SpecError) else 400
    return 503 if isinstance(problem, StoreError) else 422


def _database(request: Request, problem: Exception) -> JSONResponse:
    if is_away(problem):
        return _away(problem)
    if isinstance(problem, DataError):
        return RequestProblem(422, "a value of the request cannot be kept", code="request").answer()
    if isinstance(problem, IntegrityError):
        said = "this was changed by another request at the same time"
        return RequestProblem(409, said, code="conflict", try_="read it again and repeat the request").answer()
    return unexpected(request.scope, problem)


def _away(problem: Exception) -> JSONResponse:
    what = _AWAY.get(problem.problem.code, "the database") if isinstance(problem, StoreError) else "the database"
    log_event("away", level=logging.DEBUG, what=what, kind=type(problem).__name__)
    return Unavailable(what).answer()


def unexpected(scope: Mapping[str, Any], problem: Exception) -> JSONResponse:
    """The answer when our own code failed: the log says where, the client gets no detail."""
    log_failure("request failed", problem, path=scope.get("path", ""), request=scope.get("request_id", ""))
    return RequestProblem(500, "the server failed on this request; its log says where", code="internal").answer()
