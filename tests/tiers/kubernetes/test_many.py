"""Many jobs through a real Kubernetes: each is measured once, none is lost, and nothing is left."""

from __future__ import annotations

import pytest

JOBS = 200


@pytest.mark.timeout(3000)
def test_two_hundred_jobs(site):
    document = site.points(JOBS, command="echo x=$N", kubernetes={"cpus": 0.2, "limits": "none"})
    assert site.start(document, "--quiet").wait(2400) == 0, site.said()
    jobs = site.jobs(site.newest())
    assert [(job.state, job.metrics["x"].median, len(job.runs)) for job in jobs] == [
        ("done", number, 1) for number in range(JOBS)
    ]
    site.until_nothing_left()
