"""Requests that nobody thought of: made from the OpenAPI document, they never find a 5xx."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance
from tests.live.serve.setups import Agent, benchmark, submit
from tests.support.running_server import RunningServer

from assay.serve.app import create_app
from assay.serve.settings import ServerSettings

pytestmark = pytest.mark.live

EXAMPLES = {"sqlite": 4, "postgresql": 8}
DOCUMENT = schemathesis.openapi.from_dict(create_app(ServerSettings()).openapi())
# A stream never ends, and a reset would leave the others nothing to find.
LEFT_OUT = ("/events", "/api/reset")
OPERATIONS = [one.ok() for one in DOCUMENT.get_all_operations() if not one.ok().path.endswith(LEFT_OUT)]


# What is refused, and how, does not depend on the database; the second one is for the second tier, with more requests.
@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.nightly)])
def filled(tmp_path_factory, request):
    """A server that has one of everything, and the names of those things."""
    url = request.getfixturevalue("postgresql").migrated() if request.param == "postgresql" else None
    folder = tmp_path_factory.mktemp("any")
    server = RunningServer(ServerSettings(port=0, folder=folder, max_body_mb=1, max_result_mb=1, database_url=url))
    client = server.client
    agent = Agent(client)
    campaign = submit(client)["id"]
    lease = agent.lease()
    agent.progress(lease, log=["a line"])
    agent.deliver(lease)
    held = agent.lease()
    client.post("/benchmarks", json={"document": benchmark()})
    names = {
        "agent": agent.id,
        "campaign": campaign,
        "job": held.job.id,
        "fence": held.fence,
        "name": "speed",
        "sha256": agent.upload(b"content"),
        "run": 0,
        "form": "csv",
        "worker": agent.id,
        "machine": "box",
    }
    yield server, names, EXAMPLES[request.param]
    server.stop()


def _as_documented(answer):
    """What holds for answers of routes; a method or a path that there is not is answered by the framework."""
    return () if answer.status_code in (404, 405) else (status_code_conformance, content_type_conformance)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_no_request_makes_the_server_fail(operation, mode, filled):
    server, names, examples = filled

    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        # Half of the requests are about things that exist; those are not removed, or the others would find nothing.
        if len(str(case.body)) % 2 and case.method.upper() != "DELETE":
            case.path_parameters = {
                name: names.get(name, value) for name, value in (case.path_parameters or {}).items()
            }
        if isinstance(case.body, dict) and "wait_s" in case.body:
            case.body["wait_s"] = 0.01
        answer = case.call(base_url=server.url, timeout=60)
        case.validate_response(answer, checks=[not_a_server_error, *_as_documented(answer)])

    try:
        ask()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "every operation can be asked for in the right way"
