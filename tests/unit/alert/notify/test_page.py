"""The page about channels is true: its files can be read, and it names every kind and every key."""

from __future__ import annotations

import re
from pathlib import Path

from assay.alert.notify.channels import OURS, find_kind, parse_channels
from assay.spec.source import parse

PAGE = (Path(__file__).parents[4] / "docs/how-to/notify-a-channel.md").read_text()


def test_the_files_on_the_page_can_be_read():
    blocks = re.findall(r"```yaml[^\n]*\n(.*?)```", PAGE, re.DOTALL)
    files = [block for block in blocks if "kind:" in block]
    assert len(files) >= 2
    for text in files:
        set_ = dict.fromkeys(re.findall(r"\$\{env:(\w+)\}", text), "x")
        assert parse_channels(parse(text, ".yaml", "page"), set_)


def test_every_kind_and_every_key_is_on_the_page():
    for name in OURS:
        kind = find_kind(name)
        assert kind is not None
        assert f"`{name}`" in PAGE
        missing = [key for key, field in kind.model_fields.items() if f"`{field.alias or key}" not in PAGE]
        assert not missing, name
