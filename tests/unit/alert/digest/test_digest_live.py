"""The digest in a real browser: quiet, self-contained, readable on a phone and in the dark."""

from __future__ import annotations

import pytest
from tests.unit.alert.digest.material import SINCE, UNTIL, hostile, spots, week
from tests.unit.report.conftest import chromium
from tests.unit.report.test_html_live import CONTRAST, CUT_OFF, EMPTY_PICTURES, OFF_THE_PAPER, OUTSIDE, PAPER_PX, look
from tests.unit.report.test_series_picture import DRIFT, STEP, picture

from assay.alert.digest import build
from assay.alert.digest.html import digest_html
from assay.alert.digest.records import DigestMaterial
from assay.report.html.series import series_svg

__all__ = ["chromium", "look"]  # fixtures of the report

pytestmark = pytest.mark.live
KINDS = {"week": week, "hostile": hostile, "empty": lambda: DigestMaterial("here")}


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_the_digest_in_a_browser(look, kind, scheme, width):
    made = build(KINDS[kind](), SINCE, UNTIL, "1.0")
    html = digest_html(made, {one.series.id: spots(one.before) for one in made.movements})
    page, heard, asked = look(html, scheme, width)
    assert (heard, asked) == ([], [])
    assert page.evaluate(EMPTY_PICTURES) == 0
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    contrast, where = page.evaluate(CONTRAST)
    assert contrast >= 4.5, where


@pytest.mark.parametrize("media", ["screen", "print"])
def test_the_digest_shows_every_column(look, media):
    made = build(week(), SINCE, UNTIL, "1.0")
    page, _, _ = look(digest_html(made, {}), "light", PAPER_PX if media == "print" else 1400)
    page.emulate_media(media=media)
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate(CUT_OFF) == []
    assert media == "screen" or page.evaluate(OFF_THE_PAPER) == []


def test_dots_are_round_however_wide_the_picture_is(look):
    """They are strokes without length; a browser that drops those would show an empty picture."""
    made = build(week(), SINCE, UNTIL, "1.0")
    page, _, _ = look(digest_html(made, {one.series.id: spots(one.before) for one in made.movements}), "light", 1200)
    box = page.locator("svg.chart").first
    shot = box.screenshot()
    page.evaluate("() => document.querySelectorAll('.spot, .spot-error').forEach(one => one.remove())")
    assert box.screenshot() != shot


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_picture_as_a_file_of_its_own(chromium, tmp_path, scheme):
    file = tmp_path / "one.svg"
    file.write_text(series_svg(picture(DRIFT, STEP, since=SINCE, until=UNTIL)), encoding="utf-8")
    context = chromium.new_context(color_scheme=scheme, viewport={"width": 1000, "height": 500})
    page = context.new_page()
    heard = []
    page.on("console", lambda message: heard.append(message.text))
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.tagName") == "svg"
    assert page.evaluate("getComputedStyle(document.querySelector('.spot')).strokeLinecap") == "round"
    assert heard == []
    context.close()
