"""Makes docs/screenshots and docs/reference/dashboard.md anew: `python -m scripts.screenshots [STORE]`.

Every page of the built dashboard (`make web`) is opened in a headless Chromium with demo data, in light and in dark.
Its picture is kept, and what axe says about its accessibility; the sizes of the built files come with it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.live.browser.browsing import BUILT, Theme, browser_path, findings_of, rest, started_browser, watched_page
from tests.live.browser.demo import api_of, demo_server, fill
from tests.live.browser.pages import PAGES, Shown, names_in
from tests.live.browser.sizes import LIMIT_KB, first_load, sizes_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/screenshots"
PAGE = ROOT / "docs/reference/dashboard.md"
THEMES: tuple[Theme, ...] = ("light", "dark")
SIZE = {"width": 1280, "height": 800}
# Pictures in a repository stay for ever: three quarters of the size are a third of the bytes less.
SCALE = 0.75
IMPACTS = ("critical", "serious", "moderate", "minor")

_HEAD = """# The dashboard, page by page

`assay serve` shows these pages at its own address. The pictures are made by `scripts/screenshots.py` with
[demo data](../how-to/use-the-dashboard.md#look-around-in-a-simulated-year): **simulated, never measured**. Every
view is an address with its choices in it; what is drawn can be taken away as PNG, SVG or CSV.

"""


@dataclass(frozen=True)
class Looked:
    """What axe said of a page in both themes: impact → how many places."""

    shown: Shown
    found: dict[str, int]


def main(store: str | None) -> int:
    """Take every picture and write the page; 1 where axe found something serious."""
    path = browser_path()
    if path is None or not (BUILT / "index.html").is_file():
        sys.stderr.write("a Chromium and the built dashboard are needed: scripts/browser.sh, make web\n")
        return 2
    PICTURES.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as temporary:
        folder = Path(store or temporary)
        fill(folder, campaigns=200)
        with demo_server(folder) as server, started_browser(path) as browser:
            looked = list(_look(browser, server.url))
    PAGE.write_text(_text(looked), encoding="utf-8")
    return int(any(one.found.get("serious") or one.found.get("critical") for one in looked))


def _look(browser: Browser, url: str) -> Iterator[Looked]:
    with api_of(url) as api:
        names = names_in(api)
    for shown in PAGES:
        found: dict[str, int] = {}
        for theme in THEMES:
            with watched_page(browser, url, theme, device_scale_factor=SCALE) as watched:
                watched.page.set_viewport_size(SIZE)
                watched.page.goto(shown.address.format(**names))
                rest(watched.page)
                watched.page.screenshot(path=PICTURES / f"{shown.name}-{theme}.png", animations="disabled")
                for one in findings_of(watched.page):
                    found[one["impact"]] = found.get(one["impact"], 0) + len(one["where"])
        sys.stdout.write(f"{shown.name}: {found or 'nothing found'}\n")
        yield Looked(shown, found)


def _text(looked: list[Looked]) -> str:
    parts = [_HEAD]
    parts += [_section(one.shown) for one in looked]
    return "".join([*parts, _accessibility(looked), _sizes()])


def _section(shown: Shown) -> str:
    pictures = " ".join(f"![{shown.title}, {theme}](../screenshots/{shown.name}-{theme}.png)" for theme in THEMES)
    return f"## {shown.title}\n\n{shown.says}\n\n{pictures}\n\n"


def _accessibility(looked: list[Looked]) -> str:
    lines = [
        f"| {one.shown.title} | " + " | ".join(str(one.found.get(kind, 0)) for kind in IMPACTS) + " |" for one in looked
    ]
    head = [
        "## Accessibility",
        "",
        "What axe finds on each page, light and dark together, by how much it matters:",
        "",
        "| page | " + " | ".join(IMPACTS) + " |",
        "|---|" + "--:|" * len(IMPACTS),
    ]
    return "\n".join([*head, *lines, "", ""])


def _sizes() -> str:
    sizes, first = sizes_of(BUILT), first_load(BUILT)
    large = sorted((name for name in sizes if name not in first), key=lambda name: -sizes[name])[:8]
    total = sum(sizes[name] for name in first)
    rows = [
        f"| `{_plain(name)}` | {sizes[name] / 1000:.1f} | {when} |"
        for names, when in ((first, "at once"), (large, "when needed"))
        for name in names
    ]
    first_kb = f"Packed by gzip, as it travels. Before the first page: **{total / 1000:.0f} kB**"
    says = f"{first_kb} of at most {LIMIT_KB} kB; charts and the editor come when a page needs them."
    head = ["## Size", "", says, "", "| file | kB | fetched |", "|---|--:|---|"]
    return "\n".join([*head, *rows, ""])


def _plain(name: str) -> str:
    """The name of a file without the hash of its content."""
    return re.sub(r"-[\w-]{8}(?=\.\w+$)", "", name.removeprefix("assets/"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
