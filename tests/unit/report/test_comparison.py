"""Comparisons as people and programs read them: what may not be compared stands first."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from assay.documents import to_json
from assay.errors import UsageError
from assay.report.comparison import (
    Reader,
    Side,
    compared,
    compared_csv,
    compared_json,
    compared_markdown,
    compared_text,
    read_document,
    sentences,
)
from assay.store.references import NoSuchResultError


def slowed(job, factor: float):
    stats = job.metrics["latency_ms"]
    runs = {run: value * factor for run, value in stats.run_values.items()}
    ends = replace(stats.interval, low=stats.interval.low * factor, high=stats.interval.high * factor)
    return replace(job, metrics={**job.metrics, "latency_ms": replace(stats, run_values=runs, interval=ends)})


def renamed(record, name: str, day: int = 3):
    jobs = tuple(replace(job, job=f"{name}-job-{job.index}", digest=f"{job.index}") for job in record.jobs)
    return replace(record, campaign=name, jobs=jobs, created_at=f"2026-02-{day:02}T10:00:00.000+00:00")


@pytest.fixture
def side(build):
    def make(name: str, *jobs, copies: int = 1) -> Side:
        records = tuple(renamed(build.campaign(*jobs), f"{name}{n}" if n else name, 9 - n) for n in range(copies))
        return Side((name,), records, tuple(record.campaign for record in records))

    return make


@pytest.fixture
def two(build, side):
    job = build.done_job
    a = side("old", job(0), job(1, batch=8, threads=2, centre=47.0), job(2, batch=2))
    odd = replace(job(1, batch=8, threads=2, centre=47.0), environment={"machine": {"cpu": "M4", "os": "Linux"}})
    b = side("new", slowed(job(0), 1.2), odd, job(3, batch=64))
    return compared(a, b)


def test_text_begins_with_the_answer_and_ends_with_each_doubt_once(two) -> None:
    answer, table, reasons, notes = (block.split("\n") for block in compared_text(two, 120).split("\n\n"))
    assert (
        answer[0]
        == "latency_ms: b is worse in 1 of 2 jobs by 20 % (+18.9 to +21.1 %), not like for like in 1 of 2 jobs."
    )
    assert table[0].split() == ["job", "metric", "a", "b", "change", "verdict"]
    assert re.match(r"batch=1 threads=1 +latency_ms .* \+20 % \[\+18\.\d, \+21\.\d\]  worse$", table[1])
    assert table[3].endswith("  not like for like")
    assert [line.partition("  ")[0] for line in reasons if not line.startswith(" ")] == [
        "not like for like",
        "cannot tell",
    ]
    assert reasons[0].startswith(
        "not like for like  2 rows  different machine: processor AMD EPYC 9454P 48-Core Processor"
    )
    assert "--anyway" in " ".join(reasons)
    assert notes[0:3] == [
        "only in a: batch=2 threads=1",
        "only in b: batch=64 threads=1",
        "a old squeezenet on a CPU 2026-02-09T10:00:00",
    ]
    assert notes[-1] == "change is b against a, from the spread between runs"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_breaks_between_words(two, width) -> None:
    lines = compared_text(two, width).split("\n")
    assert max(map(len, lines)) <= width


def test_what_is_true_of_all_jobs_is_said_once() -> None:
    told = [("one", ("same", "odd")), ("two", ("same",)), ("three", ("same", "odd"))]
    assert sentences(told) == ("same", "one, three: odd")


def test_json_holds_everything(two) -> None:
    document = json.loads(compared_json(two))
    assert (document["schema"], document["a"], document["b"]) == ("assay.comparison/1", "old", "new")
    assert document["results"] == {"a": ["old"], "b": ["new"]}
    assert document["unmatched"] == {"a": ["batch=2 threads=1"], "b": ["batch=64 threads=1"]}
    first, second = document["jobs"]
    assert document["answer"][0].startswith("latency_ms: b is worse in 1 of 2 jobs")
    assert (first["comparable"], second["comparable"]) == (True, False)
    assert second["not_comparable"][0].startswith("different machine")
    line = next(one for one in first["metrics"] if one["metric"] == "latency_ms")
    assert line["answer"] == "worse"
    assert {one["answer"] for one in second["metrics"]} == {"cannot tell"}
    assert all(one["because"] == second["not_comparable"] for one in second["metrics"])


def test_csv_has_one_row_per_number(two) -> None:
    rows = list(csv.DictReader(io.StringIO(compared_csv(two))))
    assert len(rows) == 4
    assert (rows[0]["job"], rows[0]["metric"], rows[0]["answer"]) == ("batch=1 threads=1", "latency_ms", "worse")
    low, change, high = (float(rows[0][name]) for name in ("change_low", "change", "change_high"))
    assert (change, low < change < high) == (pytest.approx(0.2), True)
    assert rows[2]["because"].startswith("different machine")


def test_markdown_keeps_its_columns_whatever_the_names_say(build, side) -> None:
    hostile = build.hostile().jobs[0]
    text = compared_markdown(compared(side("a|b", hostile), side("<i>", hostile), all_metrics=True))
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {6}
    assert "<script" not in text
    assert "<i>" not in text


def test_markdown_begins_with_the_answer(two) -> None:
    text = compared_markdown(two)
    assert text.startswith("- latency\\_ms: b is worse in 1 of 2 jobs by 20 %")
    assert "- **not like for like** (2 rows): different machine" in text
    assert "| batch=1 threads=1 | latency\\_ms |" in text


def test_cells_are_never_formulas(build, side) -> None:
    job = replace(build.done_job(), point={"x": "=cmd()"})
    other = replace(build.done_job(1, batch=2), point={"x": "@y"})
    rows = list(csv.DictReader(io.StringIO(compared_csv(compared(side("a", job, other), side("b", job, other))))))
    assert not any(value.startswith(("=", "@")) for row in rows for value in row.values())


def test_pools_say_so(build, side) -> None:
    found = compared(side("old", build.done_job(), copies=5), side("new", slowed(build.done_job(), 1.2)))
    assert compared_text(found, 120).endswith("change is b against a, from the spread between results")
    assert json.loads(compared_json(found))["results"]["a"] == ["old", "old1", "old2", "old3", "old4"]
    assert found.is_worse
    assert not found.is_refused


def test_many_numbers_come_with_how_far_they_may_be_trusted(build, side) -> None:
    found = compared(side("a", build.done_job()), side("b", slowed(build.done_job(), 1.2)), all_metrics=True)
    numbers = sum(line.chance is not None for line in found.jobs[0].result.lines)
    assert numbers > 2
    promise = f"{numbers} numbers were compared (2 headline numbers first, {numbers - 2} others on their own)"
    assert promise in compared_text(found, 400)
    assert promise in compared_markdown(found)
    document = json.loads(compared_json(found))
    assert document["promise"].startswith(promise)
    assert all("chance" in line for line in document["jobs"][0]["metrics"])


def test_all_metrics_are_compared_only_on_demand(build, side) -> None:
    a, b = side("a", build.done_job()), side("b", build.done_job())
    few, all_of_them = (compared(a, b, all_metrics=wanted).jobs[0].result.lines for wanted in (False, True))
    assert [line.metric for line in few] == ["latency_ms", "throughput_per_s"]
    assert {line.metric for line in all_of_them} == set(build.done_job().metrics)


def no_store():
    raise AssertionError("no store is needed")


def test_files_are_read_without_a_store_the_newest_first(build, tmp_path) -> None:
    for day in (1, 2):
        record = renamed(build.honest(), f"c{day}", day)
        (tmp_path / f"{9 - day}.json").write_text(to_json(record))
    (tmp_path / "job.json").write_text(to_json(build.done_job()))
    reader = Reader(no_store)
    found = reader.side([str(tmp_path / "7.json"), f"{tmp_path}/8.json/1"])
    assert [record.campaign for record in found.records] == ["c2", "c1"]
    assert [len(record.jobs) for record in found.records] == [4, 1]
    assert (found.whole, found.benchmark) == (False, "squeezenet on a CPU")
    assert reader.samples("any", 0) == ()
    assert read_document(tmp_path / "job.json").jobs[0].job == build.done_job().job
    everything = reader.side([f"{tmp_path}/"])
    assert len(everything.records) == 3


def test_what_is_wrong_with_a_file_is_reported(build, tmp_path) -> None:
    (tmp_path / "x.json").write_text(to_json(build.campaign(build.done_job())))
    (tmp_path / "y.json").write_text('{"schema": "assay.gate/1"}')
    reader = Reader(no_store)
    with pytest.raises(UsageError, match=r"has no job 4") as problem:
        reader.side([f"{tmp_path}/x.json/4"])
    assert problem.value.problem.try_ == "use 0 to 0"
    with pytest.raises(UsageError, match="not a CampaignRecord document"):
        reader.side([f"{tmp_path}/y.json"])
    with pytest.raises(NoSuchResultError, match="nothing but the result itself"):
        reader.side([f"{tmp_path}/x.json"], but={"campaign-1770112800"})
