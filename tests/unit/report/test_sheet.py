"""Tables of text: what names hold never reaches the terminal as a command."""

from __future__ import annotations

import pytest

from assay.report.sheet import GridColumn, lay_out, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("box", "box"),
        ("a\nb", "a\\nb"),
        ("a\rb", "a\\rb"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("ünï 模型 → ok", "ünï 模型 → ok"),
    ],
)
def test_control_characters_are_shown_and_not_sent(text, shown):
    assert plain(text) == shown
    assert lay_out([GridColumn("name"), GridColumn("id")], [(text, "1")], 80)[1].split("  ")[0] == shown


def test_a_name_with_a_line_break_stays_one_row():
    lines = lay_out([GridColumn("name"), GridColumn("state")], [("evil\nok  active", "faulty"), ("b", "active")], 80)
    assert len(lines) == 3
    assert len({line.index(state) for line, state in zip(lines, ("state", "faulty", "active"), strict=True)}) == 1
