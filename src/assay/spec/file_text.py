"""The text of a benchmark file, from a document that was read, imported or typed."""

from __future__ import annotations

import io
import json
from typing import Any

from assay.spec.source import SourceDocument

SUFFIXES = (".yaml", ".yml", ".json")
# Wide enough that no value is folded, which would be harder to read than a long line.
_WIDTH = 4096


def file_text(source: SourceDocument, suffix: str) -> str:
    """The text of a benchmark file, with the notes about it at its top where the format has comments."""
    if suffix == ".json":
        return json.dumps(source.document, indent=2, ensure_ascii=False) + "\n"
    from ruamel.yaml import YAML

    writer = YAML()
    writer.default_flow_style = False
    writer.width = _WIDTH
    writer.representer.add_representer(type(None), _null)
    text = io.StringIO()
    writer.dump(source.document, text)
    return "".join(f"# {line}\n" for note in source.notes for line in note.splitlines()) + text.getvalue()


def _null(representer: Any, _: None) -> Any:  # noqa: ANN401  (ruamel's representers are untyped)
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")
