"""The HTML report in a real browser: quiet, self-contained, readable on a phone and in the dark."""

from __future__ import annotations

import pytest
from tests.report import loads

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
