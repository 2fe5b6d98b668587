"""A headless browser that watches what a page does: every error, every refused thing, every request to elsewhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[3]
# As the server itself: built elsewhere, or beside its code.
BUILT = Path(os.environ.get("ASSAY_DASHBOARD") or ROOT / "src/assay/serve/dashboard/built")
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
PATIENCE_MS = 120_000
Theme = Literal["light", "dark"]

_BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)  # fmt: skip
_ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
# The page gets an event for what the policy refused; the console logs it too, but not always in the same words.
_LISTEN = """
window.refused = []
document.addEventListener('securitypolicyviolation', (event) =>
  window.refused.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`))
"""
# A server that ends or a page that is left breaks off what was being loaded: no fault of the page.
_NO_FAULT = ("net::ERR_ABORTED",)


def browser_path() -> str | None:
    """Where a Chromium is; None where there is none."""
    return os.environ.get("ASSAY_CHROMIUM") or next(filter(None, map(shutil.which, _BROWSERS)), None)


@contextmanager
def started_browser(path: str) -> Iterator[Any]:
    """A headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, headless=True, args=_ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page, and what went wrong on it."""

    page: Any
    host: str
    """The one that may be asked, as `host:port`."""
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    """Parts of errors that a test brings about on purpose."""

    def __post_init__(self) -> None:
        self.page.add_init_script(_LISTEN)
        self.page.on("request", self._on_request)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda problem: self.wrong.append(f"error: {problem}"))

    def refused(self) -> list[str]:
        """What the policy of the page did not let happen."""
        return list(self.page.evaluate("window.refused ?? []"))

    def check(self) -> None:
        """Fail where anything went wrong."""
        wrong = [one for one in self.wrong if not any(part in one for part in self.expected)]
        assert not wrong, wrong
        assert not (refused := self.refused()), refused

    def _on_request(self, request: Any) -> None:
        self.asked.append(request.url)
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.netloc != self.host:
            self.wrong.append(f"asked {request.url}")

    def _on_console(self, message: Any) -> None:
        said = message.text
        if message.type in ("error", "warning") and not any(part in said for part in _NO_FAULT):
            self.wrong.append(f"{message.type}: {said} ({message.location.get('url', '')})")


@contextmanager
def watched_page(browser: Any, url: str, theme: Theme = "light", **context: Any) -> Iterator[Watched]:
    """A page of a new browser, for a server at an address; nothing may go wrong on it."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    size = {"width": 1400, "height": 900}
    made = browser.new_context(base_url=url, color_scheme=theme, viewport=size, **context)
    made.set_default_timeout(PATIENCE_MS)
    try:
        watched = Watched(made.new_page(), urlsplit(url).netloc)
        yield watched
        watched.check()
    finally:
        made.close()


def rest(page: Any) -> None:
    """Wait until a page has all that it asked for: nothing is loading, and charts are drawn."""
    from playwright.sync_api import expect

    page.wait_for_selector("main h1", state="attached")
    expect(page.locator(".loading")).to_have_count(0)
    expect(page.get_by_text("reading…", exact=True)).to_have_count(0)
    # Two frames: what came last is drawn.
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


# Words of letters that stand on more than one line, other than in code: a column is too narrow to be read.
_BROKEN_WORDS = """(longest) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = []
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement
    if (!parent.checkVisibility() || parent.closest('code, pre, .mono, .cm-editor, .unseen, svg, option')) continue
    for (const word of node.textContent.matchAll(/(?<![^\\s(])[A-Za-z]{2,}(?![^\\s.,:;)!?])/g)) {
      if (word[0].length > longest) continue
      const range = document.createRange()
      range.setStart(node, word.index)
      range.setEnd(node, word.index + word[0].length)
      const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top)))
      if (lines.size > 1) found.push(word[0])
    }
  }
  return found
}"""
LONGEST_WORD = 16


def broken_words(page: Any) -> list[str]:
    """Words of a page that are broken over several lines although a phone has room for them."""
    return list(page.evaluate(_BROKEN_WORDS, LONGEST_WORD))


# Cells whose content goes beyond them, and tables that are wider than the box they are in.
_CUT_OFF = """() => [...document.querySelectorAll('main table')].flatMap((table) => {
  const box = table.closest('.scroll, .grid-scroll, .change-table') ?? table.parentElement
  const beyond = table.getBoundingClientRect().right - box.getBoundingClientRect().left - box.clientWidth
  return beyond > 1 ? [`${box.getAttribute('aria-label')}: ${Math.round(beyond)} px`] : []
})"""


def cut_off(page: Any) -> list[str]:
    """Tables of a page whose last columns cannot be seen without scrolling."""
    return list(page.evaluate(_CUT_OFF))


def findings_of(page: Any) -> list[dict[str, Any]]:
    """What axe finds on a page: rule, impact, and where."""
    page.evaluate(f"{AXE.read_text(encoding='utf-8')};0")  # evaluated by the debugger: the page's policy stays as it is
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        {
            "rule": one["id"],
            "impact": one["impact"],
            "help": one["help"],
            "where": [" ".join(map(str, node["target"])) for node in one["nodes"]][:5],
        }
        for one in found["violations"]
    ]
