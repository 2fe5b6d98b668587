"""Stored benchmarks: kept with every version, checked before anything runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response

from assay.errors import SpecError
from assay.place.fleet.protocol import Submission
from assay.serve.intake.benchmark_text import BenchmarkCheck, BenchmarkText, read_text
from assay.serve.intake.submission import plan_submission, preview
from assay.serve.observability import tell
from assay.serve.state import ServerState
from assay.serve.web.access import Cursor, Limit, State, Text, User, readers, unchanged, users
from assay.serve.web.headlines import MOST, Headline, headlines
from assay.serve.web.problems import RequestProblem
from assay.serve.web.records import BenchmarkInput, BenchmarkPreview, Listed
from assay.store.catalogue import BenchmarkSummary, Draft, StoredBenchmark

router = APIRouter(prefix="/api/v1/benchmarks", tags=["benchmarks"])

Name = Annotated[str, Path(max_length=200)]
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="The newest when left out.")]
Names = Annotated[list[str], Query(alias="name", max_length=MOST, description="Name of a benchmark; may be repeated.")]


@router.post("", dependencies=[users], status_code=201, responses={409: {"description": "There is one already."}})
def create_benchmark(given: BenchmarkInput, state: State, response: Response, by: User) -> StoredBenchmark:
    """Keep a benchmark under the name that its document gives it."""
    name = _checked(state, given)
    stored = state.kept.catalogue.create(name, Draft(given.document, given.files, by.name))
    tell("benchmark created", benchmark=name, version=stored.version, by=by.name)
    response.headers["ETag"] = _tag(stored)
    return stored


@router.get("", dependencies=[readers])
def list_benchmarks(
    state: State, cursor: Cursor = None, limit: Limit = 50, text: Text = ""
) -> Listed[BenchmarkSummary]:
    """List stored benchmarks by name."""
    page = state.kept.catalogue.benchmarks(text=text, cursor=cursor, limit=limit)
    return Listed(page.items, page.next)


@router.post("/check", dependencies=[users])
def check_benchmark(submission: Submission, state: State) -> BenchmarkPreview:
    """Say what would happen: the jobs, what they need, and which agents could take them. Nothing is kept."""
    return preview(state, plan_submission(state, submission))


@router.post("/read", dependencies=[users])
def read_benchmark(given: BenchmarkText, state: State) -> BenchmarkCheck:
    """Read a file while it is written: what it says, what is wrong with it and where, and what would happen."""
    return read_text(state, given)


@router.get("/headlines", dependencies=[readers])
def list_headlines(state: State, names: Names) -> Listed[Headline]:
    """List the headline metric of each benchmark with its newest 40 points; one without results has none."""
    return Listed(headlines(state, names))


@router.get(
    "/{name}",
    dependencies=[readers],
    response_model=StoredBenchmark,
    responses={304: {"description": "It has not changed."}},
)
def get_benchmark(
    name: Name, state: State, request: Request, response: Response, version: Version = None
) -> StoredBenchmark | Response:
    """Read a benchmark, or one of its versions."""
    stored = state.kept.catalogue.get(name, version)
    response.headers["ETag"] = _tag(stored)
    return unchanged(request, _tag(stored)) or stored


@router.put("/{name}", dependencies=[users], responses={412: {"description": "Somebody changed it in between."}})
def change_benchmark(
    name: Name,
    given: BenchmarkInput,
    state: State,
    response: Response,
    by: User,
    if_match: Annotated[str | None, Header(description="ETag of the version that is changed.")] = None,
) -> StoredBenchmark:
    """Keep a new version; with `If-Match`, only if nobody else changed it meanwhile."""
    if _checked(state, given) != name:
        raise RequestProblem(
            422,
            f"the document names itself {str(given.document.get('benchmark'))[:80]!r}, not {name!r}",
            code="name",
            at="document.benchmark",
        )
    stored = state.kept.catalogue.change(name, Draft(given.document, given.files, by.name), _expected(if_match))
    tell("benchmark changed", benchmark=name, version=stored.version, by=by.name)
    response.headers["ETag"] = _tag(stored)
    return stored


@router.delete("/{name}", dependencies=[users], status_code=204)
def delete_benchmark(name: Name, state: State, by: User) -> None:
    """Take a benchmark off the list; the campaigns made from it keep their version."""
    state.kept.catalogue.delete(name)
    tell("benchmark deleted", benchmark=name, by=by.name)


@router.get("/{name}/versions", dependencies=[readers])
def list_benchmark_versions(name: Name, state: State) -> Listed[StoredBenchmark]:
    """List every version, the newest first."""
    return Listed(state.kept.catalogue.versions(name))


def _checked(state: ServerState, given: BenchmarkInput) -> str:
    """The name of a benchmark that could be submitted."""
    planned = plan_submission(state, Submission(document=given.document, files=given.files))
    name = planned.plan.benchmark
    if "/" in name or "\\" in name:
        raise SpecError(f"a stored benchmark's name has no slash; this one is {name!r}", code="name", at="benchmark")
    if name == "headlines":
        raise SpecError("a stored benchmark is not named headlines: that address is taken", code="name", at="benchmark")
    return name


def _tag(stored: StoredBenchmark) -> str:
    return f'"{stored.version}-{stored.digest[:16]}"'


def _expected(if_match: str | None) -> int | None:
    """The version that a client means to change."""
    if if_match is None or if_match.strip() == "*":
        return None
    number = if_match.strip().removeprefix("W/").strip('"').partition("-")[0]
    if not number.isascii() or not number.isdigit() or len(number) > 9:
        raise RequestProblem(
            412,
            "If-Match is not an ETag of this benchmark",
            code="precondition",
            try_="read the benchmark and send the ETag that came with it",
        )
    return int(number)
