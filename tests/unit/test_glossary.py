"""The glossary holds for the code: one class name, one thing, and no name that says when instead of what."""

import ast
import re
from collections import defaultdict
from pathlib import Path

from scripts.plain_english import BANNED

import assay

SRC = Path(assay.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "glossary.md"
MODULES = sorted(path for path in SRC.rglob("*.py") if "migrations" not in path.parts)
# The form that a record of another room takes on the wire.
WIRE_FORMS = {"Channel", "Comparison", "Output", "Progress"}
# Participles and house words that name nothing that an engineer would look for.
NOT_CLASSES = {
    "Told",
    "Seen",
    "Shown",
    "Had",
    "Asked",
    "Met",
    "Concluded",
    "Manner",
    "Around",
    "Looker",
    "Standing",
    "Judged",
}
NOT_MODULES = {
    "told",
    "seen",
    "shown",
    "looking",
    "looker",
    "watching",
    "having",
    "telling",
    "reaching",
    "desk",
    "ways",
}


def room_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0]


def classes() -> dict[str, set[str]]:
    """Public classes by name, with the rooms that define one."""
    rooms = defaultdict(set)
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                rooms[node.name].add(room_of(path))
    return rooms


def test_no_two_rooms_share_a_public_class_name():
    shared = {name for name, rooms in classes().items() if len(rooms) > 1}
    assert shared == WIRE_FORMS


def test_no_class_has_a_name_of_the_house():
    assert not NOT_CLASSES & set(classes())


def test_no_module_has_a_name_of_the_house():
    assert not NOT_MODULES & {path.stem for path in MODULES}


def test_the_page_lists_every_word_once():
    words = re.findall(r"^\| ([a-z][a-z ,]*) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = [word for row in words for word in row.split(", ") if word not in ("word", "not")]
    assert len(listed) == len(set(listed))
    assert {"benchmark", "campaign", "job", "run", "engine", "snapshot", "failure reason"} <= set(listed)


def test_the_page_lists_every_word_that_the_script_finds():
    table = PAGE.read_text(encoding="utf-8").partition("## Words that are not used")[2]
    words = " ".join(re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE))
    assert [banned for banned in BANNED if not re.search(rf"\b(?:{banned})\b", words)] == []
