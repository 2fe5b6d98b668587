"""Reports of hardware in a real browser: quiet, inside their frames, readable on a phone and in the dark."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.report import watched
from tests.unit.report.test_html_live import CONTRAST, EMPTY_PICTURES, OUTSIDE, look  # noqa: F401  (a fixture)

from assay.report.html import render_html

pytestmark = pytest.mark.live


def watched_campaign():
    other = replace(watched.job(1), point={"workload.batch": 8})
    return watched.build.campaign(watched.job(), other, watched.unseen_job(index=3))


def device_campaign():
    return watched.build.campaign(
        watched.device_job(tests=("copy", "read", "to_device", "from_device_pinned", *watched.PEAKS))
    )


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (400, "light"), (1200, "light")])
@pytest.mark.parametrize("make", [watched_campaign, device_campaign])
def test_the_report_of_hardware_in_a_browser(look, make, scheme, width):  # noqa: F811
    page, heard, asked = look(render_html(make(), watched.build.samples, watched.files), scheme, width)
    assert (heard, asked) == ([], [])
    assert page.evaluate(EMPTY_PICTURES) == 0
    assert page.evaluate(OUTSIDE) == []
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    contrast, where = page.evaluate(CONTRAST)
    assert contrast >= 4.5, where
