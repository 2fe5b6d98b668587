"""A gate as a terminal, a program, a pull request and a build server show it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from assay.analyse.gate import GateResult, JobGate, LimitVerdict, RegressionLimits, gate
from assay.analyse.records import Check, Interval
from assay.report.comparison import Side
from assay.report.gate import Gated, gate_json, gate_junit, gate_markdown, gate_text, marker

GOLDEN = Path(__file__).with_name("golden")
RED = LimitVerdict(
    "latency_ms",
    "ms",
    "lower",
    0.05,
    6.74,
    Interval(6.56, 6.92, 0.95, ""),
    7.41,
    Interval(7.28, 7.54, 0.95, ""),
    0.099,
    Interval(0.072, 0.124, 0.95, ""),
    "red",
    "worse by more than 5.0 %",
    5,
    1e-4,
)
UNTOLD = replace(
    RED,
    name="ttft_ms.p99",
    limit=0.03,
    change=0.02,
    interval=Interval(-0.04, 0.08, 0.95, ""),
    answer="cannot tell",
    because="the change may be none, or worse by more than 3.0 %; about 4 more runs on each side would tell",
)
GREEN = replace(
    RED,
    name="throughput_per_s",
    unit="1/s",
    better="higher",
    baseline=145.8,
    value=150.0,
    baseline_interval=None,
    value_interval=Interval(145.0, 155.0, 0.95, ""),
    change=0.029,
    interval=Interval(0.001, 0.057, 0.95, ""),
    answer="green",
    because="better",
)
ABSENT = LimitVerdict("recall", "", "higher", 0.05, because="recall was not measured")
WARNING = "onnxruntime is 1.20.1 against 1.21.0"


def side(record, *names: str) -> Side:
    return Side(("label:branch=main",), (record,) * len(names), names)


@pytest.fixture
def gated(build):
    """A gate of two jobs: one red, one that could not be measured."""
    good, failed = build.done_job(), build.failed_job()
    missed = Check("latency_ms.p99", False, "13.9 ms, the objective is 10 ms")
    jobs = (
        JobGate(replace(good, gates=(missed,)), "judged", lines=(RED, UNTOLD, GREEN), warnings=(WARNING,)),
        JobGate(failed, "not measured", ("the new result is not a measurement: its job is failed",)),
    )
    because = ("1 of 3 numbers worse than the limit", "1 of 1 objective missed", "1 of 2 jobs not measured")
    made = GateResult("red", because, jobs, missing=(replace(good, point={"workload.batch": 32}),))
    record = build.campaign(good, failed)
    return Gated(made, side(record, "c2"), side(record, "c1", "c0"), RegressionLimits(0.05, {"ttft_ms.p99": 0.03}))


@pytest.fixture
def single(build):
    """A gate of one job with one answer."""

    def make(line: LimitVerdict, **more) -> Gated:
        answer = {"green": "green", "red": "red"}.get(line.answer, "cannot tell")
        job = JobGate(replace(build.done_job(), gates=()), "judged", lines=(line,))
        record = build.campaign(build.done_job())
        return Gated(
            GateResult(answer, ("one number",), (job,)),
            side(record, "c2"),
            side(record, "c1"),
            RegressionLimits(),
            **more,
        )

    return make


def test_text_ends_with_the_answer(gated) -> None:
    lines = gate_text(gated, 110).split("\n")
    assert lines[0] == "not judged: batch=512 threads=2: the new result is not a measurement: its job is failed"
    assert lines[1] == "note: in the baseline and not in the new result: batch=32"
    assert lines[2] == f"note: batch=1 threads=1: {WARNING}"
    assert lines[3].split() == ["job", "metric", "baseline", "new", "change", "limit", "answer"]
    row = r"batch=1 threads=1 +latency_ms +6\.74 ±0\.18 +7\.41 ±0\.13 +\+9\.9 % \[\+7\.2, \+12\.4\] +5\.0 %  red: "
    assert re.match(row, lines[4])
    assert "ttft_ms.p99 " in lines[5]
    assert lines[6].endswith("green: better")
    assert lines[7].startswith("objective missed: batch=1 threads=1: latency_ms.p99: 13.9 ms")
    assert lines[8].startswith("baseline  c1 squeezenet on a CPU 2026-02-03")
    assert lines[-1] == (
        "gate      red: 1 of 3 numbers worse than the limit; 1 of 1 objective missed; 1 of 2 jobs not measured"
    )


def test_json_holds_what_a_program_decides_by(gated) -> None:
    document = json.loads(gate_json(gated))
    assert (document["schema"], document["answer"], document["exit_code"]) == ("assay.gate/1", "red", 1)
    assert document["limits"] == {"worse_than": 0.05, "of": {"ttft_ms.p99": 0.03}, "level": 0.95}
    assert document["baseline"] == ["c1", "c0"]
    first, second = document["jobs"]
    assert [one["answer"] for one in first["numbers"]] == ["red", "cannot tell", "green"]
    assert first["numbers"][0]["interval"]["low"] == 0.072
    assert (second["kind"], second["numbers"]) == ("not measured", [])


def test_markdown_is_short_and_the_same_every_time(gated) -> None:
    assert gate_markdown(gated) == (GOLDEN / "gate.md").read_text(encoding="utf-8")


def test_the_marker_is_stable_hidden_and_distinguished() -> None:
    assert marker("a b") == marker("a b")
    assert len({marker(name) for name in ("a b", "a-b", "模型", "图像", "", "-->")}) == 6
    for name in ("x --> <script>", "模型", "-" * 80, "a\nb"):
        assert re.fullmatch(r"<!-- assay-gate (?:[a-z0-9]+-)*[0-9a-f]{8} -->", marker(name))


def test_markdown_of_hostile_names_is_no_markup(build) -> None:
    record = build.hostile()
    found = gate(record, [record], RegressionLimits(), lambda job: tuple(job.metrics))
    text = gate_markdown(Gated(found, side(record, "<b>"), side(record, "c1|"), RegressionLimits()))
    assert "<script" not in text
    assert "<b>" not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1


def test_markdown_of_many_numbers_stays_short(single) -> None:
    one = single(RED)
    (job,) = one.gate.jobs
    many = replace(one, gate=replace(one.gate, jobs=(replace(job, lines=(RED,) * 300),)))
    text = gate_markdown(many)
    assert "and 280 more" in text
    assert len(text) < 6000


def test_what_is_not_known_is_a_dash(single) -> None:
    text = gate_text(single(ABSENT), 110)
    assert re.search(r"recall +- +- +- +5\.0 %  cannot tell: recall was not measured", text)


def test_objectives_alone_are_a_gate(build) -> None:
    job = replace(build.done_job(), gates=(Check("latency_ms.p99", True, "13.9 ms"),))
    record = build.campaign(job)
    found = Gated(gate(record, None, RegressionLimits(), lambda _: ()), side(record, "c2"), None, RegressionLimits())
    assert gate_text(found, 100).endswith("gate      green: 1 objective met")
    assert "by its objectives and its verdict" in gate_markdown(found)
    assert json.loads(gate_json(found))["baseline"] is None


def test_junit_is_the_same_every_time(gated) -> None:
    assert gate_junit(gated) == (GOLDEN / "gate.xml").read_text(encoding="utf-8")


def check_shape(text: str) -> ElementTree.Element:
    """The shape that build servers agree on: names, counts that add up, one outcome per case."""
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    (suite,) = root
    assert suite.tag == "testsuite"
    assert {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"} <= set(suite.attrib)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp"))
    order = [child.tag for child in suite]
    assert order == ["properties", *["testcase"] * suite.findall("testcase").__len__(), "system-out"]
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(kind)) == int(root.get(kind)) == len(suite.findall(f"testcase/{tag}"))
    assert int(suite.get("tests")) == len(suite.findall("testcase"))
    for case in suite.iter("testcase"):
        assert set(case.attrib) == {"classname", "name", "time"}
        assert float(case.get("time")) >= 0
        assert [child.tag for child in case] in ([], ["failure"], ["error"], ["skipped"])
        assert all(child.get("message") for child in case)
        assert all(child.get("type") for child in case if child.tag != "skipped")
    return suite


def outcomes(text: str) -> dict[str, str]:
    cases = check_shape(text).iter("testcase")
    return {case.get("name"): next((child.tag for child in case), "passed") for case in cases}


def test_junit_has_the_usual_shape(gated) -> None:
    suite = check_shape(gate_junit(gated))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "6",
        "2",
        "1",
        "1",
    )
    assert suite.find("testcase").get("classname") == "squeezenet on a CPU.batch=1 threads=1"


@pytest.mark.parametrize(
    ("line", "strict", "outcome"),
    [(RED, False, "failure"), (GREEN, False, "passed"), (UNTOLD, False, "skipped"), (UNTOLD, True, "error")],
)
def test_junit_has_a_third_answer(single, line, strict, outcome) -> None:
    assert outcomes(gate_junit(single(line, strict=strict))) == {"measured": "passed", line.name: outcome}


@pytest.mark.parametrize(
    ("kind", "allowed", "outcome"),
    [("invalid", False, "failure"), ("not comparable", False, "error"), ("not measured", False, "error"),
     ("no baseline", False, "error"), ("no baseline", True, "skipped")],
)  # fmt: skip
def test_junit_of_a_job_that_is_not_judged(single, kind, allowed, outcome) -> None:
    one = single(RED, allow_missing=allowed)
    job = replace(one.gate.jobs[0], kind=kind, because=("it is so",), lines=())
    answer = "red" if kind == "invalid" else "nothing"
    found = replace(one, gate=replace(one.gate, answer=answer, jobs=(job,)))
    assert outcomes(gate_junit(found)) == {"measured": outcome}
    assert found.exit_code == {"failure": 1, "error": 3, "skipped": 0}[outcome]


def test_junit_of_hostile_names_is_well_formed(build) -> None:
    record = build.hostile()
    record = replace(record, benchmark=f"{record.benchmark} \x00\ufffe\ud800")
    found = gate(record, [record], RegressionLimits(), lambda job: tuple(job.metrics))
    check_shape(gate_junit(Gated(found, side(record, "c2"), side(record, "c1"), RegressionLimits())).encode().decode())
