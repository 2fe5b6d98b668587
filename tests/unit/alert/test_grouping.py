"""Many series moved by one cause are one alert, and two causes are two."""

from dataclasses import replace

import pytest
from tests.unit.alert.setups import DAY, T0, commit, failed, finding, limit, rule

from assay.alert.lifecycle import AGAIN_WITHIN_S, belongs, key_of, occurred
from assay.alert.records import Event
from assay.alert.wording import cause_in_words
from assay.analyse.series.causes import FactorDifference

WORSE = rule("* worse")


def key(event, by=WORSE):
    return key_of(event, by)


def test_what_the_same_commit_moved_belongs_together():
    one = finding("f1", **commit("b" * 12))
    other = finding("f2", benchmark="vector", metric="recall", campaign="c9", **commit("b" * 12, before="9" * 12))
    later = finding("f3", **commit("c" * 12))
    assert key(one) == key(other)
    assert key(one) == key(one, rule("* worse by 5%", name="another"))
    assert key(one) != key(later)


def test_the_difference_that_is_blamed_decides_and_not_what_else_differs():
    driver, commit_ = FactorDifference("driver", "550", "560"), FactorDifference("commit", "a", "b")
    by_driver = finding("f1", cause="environment", differs=(commit_, driver))
    alone = finding("f2", cause="environment", differs=(driver,))
    by_commit = finding("f3", cause="code", differs=(commit_, driver))
    assert key(by_driver) == key(alone) != key(by_commit)
    assert cause_in_words(by_driver.finding) == "environment: driver 550 → 560"


def test_where_nothing_differs_the_campaign_decides():
    assert key(finding("f1")) == key(finding("f2", metric="other"))
    assert key(finding("f1")) != key(finding("f2", campaign="c2"))
    imported = replace(finding("f1"), campaign="", job="")
    assert key(imported) == key(replace(imported, subject="f2"))
    assert key(imported) != key(replace(imported, series="another"))


def test_a_machine_without_a_difference_is_one_cause():
    assert key(finding("f1", cause="machine", machine="node7")) == key(
        finding("f2", cause="machine", machine="node7", campaign="c2", benchmark="vector")
    )
    assert key(finding("f1", cause="machine", machine="node7")) != key(finding("f1", cause="machine", machine="node8"))


def test_a_setting_of_one_benchmark_is_not_that_of_another():
    method = {"cause": "method", "differs": (FactorDifference("measure.runs", "3", "5"),)}
    assert key(finding("f1", **method)) == key(finding("f2", **method))
    assert key(finding("f1", **method)) != key(finding("f1", benchmark="vector", **method))


def test_limits_and_failures_belong_together_by_rule_and_benchmark_and_agents_all():
    one, other = rule("latency_ms > 5", name="one"), rule("latency_ms > 5", name="other")
    assert key(limit(9, point="a"), one) == key(limit(9, point="b"), one)
    assert key(limit(9), one) != key(limit(9), other)
    assert key(limit(9), one) != key(limit(9, benchmark="vector"), one)
    assert key(failed("a"), one) != key(limit(9), one)
    lost = [Event("agent-lost", T0, name, f"lost:{name}") for name in ("agent-1", "agent-2")]
    assert key(lost[0], one) == key(lost[1], other)


@pytest.mark.parametrize(
    ("later", "more", "same"),
    [
        (0, {}, True),
        (6 * DAY, {"cause": "environment", "differs": (FactorDifference("driver", "1", "2"),)}, True),
        (8 * DAY, {"cause": "environment", "differs": (FactorDifference("driver", "1", "2"),)}, False),
        (8 * DAY, commit("b"), True),
    ],
)
def test_a_driver_explains_what_moves_in_the_same_days_and_a_commit_for_ever(later, more, same):
    first = finding("f1", **more)
    alert, _ = occurred(None, first, [WORSE], key=key(first), now=T0)
    second = finding("f2", at=T0 + later, since=T0 + later, **more)
    assert belongs(second, alert, T0 + later) == same


@pytest.mark.parametrize(("later", "same"), [(AGAIN_WITHIN_S - 1, True), (AGAIN_WITHIN_S + 1, False)])
def test_what_comes_back_soon_is_the_same_alert(later, same):
    first = failed()
    alert, _ = occurred(None, first, [WORSE], key=key(first), now=T0)
    assert belongs(failed(at=T0 + later), replace(alert, state="resolved"), T0 + later) == same
    assert belongs(failed(at=T0 + later), alert, T0 + later), "while it stands, it grows"
