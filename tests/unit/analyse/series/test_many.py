"""Of what many series show, little may be chance."""

import numpy as np
import pytest

from assay.analyse.series import Series, detect, discoveries


def reports(quiet: int, stepped: int, level: float = 0.05):
    rng = np.random.default_rng(8)
    values = 100 + 2 * rng.standard_normal((quiet + stepped, 60))
    values[quiet:, 40:] += 8
    return [detect(Series(row, "lower"), level) for row in values]


@pytest.mark.simulated
def test_findings_that_many_series_give_by_chance_are_doubted() -> None:
    found = reports(quiet=400, stepped=20)
    alarms = sum(bool(one.findings) for one in found[:400])
    assert alarms >= 5  # at this level chance finds some
    judged = discoveries(found)
    kept = {number for number, _ in judged.kept}
    assert set(range(400, 420)) <= kept
    assert len([number for number in kept if number < 400]) <= 3
    doubted = [f for number, one in enumerate(judged.reports) for f in one.findings if number not in kept]
    assert doubted
    assert all(one.answer == "cannot tell" and "420 series" in one.because[-1] for one in doubted)
    assert judged.tests >= 420


def test_one_series_alone_keeps_its_finding() -> None:
    found = reports(quiet=0, stepped=1, level=0.01)
    judged = discoveries(found)
    assert judged.kept == ((0, 0),)
    assert judged.reports[0].findings == found[0].findings


def test_nothing_to_keep() -> None:
    assert discoveries([]).kept == ()
    quiet = [one for one in reports(quiet=20, stepped=0) if not one.findings]
    judged = discoveries(quiet)
    assert (judged.kept, judged.limit) == ((), 0.0)
    assert list(judged.reports) == quiet
