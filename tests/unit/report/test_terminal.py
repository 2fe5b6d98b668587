from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from assay.analyse.records import Check, Comparison, Interval
from assay.report.comparison import answers_table, comparison_cells
from assay.report.html import fragment_html, render_html
from assay.report.live import LiveView, PlainView, SilentView, TimeLeft, view_for
from assay.report.markdown import render_markdown
from assay.report.terminal import render_answer, render_job, render_table


def table_of(text: str) -> list[str]:
    return text.split("\n\n")[0].split("\n")


def test_one_line_per_job_with_its_doubt(build):
    lines = table_of(render_table(build.honest()))
    assert lines[0].split() == ["job", "metric", "median", "95", "%", "interval", "±", "p99", "runs×samples", "verdict"]
    assert re.fullmatch(
        r"batch=1 threads=1 +latency_ms +12\.09 +\[11\.99, 12\.18\] +±0\.8 % +13\.26 +5×906  valid", lines[1]
    )
    assert re.fullmatch(r"batch=512 threads=2( +-){6}  failed", lines[3])
    assert re.fullmatch(r"batch=2 threads=2 +latency_ms +17\.28 +\(one run\) +±\? +- +1×200  suspect", lines[4])


def test_doubts_are_reported_in_sentences(build):
    text = render_table(build.honest())
    assert "suspect  batch=8 threads=2: machine quiet: other programs took 14 %" in text
    assert "gate     batch=8 threads=2: cannot tell: latency_ms.p99: not backed" in text
    assert "failed   batch=512 threads=2: error[out-of-memory] while loading: the process was killed" in text
    assert "failed   batch=512 threads=2: try: a smaller workload.batch" in text
    assert "p99 is - where there are too few samples: p99 needs 662 samples" in text
    assert text.endswith("4 jobs: 1 valid, 2 suspect, 1 failed")


@pytest.mark.parametrize("width", [30, 50, 60, 72, 80, 100, 140])
@pytest.mark.parametrize("kind", ["honest", "hostile"])
def test_the_table_never_exceeds_its_width(build, width, kind):
    assert max(map(cell_len, table_of(render_table(getattr(build, kind)(), width=width)))) <= width


def test_a_narrow_table_keeps_the_verdict(build):
    assert table_of(render_table(build.honest(), width=60))[1].endswith("valid")


def test_rows_are_aligned_with_wide_letters(build):
    wide = replace(build.done_job(0), point={"target.model": "模型.onnx"})
    lines = table_of(render_table(build.campaign(wide, build.suspect_job(1))))
    assert len({cell_len(line[: line.rindex("  ")]) for line in lines}) == 1


def test_hostile_names_cannot_steer_the_terminal(build):
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", render_table(build.hostile()))


def test_colour_only_repeats_words(build):
    painted = render_table(build.honest(), colour=True)
    assert "\x1b[33msuspect\x1b[0m" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == render_table(build.honest())


def test_a_job_in_full(build):
    text = render_job(build.suspect_job())
    for part in (
        "FAILED    machine quiet",
        "passed    enough samples",
        "unknown   clocks not throttled",
        "not measured",
        "cold start",
        "machine.cpu",
        "onnxruntime",
        "workload.batch",
    ):
        assert part in text
    assert text.index("FAILED") < text.index("unknown") < text.index("passed    ")


def test_a_failed_job_in_full_has_reasons_and_no_numbers(build):
    text = render_job(build.failed_job())
    assert "why      error[out-of-memory]" in text
    assert "try      a smaller" in text
    assert "log      killed" in text
    assert "\nmetrics" not in text


def comparison(**changes) -> Comparison:
    ends = Interval(209, 215, 0.95, ""), Interval(217, 225, 0.95, ""), Interval(0.021, 0.064, 0.95, "")
    return replace(Comparison("ttft_ms", "ms", "lower", 212, 221, *ends, "worse"), **changes)


def test_comparison_says_change_with_interval_and_reason():
    unsure = comparison(answer="cannot tell", because=("5 more pairs needed",))
    head = ("job", "metric", "main", "branch", "change", "verdict")
    lines = answers_table(head, [comparison_cells("", line) for line in (comparison(), unsure)], 100)
    assert lines[0].split() == ["metric", "main", "branch", "change", "verdict"]
    assert re.fullmatch(r"ttft_ms +212\.0 ±3\.0 +221\.0 ±4\.0 +\+4\.2 % \[\+2\.1, \+6\.4\]  worse", lines[1])
    assert lines[2].endswith("cannot tell: 5 more pairs needed")


def test_comparison_without_intervals_says_so():
    bare = comparison(a_interval=None, b_interval=None, change=None, answer="cannot tell", because=())
    line = answers_table(("job", "metric", "a", "b", "change", "verdict"), [comparison_cells("batch=1", bare)], 100)[1]
    assert re.fullmatch(
        r"batch=1 +ttft_ms +212\.0 ±\? +221\.0 ±\? +\+4\.2 % \[unknown\]  cannot tell: no reason was recorded", line
    )


KILLED = (
    "error[out-of-memory] while loading: the process was killed while it loaded the model "
    "(signal SIGKILL, memory 15,211 MB)"
)


def play(view, build) -> None:
    """A job is announced, and two other ones end meanwhile: each line names the job that it speaks of."""
    view.campaign("c-1", 2, 10, "on bench-03")
    view.job("c-1-job-0", "batch=1 [red]x", 0, 2)
    view.run(0, 5)
    view.phase("measure")
    view.progress(0.5, "latency 12 ms")
    view.log(["a line of the run"])
    view.run_done(build.done_job().runs[0])
    view.job_done(replace(build.suspect_job(), point={"workload.batch": "[b]8"}))
    view.run_done(build.failed_job().runs[0])
    view.job_done(build.failed_job())
    view.note("one\nnote")
    view.close()


def test_the_plain_view_writes_one_line_per_event(build):
    out = io.StringIO()
    play(PlainView(out), build)
    assert out.getvalue().splitlines() == [
        "campaign  c-1: 2 jobs, 10 runs · on bench-03",
        "job       1/2 batch=1 [red]x (c-1-job-0)",
        "run       1/5 batch=1 [red]x: ok in 4.5 s, 900 samples",
        "done      batch=[b]8: suspect: latency_ms 47.39 ±0.6 % (machine busy, objective not decided: latency_ms.p99)",
        f"run       1/5 batch=1 [red]x: {KILLED}",
        "done      batch=512 threads=2: failed",  # its run has just said why
        "note      one note",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_live_view_leaves_the_finished_jobs_as_lines(build):
    out = Terminal()
    play(LiveView(out), build)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert "done      batch=[b]8: suspect: latency_ms 47.39 ±0.6 %" in plain
    assert "note      one note" in plain


def test_the_live_view_shows_the_time_the_value_and_only_what_still_holds(build):
    out = Terminal()
    clock = {"s": 0.0}
    view = LiveView(out, now=lambda: clock["s"])
    view._console.width = 80
    view.campaign("c-1", 2, 10, "")
    view.job("c-1-job-0", "batch=1", 0, 2)
    view.run(0, 5)
    view.waiting("waiting for cpu: held by another benchmark")
    assert "waiting for cpu: held by another benchmark" in picture(view)
    view.phase("measure")
    clock["s"] = 5.0
    view.progress(0.05, "latency 12 ms")
    assert "left" not in picture(view)
    clock["s"] = 15.0
    view.progress(0.5, "812 requests, 9.8/s, ttft 12 ms, 3 errors, 12 in flight, and what else there is")
    jobs, runs, detail = picture(view).splitlines()
    assert jobs.rstrip().endswith("about 4 min 45 s left · batch=1")  # half of a run of 30 s, and nine more
    assert runs.rstrip().endswith("measure 50%")
    assert detail.strip() == "812 requests, 9.8/s, ttft 12 ms, 3 errors, 12 in flight, and what else the…"
    clock["s"] = 30.0
    view.run_done(build.done_job().runs[0])
    shown = picture(view)
    assert "about 4 min 30 s left · batch=1" in shown  # nine runs of 30 s
    assert "812 requests" not in shown
    assert re.search(r"jobs .* 0/2 +0:00:0\d", shown)
    view.run(1, 5)
    clock["s"] = 50.0
    view.phase("measure")
    view.progress(0.2, "waiting at most 2 min for the first answer of a server with a long name.example.com")
    jobs, runs, _ = picture(view).splitlines()
    assert "about 4 min 10 s left" in jobs
    assert re.match(r"runs .{12} 1/5 0:00:0\d measure 20%", runs)  # a long note takes room from nothing
    view.close()
    assert "note      waiting" not in out.getvalue()


def picture(view: LiveView) -> str:
    """What a person sees now."""
    out = io.StringIO()
    Console(file=out, width=view._console.width, soft_wrap=True).print(view.picture())
    return out.getvalue()


def test_lines_of_the_live_view_break_between_words(build):
    out = Terminal()
    view = LiveView(out)
    view._console.width = 60
    view.note("the server at http://127.0.0.1:8000/v1 speaks openai-chat and counts tokens; model sim")
    assert re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).splitlines() == [
        "note      the server at http://127.0.0.1:8000/v1 speaks",
        "          openai-chat and counts tokens; model sim",
    ]


def test_runs_that_were_measured_earlier_take_no_time_now():
    clock = iter((0.0, 10.0))
    left = TimeLeft(10, now=lambda: next(clock))
    left.skip(5)
    assert left.sentence() == ""
    left.begin()
    left.end()
    assert left.sentence() == "about 40 s left"
    left.skip(5)
    assert left.sentence() == ""


def test_a_long_run_says_in_a_log_how_far_it_is(monkeypatch):
    out = io.StringIO()
    view = PlainView(out)
    view.job("c-1-job-0", "batch=1", 0, 2)
    view.run(1, 5)
    view.phase("measure")
    view.progress(0.25, "800 requests, 98/s, ttft 12 ms")
    view.heartbeat()
    assert len(out.getvalue().splitlines()) == 1  # something was said a moment ago
    monkeypatch.setattr("assay.report.live.HEARTBEAT_S", 0.0)
    view.heartbeat()
    last = out.getvalue().splitlines()[-1]
    assert last.startswith("...       run 2/5 measure 25% · 800 requests, 98/s, ttft 12 ms · ")
    assert last.endswith(" so far")


def test_a_wait_is_reported_soon_and_once():
    out = io.StringIO()
    clock = {"s": 0.0}
    view = PlainView(out, now=lambda: clock["s"])
    view.job("c-1-job-0", "chat", 0, 1)
    view.run(0, 1)
    view.phase("first")
    view.progress(0.0, "waiting at most 2 min for the first answer of 127.0.0.1:8000")
    clock["s"] = 4.0
    view.heartbeat()
    assert len(out.getvalue().splitlines()) == 1
    for clock["s"] in (6.0, 8.0, 30.0):
        view.heartbeat()
    first = "...       run 1/1 first · waiting at most 2 min for the first answer of 127.0.0.1:8000 · 6.0 s so far"
    assert out.getvalue().splitlines()[1:] == [first]
    clock["s"] = 67.0
    view.heartbeat()
    assert len(out.getvalue().splitlines()) == 3


def test_what_makes_progress_does_not_wait():
    out = io.StringIO()
    clock = {"s": 0.0}
    view = PlainView(out, now=lambda: clock["s"])
    view.phase("first")
    view.progress(0.0, "waiting for the first answer")
    clock["s"] = 3.0
    view.phase("measure")
    clock["s"] = 20.0
    view.heartbeat()
    view.progress(0.0, "probe 1 at 2/s")
    view.progress(0.1, "probe 1 at 2/s")
    clock["s"] = 40.0
    view.heartbeat()
    assert out.getvalue() == ""


def test_the_view_fits_its_stream():
    assert isinstance(view_for(text=True, stream=Terminal()), LiveView)
    assert isinstance(view_for(text=False, stream=Terminal()), PlainView)
    assert isinstance(view_for(text=True, stream=io.StringIO()), PlainView)
    assert isinstance(view_for(text=True, quiet=True, stream=Terminal()), SilentView)


def test_the_silent_view_is_silent(build, capsys):
    play(SilentView(), build)
    assert capsys.readouterr() == ("", "")


def invalid_job(build):
    """A result that one check makes invalid, another suspect, and a third only gives advice."""
    checks = (
        Check("errors below the limit", False, "1 of 3 runs failed"),
        Check("enough runs", False, "2 runs gave numbers"),
        Check("governor set for speed", False, "the governor is powersave"),
    )
    return replace(build.done_job(0), verdict="invalid", checks=checks)


def test_each_doubt_begins_with_what_its_own_check_leads_to(build):
    text = render_table(build.campaign(invalid_job(build)))
    label = "batch=1 threads=1"
    assert f"invalid  {label}: errors below the limit: 1 of 3 runs failed" in text
    assert f"suspect  {label}: enough runs: 2 runs gave numbers" in text
    assert f"advice   {label}: governor set for speed" in text


def test_documents_head_each_doubt_with_what_its_check_leads_to(build):
    record = build.campaign(invalid_job(build))
    text, page = render_markdown(record), render_html(record, build.samples)
    for word, name in (("invalid", "errors below the limit"), ("suspect", "enough runs"), ("advice", "governor set")):
        assert f"({word}): {name}" in text
        assert re.search(rf">{word}</span><span><strong>{name}", page)
    assert "suspect – batch=1 threads=1: enough runs" in fragment_html(record)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_end_of_a_campaign_begins_with_the_answer_and_breaks_between_words(build, width):
    text = render_answer(build.honest(), width=width)
    lines = text.splitlines()
    assert lines[0].startswith(build.honest().benchmark)
    assert text.split("\n\n")[1].startswith(("Fastest", "Cannot tell"))
    assert max(map(cell_len, lines)) <= width
    table, doubts = text.index("\njob "), text.index("\nreasons for doubt\n")
    assert table < doubts
    assert "results show" in text[doubts:]
    assert "--why" in text[doubts:]


def test_a_verdict_with_a_reason_behind_it_is_coloured(build):
    text = render_answer(build.honest(), width=160, colour=True)
    assert re.search(r"\x1b\[33msuspect\x1b\[0m  \w", text)
    assert re.sub(r"\x1b\[[0-9;]*m", "", text) == render_answer(build.honest(), width=160)
