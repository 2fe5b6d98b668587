"""When nothing more is to be expected of a pod."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from assay.engines.kubernetes.observation import JobObservation, Observation, PodObservation
from assay.engines.kubernetes.observer import has_ended

ASKED = datetime(2026, 3, 1, 12, tzinfo=UTC)
OVER = ASKED + timedelta(seconds=30)


def of(pod: PodObservation) -> Observation:
    return Observation("assay-c1-0000-1", JobObservation("assay-c1-0000-1", active=1), (pod,))


@pytest.mark.parametrize(
    ("after_s", "lost", "ended"),
    [(10, False, False), (34, False, False), (36, False, True), (4, True, False), (6, True, True)],
    ids=["ending", "not late yet", "late", "lost just now", "lost"],
)
def test_a_pod_has_all_the_time_that_it_was_given_unless_its_node_is_lost(after_s, lost, ended):
    pod = PodObservation(
        "p", uid="u", phase="Running", node="n1", reason="NodeLost" if lost else "", deleted_at=ASKED, over_at=OVER
    )
    assert has_ended(of(pod), ASKED + timedelta(seconds=after_s), ()) is ended


def test_a_pod_that_is_gone_has_ended():
    pod = PodObservation("p", uid="u", phase="Running")
    assert not has_ended(of(pod), ASKED, ())
    assert has_ended(of(pod), ASKED, ("u",))
