"""Many comparisons side by side: luck among many is no answer, and what is clear stays."""

from dataclasses import replace

import numpy as np
import pytest

from assay.analyse.compare import compare_metric, judged_together, promise_of
from assay.analyse.compare.jobs import JobComparison, ResultPool


def job_of(lines):
    return JobComparison(ResultPool((), (), (), (), ()), tuple(lines))


def lines_of(stats, rng, changes, runs=5):
    """One line a metric, with that true change under noise of 2 %."""
    return [
        compare_metric(
            f"m{number}",
            stats(*10 * np.exp(rng.normal(0, 0.02, runs))),
            stats(*10 * np.exp(rng.normal(change, 0.02, runs))),
        )
        for number, change in enumerate(changes)
    ]


def test_the_chance_agrees_with_the_interval(stats):
    rng = np.random.default_rng(1)
    for line in lines_of(stats, rng, [0.0, 0.02, 0.05] * 20):
        outside = line.change.low > 0 or line.change.high < 0
        assert (line.chance <= 0.05) == outside == (line.answer != "cannot tell")


@pytest.mark.simulated
def test_fifty_equal_numbers_show_a_false_answer_at_most_once_in_twenty(stats):
    rng, tries = np.random.default_rng(11), 100
    alone, together = 0, 0
    for _ in range(tries):
        job = job_of(lines_of(stats, rng, [0.0] * 50))
        (judged,) = judged_together([job], [()])
        alone += any(line.answer != "cannot tell" for line in job.lines)
        together += any(line.answer != "cannot tell" for line in judged.lines)
    assert alone >= 80
    assert together <= 8


def test_what_is_clear_stays_and_luck_says_why_it_does_not(stats):
    rng = np.random.default_rng(3)
    lines = lines_of(stats, rng, [0.2, *[0.0] * 40])
    lucky = replace(lines[1], answer="worse", because=(), chance=0.03)
    (judged,) = judged_together([job_of([lines[0], lucky, *lines[2:]])], [()])
    assert judged.lines[0] == lines[0]
    assert judged.lines[0].answer == "worse"
    assert judged.lines[1].answer == "cannot tell"
    (why,) = judged.lines[1].because
    assert why.startswith(
        "alone it would be worse (luck shows as much in 3.0 % of cases), but 41 numbers were compared"
    )
    assert judged.lines[1].change == lucky.change


def test_headline_metrics_are_judged_among_themselves(stats):
    rng = np.random.default_rng(5)
    lines = lines_of(stats, rng, [0.0] * 40)
    headline = replace(lines[0], answer="better", because=(), chance=0.03)
    job = job_of([headline, *lines[1:]])
    assert judged_together([job], [("m0",)])[0].lines[0] == headline
    assert judged_together([job], [()])[0].lines[0].answer == "cannot tell"
    # Of two jobs the headline metrics are one family.
    other = job_of([replace(lines[0], answer="cannot tell", chance=0.5)])
    assert judged_together([job, other], [("m0",), ("m0",)])[0].lines[0].answer == "cannot tell"
    assert "40 numbers were compared (1 headline number first, 39 others on their own)" in promise_of([job], [("m0",)])


def test_a_single_number_keeps_its_power_and_needs_no_word(stats):
    line = compare_metric("m", stats(10.0, 10.1, 9.9), stats(11.0, 11.1, 10.9))
    assert judged_together([job_of([line])], [("m",)]) == (job_of([line]),)
    assert promise_of([job_of([line])], [("m",)]) == ""
    undirected = compare_metric("m", stats(10.0, 10.1, 9.9, better=None), stats(11.0, 11.1, 10.9, better=None))
    assert undirected.chance is None
    assert promise_of([job_of([line, undirected])], [("m",)]) == ""
