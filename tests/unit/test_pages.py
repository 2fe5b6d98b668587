"""Pages of the repository: every link leads to a file, and the page about the architecture names every room."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benches/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)")


def dead_links(text: str, folder: Path) -> list[str]:
    """Links to files that are not there; those to other hosts and inside the page are not followed."""
    links = LINK.findall(FENCE.sub("", text))
    return [
        link
        for link in links
        if "://" not in link and link[0] != "#" and not (folder / link.partition("#")[0]).exists()
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert dead_links(page.read_text(encoding="utf-8"), page.parent) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").touch()
    text = "[a](there.md#x) [b](gone.md) [c](https://example.com) [d](#here)\n```text\n[e](shown.md)\n```\n"
    assert dead_links(text, tmp_path) == ["gone.md"]


def test_the_architecture_page_lists_the_rooms_in_the_order_of_the_contract() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    *rooms, leaves = [layer for layer in contract["layers"] if layer != "__main__"]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == rooms
    assert [leaf for leaf in leaves.split(" | ") if f"`{leaf}`" not in page] == []
