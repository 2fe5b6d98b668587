"""The answer in words, and as lines of a terminal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from assay.analyse.checks import CHECKS
from assay.analyse.records import Check
from assay.report.answer import answer_lines, answer_sheet, doubt_lines, failure_lines, title_of, write_answer
from assay.report.html import render_html
from assay.report.markdown import brief_markdown
from assay.report.reasons import reason_titles
from assay.report.sheet import wrap
from assay.report.wording import phase_words
from assay.run.records import PHASES, Failure


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


def searched(build, index, ef, latency_ms, recall, **scores):
    """A search of vectors whose answers are this good in each of five runs."""
    job = build.done_job(index, centre=latency_ms)
    quality = {"recall": [recall] * 5, **scores}
    metrics = {
        name: build.statistics(name, {run: np.array([value]) for run, value in enumerate(values)})
        for name, values in quality.items()
    }
    facts = {"scores": {name: {"metrics": [name]} for name in scores}}
    return replace(
        job,
        point={"target.options.ef": ef},
        gates=(),
        metrics={
            "latency_ms": job.metrics["latency_ms"],
            "throughput_per_s": job.metrics["throughput_per_s"],
            **metrics,
        },
        definition={"target": {"endpoint": "http://db:6333", "api": "qdrant"}, "load": {"concurrency": 1}},
        runs=tuple(replace(run, facts=facts) for run in job.runs),
    )


def test_the_fastest_point_is_named_with_its_quality_and_the_best_one(build):
    record = build.campaign(
        searched(build, 0, 10, 1.0, 0.62), searched(build, 1, 100, 2.0, 0.99), searched(build, 2, 200, 4.0, 0.99)
    )
    written = write_answer(record)
    sentence = written.sentences[0]
    assert sentence.startswith("Fastest: ef=10, latency_ms 1.0")
    assert ", at recall 0.6200; best recall: 0.9900 with ef=100, latency_ms 2.0" in sentence
    assert [column.metric for column in written.columns] == ["latency_ms", "throughput_per_s", "recall"]
    assert [line.cells[2].value for line in written.lines] == ["0.6200", "0.9900", "0.9900"]


def test_the_fastest_point_with_the_best_quality_is_said_to_have_it(build):
    fine = build.campaign(searched(build, 0, 10, 1.0, 0.99), searched(build, 1, 100, 2.0, 0.62))
    assert write_answer(fine).sentences[0].endswith(", at recall 0.9900, which none exceeds.")
    equal = build.campaign(searched(build, 0, 10, 1.0, 0.99), searched(build, 1, 100, 2.0, 0.99))
    assert write_answer(equal).sentences[0].endswith(", at recall 0.9900.")


def test_the_best_quality_is_named_where_no_point_is_fastest(build):
    record = build.campaign(searched(build, 0, 10, 1.0, 0.62), searched(build, 1, 100, 1.0, 0.99))
    sentence = write_answer(record).sentences[0]
    assert sentence.startswith("Cannot tell which is fastest: ")
    assert "; best recall: 0.9900 with ef=100, latency_ms 1.0" in sentence


def test_a_score_of_the_user_stands_in_every_table_with_its_interval(build):
    record = build.campaign(
        searched(build, 0, 10, 1.0, 0.62, helpful=[0.40, 0.42, 0.41, 0.43, 0.44]),
        searched(build, 1, 100, 2.0, 0.99, helpful=[0.70, 0.72, 0.71, 0.73, 0.74]),
    )
    written = write_answer(record)
    assert [column.metric for column in written.columns][2:] == ["recall", "helpful"]
    sheet = answer_sheet(written)
    assert sheet is not None
    place = sheet.head.index("helpful")
    assert sheet.rows[1][place].startswith("0.72")
    assert sheet.rows[0][place].startswith("0.42")
    for text in (brief_markdown(record), render_html(record, build.samples), "\n".join(answer_lines(written, 200))):
        assert "helpful" in text
        assert sheet.rows[0][place] in text


def test_a_narrow_terminal_keeps_the_quality_beside_the_throughput(build):
    record = build.campaign(searched(build, 0, 10, 1.0, 0.62), searched(build, 1, 100, 2.0, 0.99))
    head = next(line for line in answer_lines(write_answer(record), 64) if line.startswith("job"))
    assert "throughput_per_s" in head
    assert "recall" in head


def test_a_program_that_declares_a_share_has_it_in_the_sentence(build):
    def program(index, rate, accuracy):
        job = build.command_job(index)
        metrics = {
            "images_per_s": build.statistics("images_per_s", {run: np.array([rate + run]) for run in range(5)}),
            "accuracy": build.statistics("accuracy", {run: np.array([accuracy]) for run in range(5)}),
        }
        metrics = {name: replace(stats, better="higher") for name, stats in metrics.items()}
        target = {"command": "python t.py", "metrics": [{"name": "images_per_s"}, {"name": "accuracy"}]}
        return replace(job, point={"target.env.LR": index}, metrics=metrics, definition={"target": target})

    sentence = write_answer(build.campaign(program(0, 900.0, 0.95), program(1, 5000.0, 0.55))).sentences[0]
    assert sentence.startswith("Highest images_per_s: LR=1, images_per_s 5,002")
    assert ", at accuracy 0.55" in sentence
    assert "; best accuracy: 0.95" in sentence


def test_table_sentence_and_doubts_give_one_main_reason(build):
    busy, few, noisy = (Check(name, False, "x") for name in ("machine quiet", "enough samples", "enough runs"))
    missed = Check("latency_ms.p99", False, "30 ms")
    kinds = ((few, busy), (few, noisy), (noisy, busy), (few,))
    jobs = [
        replace(
            build.done_job(index), checks=checks, gates=(missed,), verdict="suspect", point={"workload.batch": index}
        )
        for index, checks in enumerate(kinds)
    ]
    written = write_answer(build.campaign(*jobs))
    assert {line.index: line.reason for line in written.lines} == {
        0: "machine busy", 1: "too few samples", 2: "machine busy", 3: "too few samples",
    }  # fmt: skip
    assert written.sentences[-1] == "All 4 results are suspect (main reason: too few samples, 3 jobs)."
    assert [doubt.title for doubt in written.doubts if doubt.severity == "suspect"] == [
        "too few samples", "machine busy", "too few runs",
    ]  # fmt: skip
    assert reason_titles(jobs[0]) == ("machine busy", "too few samples", "objective missed: latency_ms.p99")


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
    assert write_answer(failed).sentences == ("Nothing was measured: both jobs failed.",)
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
    assert text.startswith("2 jobs failed error[out-of-memory] while loading: the process was killed")
    assert text.endswith("→ a smaller workload.batch, or a machine with more memory")


def test_a_program_that_failed_shows_what_it_wrote_last(build):
    lines = tuple(f"line {number}" for number in range(9))
    error = Failure("command", "the command exited with code 3: make", "measure", log_tail=lines, try_="see assay logs")
    record = build.campaign(replace(build.failed_job(0), error=error))
    text = failure_lines(write_answer(record), 60)
    assert text == [
        "  1 job failed  error[command] while measuring: the command",
        "        exited with code 3: make",
        *(f"        | line {number}" for number in range(4, 9)),
        "        → see assay logs",
    ]
    assert "line 8" in render_html(record, build.samples)
    explains_itself = replace(error, code="model")
    assert "line 8" not in str(write_answer(build.campaign(replace(build.failed_job(0), error=explains_itself))))


@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_has_words_that_need_no_knowledge_of_it(phase):
    assert phase_words(phase).startswith((" while ", " in the first call"))


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
