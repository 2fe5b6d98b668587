"""The HTML report in a real browser: quiet, self-contained, readable on a phone and in the dark."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.report import loads

from assay.report.html import render_html

pytestmark = pytest.mark.live

# WCAG 2: relative luminance of the text against the first background below it that is not transparent.
CONTRAST = """
() => {
  const channels = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = node => {
    for (let at = node; at; at = at.parentElement) {
      const found = channels(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const ratio = node => {
    const style = getComputedStyle(node);
    const ink = node instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(channels(ink)), light(behind(node))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const told = 'body, h1, h2, h4, p, td a, td, th, li, dt, figcaption, summary, pre, .verdict, .mark, .absent, text';
  return [...document.querySelectorAll(told)]
    .map(node => [ratio(node), `${node.tagName} ${node.getAttribute('class')} ${node.textContent.slice(0, 30)}`])
    .sort((x, y) => x[0] - y[0])[0];
}
"""
EMPTY_PICTURES = """
() => [...document.querySelectorAll('svg.chart')].filter(svg => {
  const box = svg.getBoundingClientRect();
  return box.width < 100 || box.height < 20;
}).length
"""
OUTSIDE = """
() => [...document.querySelectorAll('figure')].filter(figure => {
  const frame = figure.closest('section').getBoundingClientRect();
  return [...figure.querySelectorAll('svg *')].some(part => {
    const box = part.getBoundingClientRect();
    return box.width && (box.right > frame.right + 1 || box.left < frame.left - 1);
  });
}).map(figure => figure.textContent.slice(0, 40))
"""

# Tables that are wider than the box that they scroll in: their last columns are not seen.
CUT_OFF = """
() => [...document.querySelectorAll('.scroll')].flatMap(box => {
  const beyond = box.querySelector('table').getBoundingClientRect().right
    - box.getBoundingClientRect().left - box.clientLeft - box.clientWidth;
  return beyond > 1 ? [`${box.getAttribute('aria-label')}: ${Math.round(beyond)} px`] : [];
})
"""
# What goes beyond the right edge of the page, or lies behind the edge of a box that cannot be scrolled on paper.
OFF_THE_PAPER = """
() => [...document.querySelectorAll('h1, h2, h3, p, li, dt, dd, th, td, pre, code, text, figcaption, summary')]
  .filter(node => node.checkVisibility()).flatMap(node => {
    const range = document.createRange();
    range.selectNodeContents(node);
    const right = Math.max(...[...range.getClientRects()].map(one => one.right));
    const boxes = [];
    for (let at = node; at && at !== document.body; at = at.parentElement)
      if (getComputedStyle(at).overflowX !== 'visible') boxes.push(at.getBoundingClientRect().right);
    const room = Math.min(window.innerWidth, ...boxes);
    return right > room + 1 ? [`${node.tagName} ${node.textContent.slice(0, 40)}`] : [];
  })
"""
# A4 at 96 dots an inch, within margins of 12 mm.
PAPER_PX = 703
OVERLAPS = """
() => [...document.querySelectorAll('#overview svg.chart a')].filter(row => {
  const [name, value] = ['.name', '.value'].map(one => row.querySelector(one).getBoundingClientRect());
  return name.right > value.left && name.bottom > value.top && value.bottom > name.top;
}).map(row => row.textContent)
"""
# Labels of a picture that touch each other or a mark.
COVERED = """
() => {
  const found = [];
  const shared = (a, b) => Math.min(
    Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
  const letters = box => ({left: box.left + 1, right: box.right - 1, top: box.top + 3, bottom: box.bottom - 3});
  for (const svg of document.querySelectorAll('svg.chart')) {
    const texts = [...svg.querySelectorAll('text')].filter(one => one.textContent.trim())
      .map(one => [one.textContent, letters(one.getBoundingClientRect())]);
    const marks = [...svg.querySelectorAll('circle.dot, line.whisker, path.cross, path.diamond')]
      .map(one => [one.getAttribute('class'), one.getBoundingClientRect()])
      .map(([name, {left, right, top, bottom}]) =>
        [name, {left: left - 0.5, right: right + 0.5, top: top - 0.5, bottom: bottom + 0.5}]);
    texts.forEach(([text, box], place) => {
      for (const [other, its] of [...texts.slice(place + 1), ...marks])
        if (shared(box, its) > 0.9) found.push(`${svg.querySelector('title').textContent}: ${text} / ${other}`);
    });
  }
  return found;
}
"""


@pytest.fixture
def look(chromium, tmp_path):
    """Open a page and give it back together with everything it complained about or asked for."""
    contexts = []

    def opened(html: str, scheme: str, width: int):
        file = tmp_path / "report.html"
        file.write_text(html, encoding="utf-8")
        context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        contexts.append(context)
        page, heard, asked = context.new_page(), [], []
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("dialog", lambda dialog: (heard.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri())
        return page, heard, [url for url in asked if url != file.as_uri()]

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["honest", "hostile"])
def test_the_report_in_a_browser(build, look, kind, scheme, width):
    page, heard, asked = look(render_html(getattr(build, kind)(), build.samples), scheme, width)
    assert heard == []
    assert asked == []
    assert page.evaluate(EMPTY_PICTURES) == 0
    assert page.evaluate(OUTSIDE) == []
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    contrast, where = page.evaluate(CONTRAST)
    assert contrast >= 4.5, where


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1200, "light")])
@pytest.mark.parametrize("kind", ["over_rates", "searched", "vectors"])
def test_the_report_of_a_load_in_a_browser(look, kind, scheme, width):
    page, heard, asked = look(render_html(*getattr(loads, kind)()), scheme, width)
    assert (heard, asked) == ([], [])
    assert page.evaluate(EMPTY_PICTURES) == 0
    assert page.evaluate(OUTSIDE) == []
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    contrast, where = page.evaluate(CONTRAST)
    assert contrast >= 4.5, where


def reports(build) -> dict[str, str]:
    found = {
        "honest": render_html(build.honest(), build.samples),
        "hostile": render_html(build.hostile(), build.samples),
    }
    return found | {kind: render_html(*getattr(loads, kind)()) for kind in ("over_rates", "searched", "vectors")}


@pytest.mark.parametrize("kind", ["honest", "over_rates", "searched", "vectors"])
def test_a_wide_screen_shows_every_column(build, look, kind):
    page, _, _ = look(reports(build)[kind], "light", 1400)
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate(CUT_OFF) == []


@pytest.mark.parametrize("kind", ["honest", "hostile", "over_rates", "searched", "vectors"])
def test_paper_shows_everything(build, look, kind):
    """Verdicts, reasons, all percentiles and pictures are within the width of a page."""
    page, _, _ = look(reports(build)[kind], "light", PAPER_PX)
    page.emulate_media(media="print")
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.locator("th", has_text="reasons to doubt").count() == 1
    assert page.evaluate(OFF_THE_PAPER) == []
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate(OUTSIDE) == []


def test_paper_is_light_whatever_the_screen_is(build, look):
    page, _, _ = look(reports(build)["honest"], "dark", PAPER_PX)
    page.emulate_media(media="print", color_scheme="dark")
    contrast, where = page.evaluate(CONTRAST)
    assert contrast >= 4.5, where
    assert page.evaluate("() => getComputedStyle(document.querySelector('section')).backgroundColor") in (
        "rgb(255, 255, 255)",
        "rgba(0, 0, 0, 0)",
    )


@pytest.mark.parametrize(("width", "media"), [(390, "screen"), (1300, "screen"), (PAPER_PX, "print")])
def test_labels_cover_neither_marks_nor_each_other(build, look, width, media):
    point = {"target.model": "mobilenet-v3-large", "target.threads": 16, "workload.batch": 128}
    long = [replace(job, point=point) for job in (build.done_job(), build.suspect_job())]
    pages = {**reports(build), "long": render_html(build.campaign(*long), build.samples)}
    for kind, html in pages.items():
        if kind == "hostile":  # its labels are longer than any page is wide
            continue
        page, _, _ = look(html, "light", width)
        page.emulate_media(media=media)
        page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate(COVERED) == [], kind


def test_paper_has_names_beside_their_marks(build, look):
    page, _, _ = look(reports(build)["honest"], "light", PAPER_PX)
    page.emulate_media(media="print")
    name, mark = (
        page.locator(f"#overview svg.chart a >> nth=0 >> {part}").bounding_box() for part in (".name", "circle")
    )
    assert name["x"] + name["width"] < mark["x"]
    assert name["y"] < mark["y"] + mark["height"] / 2 < name["y"] + name["height"]


def test_a_phone_keeps_names_and_numbers_apart(build, look):
    point = {"target.model": "mobilenet-v3-large", "target.threads": 16, "workload.batch": 128}
    jobs = [replace(job, point=point) for job in (build.done_job(), build.suspect_job())]
    page, _, _ = look(render_html(build.campaign(*jobs), build.samples), "light", 390)
    assert page.locator("#overview svg.chart a .value").count() > 1
    assert page.evaluate(OVERLAPS) == []


def test_a_table_that_scrolls_shows_it(build, look):
    page, _, _ = look(reports(build)["honest"], "light", 390)
    assert page.evaluate(CUT_OFF) != []
    assert "gradient" in page.evaluate("() => getComputedStyle(document.querySelector('.scroll')).backgroundImage")


def test_the_schemes_differ(build, look):
    html = render_html(build.campaign(build.done_job()), build.samples)
    colours = {
        scheme: look(html, scheme, 800)[0].evaluate("() => getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    }
    assert colours["light"] != colours["dark"]


def test_the_report_of_a_real_campaign(look, tmp_path, tiny_model):
    """Measured a moment ago by the tool itself: a model, a command with emit, and a job that could not run."""
    import sys

    import assay

    (tmp_path / "train.py").write_text("import assay\nfor i in range(20): assay.emit({'images_per_s': 100 + i % 5})\n")
    model = assay.run(
        {
            "benchmark": "a real model",
            "target": {"model": str(tiny_model)},
            "measure": {"runs": 3, "until": {"samples": 700}},
            "matrix": {"target.device": ["cpu", "GPU (ONNX)"]},
        }
    )
    program = assay.run(
        {
            "benchmark": "a real program",
            "target": {"command": [sys.executable, str(tmp_path / "train.py")], "metrics": [{"name": "images_per_s"}]},
            "measure": {"runs": 3},
        }
    )
    page, heard, asked = look(model.to_html(), "light", 1200)
    assert (heard, asked) == ([], [])
    text = page.inner_text("body")
    assert "a real model" in text
    assert "requested device used" in page.content()
    assert page.locator("svg.chart").count() >= 5
    assert page.evaluate(EMPTY_PICTURES) == 0
    if model.jobs[1].state == "failed":
        assert "onnxruntime-gpu" in text
    page, heard, asked = look(program.to_html(), "dark", 400)
    assert (heard, asked) == ([], [])
    assert "images_per_s" in page.inner_text("body")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
