"""The answer in words, and as lines of a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from assay.analyse.checks import CHECKS
from assay.analyse.records import Check
from assay.report.answer import answer_lines, doubt_lines, failure_lines, title_of, write_answer
from assay.report.sheet import wrap


def matrix(build, **changes):
    """Two threads twice as fast as one, everything valid."""
    jobs = [build.done_job(0, threads=1, centre=12.0), build.done_job(1, threads=2, centre=6.0)]
    return build.campaign(*(replace(job, gates=(), **changes) for job in jobs))


def test_the_answer_names_the_best_and_the_effect_of_the_axis(build):
    first, second, third = write_answer(matrix(build)).sentences
    assert first.startswith("Fastest: batch=1 threads=2, latency_ms 6.0")
    assert second.startswith("threads=2 is 2.0")
    assert "× as fast as threads=1 (1.9" in second
    assert third == "Both results are valid."


def test_rows_are_sorted_by_the_headline_with_throughput_beside_it(build):
    written = write_answer(matrix(build))
    assert [column.metric for column in written.columns] == ["latency_ms", "throughput_per_s"]
    assert [line.label for line in written.lines] == ["batch=1 threads=2", "batch=1 threads=1"]
    assert float(written.lines[0].cells[1].value) > 100


def test_suspect_results_are_called_so(build):
    record = matrix(build, verdict="suspect", checks=(Check("machine quiet", False, "others took 66 %"),))
    assert write_answer(record).sentences[-1] == "Both results are suspect (main reason: machine busy, 2 jobs)."
    one = build.campaign(record.jobs[1], replace(record.jobs[0], verdict="valid", checks=()))
    assert write_answer(one).sentences[0].endswith(", which is suspect.")


def test_the_title_says_what_where_how_many_and_how_long(build):
    title = title_of(build.honest())
    assert title.startswith(f"{build.honest().benchmark} · AMD EPYC 9454P 48-Core Processor, 48 cores · 4 jobs in ")


def test_what_was_not_measured_is_said(build):
    failed = build.campaign(build.failed_job(0), build.failed_job(1))
    assert write_answer(failed).sentences == ("Nothing was measured: all 2 jobs failed.",)
    mixed = write_answer(build.honest())
    assert mixed.sentences[-1].endswith("; 1 job failed.")
    assert write_answer(build.campaign()).sentences == ("There are no jobs.",)


def test_every_check_has_a_title_and_a_remedy(build):
    for name in CHECKS:
        job = replace(build.done_job(0), gates=(), checks=(Check(name, False, "it was so"),))
        (doubt,) = write_answer(build.campaign(job)).doubts
        assert not doubt.title.startswith("objective")
        assert doubt.remedy


def test_a_missed_objective_is_named(build):
    job = replace(build.done_job(0), gates=(Check("ttft_ms.p99", False, "30 ms"),))
    written = write_answer(build.campaign(job))
    assert written.doubts[0].title == "objective missed: ttft_ms.p99"
    assert written.lines[0].reason == "objective missed: ttft_ms.p99"


def test_failures_stand_once_for_each_reason(build):
    record = build.campaign(build.failed_job(0), build.failed_job(1))
    written = write_answer(record)
    text = " ".join(" ".join(failure_lines(written, 80)).split())
    assert text.startswith("2 jobs failed error[out-of-memory] in load: the process was killed")
    assert text.endswith("→ a smaller workload.batch, or a machine with more memory")


def test_doubts_end_with_the_command_that_shows_all(build):
    record = build.honest()
    lines = doubt_lines(write_answer(record), 80, record.campaign)
    assert lines[-1].strip() == f"every reason of every job: assay results show {record.campaign} --why"


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
@pytest.mark.parametrize("kind", ["honest", "hostile"])
def test_lines_keep_to_the_width_and_break_between_words(build, width, kind):
    record = getattr(build, kind)()
    written = write_answer(record)
    lines = answer_lines(written, width)
    longest = max(cell_len(word) for line in lines for word in line.split())
    assert max(map(cell_len, lines)) <= max(width, longest + 2)


def test_wrapping_hangs_and_cuts_no_word():
    lines = wrap("other programs used 66 % of the machine", 24, "      ", "busy  ")
    assert lines == ["busy  other programs", "      used 66 % of the", "      machine"]
    assert wrap("/a/very/long/path/that/fits/nowhere end", 10, "  ") == ["/a/very/long/path/that/fits/nowhere", "  end"]


def test_titles_of_unknown_checks_are_their_names(build):
    job = replace(build.done_job(0), gates=(), checks=(Check("something new", False, "no"),))
    (doubt,) = write_answer(build.campaign(job)).doubts
    assert doubt.title == "something new"


def test_a_doubt_is_brief_and_leaves_the_advice_to_the_remedy(build):
    found = "known only to ±9 % (asked for: ±5.0 %), so measure longer; and something else"
    job = replace(build.done_job(0), gates=(), checks=(Check("enough samples", False, found),))
    (doubt,) = write_answer(build.campaign(job)).doubts
    assert doubt.worst == "known only to ±9 % (asked for: ±5.0 %)"


def test_of_two_reasons_for_as_many_jobs_the_machine_comes_first(build):
    checks = (Check("enough samples", False, "few"), Check("machine quiet", False, "66 %"))
    written = write_answer(build.campaign(replace(build.done_job(0), gates=(), verdict="suspect", checks=checks)))
    assert [doubt.title for doubt in written.doubts] == ["machine busy", "too few samples"]
    assert written.lines[0].reason == "machine busy"


def test_a_number_and_its_sign_of_percent_stay_on_one_line():
    assert wrap("a limit of 10 % is fine", 13, "") == ["a limit of", "10 % is fine"]
