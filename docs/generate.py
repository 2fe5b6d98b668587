"""A hook of mkdocs: figures that benches and tests have written are put into the pages that ask for them."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "benches" / "results"
CALIBRATION_MARK = "<!-- calibration: one line per promise -->"
FAULTS_MARK = "<!-- faults: the table of the last run -->"


def on_page_markdown(markdown: str, **_: object) -> str:
    """Put the figures where a page has a mark."""
    faults = (RESULTS / "faults.md").read_text(encoding="utf-8")
    return markdown.replace(CALIBRATION_MARK, calibration_summary()).replace(FAULTS_MARK, faults)


def calibration_summary() -> str:
    """The first line of the calibration for each promise."""
    firsts: dict[str, str] = {}
    for line in (RESULTS / "calibration.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            firsts.setdefault(line.split("|")[1].strip(), line)
    return "\n".join(firsts.values())
