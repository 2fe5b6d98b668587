"""What the tests of the dashboard share: its tools, its built files, and a browser."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live.browser.browsing import AXE, BUILT, ROOT, browser_path, started_browser
from tests.live.browser.demo import demo_server, fill
from tests.support.lacking import lacking

# What scripts/web.sh ends with where there is no Node, or where its packages are not installed.
_NO_NODE = 69


@pytest.fixture(scope="session")
def in_web() -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs a tool of web/, such as `tsc`."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(ROOT / "scripts/web.sh"), "run", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == _NO_NODE:
            lacking("DASHBOARD", "no Node with the packages of web/ found; scripts/web.sh brings both")
        return done

    return run


@pytest.fixture(scope="session")
def built() -> Path:
    """The folder of the built dashboard."""
    if not (BUILT / "index.html").is_file() or not AXE.is_file():
        lacking("DASHBOARD", "the dashboard is not built; `make web` does it")
    return BUILT


@pytest.fixture(scope="module")
def browser(built: Path) -> Iterator[Any]:
    """A headless browser; the test is skipped where there is none, unless one is required.

    Not for the whole session: Playwright keeps an event loop in this thread, beside which no other can run.
    """
    path = browser_path()
    if path is None:
        lacking("BROWSER", "no Chromium found; name one in ASSAY_CHROMIUM")
    with started_browser(path) as browser:
        yield browser


@pytest.fixture(scope="package")
def demo(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with demo data whose agents keep working; they end with the tests of pages."""
    folder = tmp_path_factory.mktemp("demo")
    fill(folder)
    with demo_server(folder) as server:
        yield server.url
