"""A command with services, code and files around it: addresses put in, numbers of both read, everything ended."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.running_server import wait_for

from assay.analyse.steady_state import enough, steady
from assay.errors import MeasureError
from assay.plan.job import Job
from assay.run.code_archive import pack
from assay.run.contract import Measured, Order, Rules
from assay.run.services import RunningService
from assay.run.targets.launcher import (
    CommandEnvironment,
    added_variables,
    benchmark_ai_variables,
    command_words,
    filled,
)
from assay.run.targets.output import Emitted, ServiceOutput, take_line
from assay.run.targets.program import measure
from assay.spec.benchmark import Definition
from assay.spec.target import CommandTarget, MetricPattern


def running(name: str = "web", **keys: Any) -> RunningService:
    told = {
        "host": "10.0.0.7",
        "port": 8080,
        "base_url": "http://10.0.0.7:8080",
        "started_ns": 0,
        "ready_ns": 10**9,
        "pid": None,
        "how": "process",
        "stdout": Path("out"),
        "stderr": Path("err"),
    }
    return RunningService(name, **{**told, **keys})


def target(**keys: Any) -> CommandTarget:
    return CommandTarget.model_validate_json(json.dumps({"command": "x", **keys}))


# -- words and variables ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("http://{host:web}:{port:web}/", "http://10.0.0.7:8080/"),
        ("{code}/src/train.py", "/c/src/train.py"),
        ("awk '{print $1}' {x} {port} {host}", "awk '{print $1}' {x} {port} {host}"),
    ],
)
def test_addresses_and_code_are_put_in(text: str, becomes: str) -> None:
    assert filled(text, {"web": running()}, "/c") == becomes


def test_without_services_every_brace_stays() -> None:
    assert filled("{host:web} {code}", {}, None) == "{host:web} {code}"


def test_a_service_that_does_not_run_is_said() -> None:
    with pytest.raises(MeasureError) as caught:
        filled("{port:wbe}", {"web": running()}, None)
    assert caught.value.problem.code == "service-reference"


def test_variables_of_both_libraries_are_there_and_the_file_wins_over_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "sesame")
    around = CommandEnvironment({"my-web": running("my-web")})
    told = added_variables(
        target(env={"BENCHMARK_AI": "stdout", "AT": "{host:my-web}", "K": "${env:KEY}", "ASSAY_RUN_ID": "99"}),
        around,
        run_id=3,
        pipe="/p",
        code="/c",
    )
    assert told == {
        "BENCHMARK_AI": "stdout",
        "BENCHMARK_AI_FIFO_FILEPATH": "/p",
        "BENCHMARK_AI_FIFO_MAX_WAIT_TIME": "60",
        "BENCHMARK_AI_FIFO_WAIT_TIME_STEP": "0.5",
        "BAI_SCRIPTS_PATH": "/c",
        "AT": "10.0.0.7",
        "K": "sesame",
        "ASSAY_RUN_ID": "3",
        "ASSAY_EMIT_PIPE": "/p",
        "ASSAY_CODE": "/c",
        "ASSAY_SERVICE_MY_WEB_HOST": "10.0.0.7",
        "ASSAY_SERVICE_MY_WEB_PORT": "8080",
        "ASSAY_SERVICE_MY_WEB_URL": "http://10.0.0.7:8080",
    }


def test_where_no_pipe_can_be_reached_their_lines_are_printed() -> None:
    assert benchmark_ai_variables(None, None) == {"BENCHMARK_AI": "stdout"}
    assert "ASSAY_EMIT_PIPE" not in added_variables(target(), CommandEnvironment(), run_id=0, pipe=None, code=None)


def test_words_of_a_command_and_of_an_image_s_own() -> None:
    assert command_words(target(command="a 'b c'")) == ["a", "b c"]
    assert command_words(target(command="a | b", shell=True)) == ["a | b"]
    assert command_words(CommandTarget(image="x", args="--fast 1")) == ["--fast", "1"]
    assert command_words(CommandTarget(image="x")) == []


def test_their_values_are_not_checked_so_the_numbers_among_them_count() -> None:
    taken = Emitted()
    take_line(b'{"loss": 0.5, "phase": "train", "ok": true}', 7, taken)
    assert (taken.values, len(taken.bad_lines)) == ([("loss", 0.5, 7)], 1)
    printed = Emitted()
    take_line(b'{"loss": 0.5, "phase": "train"}', 7, printed, strict=False)  # any log line may look like this
    take_line(b'{"loss": 0.25}', 8, printed, strict=False)
    assert (printed.values, printed.bad_lines) == ([("loss", 0.25, 8)], [])


# -- what services write ---------------------------------------------------------------------------------------------


def test_what_a_service_writes_is_searched_with_the_time_at_which_it_came(tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    out.write_text("served 1\n")
    err.write_text("")
    metrics = [
        MetricPattern(name="served", pattern=r"served (\d+)", service="web"),
        MetricPattern(name="slow", pattern=r"slow (\S+)", service="web"),
        MetricPattern(name="own", pattern=r"served (\d+)"),
    ]
    web = running(stdout=out, stderr=err)
    shared, fresh = ServiceOutput(metrics, {"web": web}), ServiceOutput(metrics, {"web": web}, fresh={"web"})
    begin = time.perf_counter_ns()
    with out.open("a") as file:
        file.write("served 2\n")
    wait_for(lambda: shared._logs["web", "stdout"]._times, what="a look at the log")
    between = time.perf_counter_ns()
    with err.open("a") as file:
        file.write("µ slow 1e-3\nserved 3\nslow often\n")
    found = shared.finish()
    assert [(name, value) for name, value, _ in found.values] == [("served", 2), ("slow", 1e-3), ("served", 3)]
    at = {value: time_ns for _, value, time_ns in found.values}
    assert begin < at[2] < between < at[3]
    assert [item.text for item in found.unreadable] == ["often"]
    assert [value for name, value, _ in fresh.finish().values if name == "served"] == [1, 2, 3]


def test_a_log_that_is_not_here_is_said_and_no_pattern_costs_nothing(tmp_path: Path) -> None:
    metric = MetricPattern(name="served", pattern=r"served (\d+)", service="web")
    away = running(stdout=tmp_path / "none", stderr=tmp_path / "neither")
    assert "cannot be read where the command runs" in ServiceOutput([metric], {"web": away}).finish().absent["served"]
    idle = ServiceOutput([], {"web": away})
    assert idle.finish().values == []


# -- measured --------------------------------------------------------------------------------------------------------


class Stage:
    """Remembers the phases."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.phases.append(name)
        yield

    def progress(self, share: float, note: str = "") -> None:
        pass


def measured(tmp_path: Path, sections: dict[str, Any], stage: Stage | None = None) -> Measured:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    definition = Definition.model_validate_json(json.dumps(sections))
    order = Order(Job("b", "d", 0, definition, base=str(tmp_path)), 0, str(scratch), cache=str(tmp_path / "cache"))
    return measure(order, stage or Stage(), Rules(steady=steady, enough=enough))  # type: ignore[arg-type]


def values(found: Measured) -> dict[str, list[float]]:
    return {one.metric: one.value.tolist() for one in found.samples}


def script(tmp_path: Path, name: str, text: str) -> Sequence[str]:
    (tmp_path / name).write_text(textwrap.dedent(text))
    return (sys.executable, name)


SERVER = """
    import http.server, sys
    class Answer(http.server.BaseHTTPRequestHandler):
        count = 0
        def do_GET(self):
            Answer.count += self.path != "/ping"
            self.send_response(200); self.end_headers(); self.wfile.write(b"fine")
            print(f"answered {Answer.count}", flush=True)
            if self.path == "/die":
                import os; os._exit(9)
        def log_message(self, *_): pass
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""
CLIENT = """
    import os, sys
    from urllib.request import urlopen
    for index in range(3):
        urlopen(f"{os.environ['ASSAY_SERVICE_WEB_URL']}/{index}").read()
        urlopen(f"{sys.argv[1]}/{index}").read()
    print("asked 6")
"""
ANSWERED = {"name": "answered", "pattern": r"answered (\d+)", "service": "web"}


def with_server(tmp_path: Path, client: str) -> dict[str, Any]:
    web = {"command": [*script(tmp_path, "server.py", SERVER), "{port}"], "ready": {"http": "/ping", "within": "30s"}}
    command = [*script(tmp_path, "client.py", client), "http://{host:web}:{port:web}"]
    metrics = [{"name": "asked", "pattern": r"asked (\d+)"}, ANSWERED]
    return {"services": {"web": web}, "target": {"command": command, "metrics": metrics}}


@pytest.mark.live
def test_a_client_finds_its_server_and_the_numbers_of_both_count(tmp_path: Path) -> None:
    stage = Stage()
    found = measured(tmp_path, with_server(tmp_path, CLIENT), stage)
    assert values(found)["asked"] == [6]
    assert values(found)["answered"][-1] == 6
    assert stage.phases == ["load", "measure", "score"]
    assert 0 < found.metrics["start_to_ready_s"] < 30
    assert found.facts["services"]["web"]["how"] == "process"  # type: ignore[index, call-overload]
    assert found.facts["command"][-1] == "http://{host:web}:{port:web}"  # type: ignore[index, call-overload]
    # Processor time of the server belongs to the measurement, not to strangers.
    assert found.window is not None
    assert found.window.cpu_s >= found.metrics["cpu_s"]


@pytest.mark.live
def test_a_client_whose_server_dies_is_reported_so(tmp_path: Path) -> None:
    dying = CLIENT.replace("/{index}", "/die")
    with pytest.raises(MeasureError) as caught:
        measured(tmp_path, with_server(tmp_path, dying))
    assert caught.value.problem.code == "service-ended"


@pytest.mark.live
def test_code_is_unpacked_anew_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    script(
        tmp_path / "src",
        "train.py",
        """
        import os, pathlib, sys
        here = pathlib.Path(__file__).parent
        print("answer", int((here / "n.txt").read_text()))
        assert os.environ["BAI_SCRIPTS_PATH"] == os.environ["ASSAY_CODE"] == str(here.parent)
        (here / "n.txt").write_text("0")
    """,
    )
    (tmp_path / "src" / "n.txt").write_text("42")
    packed = pack(tmp_path / "src", tmp_path / "cache")
    metric = {"name": "answer", "pattern": r"answer (\d+)"}
    sections = {
        "target": {"command": [sys.executable, "{code}/src/train.py"], "code": str(packed.path), "metrics": [metric]}
    }
    assert values(measured(tmp_path, sections)) == {"answer": [42]}
    assert (tmp_path / "src" / "n.txt").read_text() == "42"


@pytest.mark.live
def test_a_plain_command_has_the_phases_and_metrics_that_it_always_had(tmp_path: Path) -> None:
    stage = Stage()
    command = script(tmp_path, "plain.py", "import assay; assay.emit({'n': 1}); print('hello')")
    found = measured(tmp_path, {"target": {"command": [*command]}}, stage)
    assert stage.phases == ["measure", "score"]
    assert set(found.metrics) == {"duration_s", "cpu_s", "cpu_pct", "peak_run_rss_mb"}
    assert values(found) == {"n": [1]}
    assert set(found.facts) == {"command", "output_lines", "peak_rss_is"}


@pytest.mark.live
def test_an_image_that_nobody_runs_is_said(tmp_path: Path) -> None:
    command = script(tmp_path, "plain.py", "print('hello')")
    found = measured(tmp_path, {"target": {"command": [*command], "image": "x:1", "container": "none"}})
    assert found.facts["image_not_used"] == "x:1"
