"""Count files, lines and lines of code of src/assay, by room: `python scripts/count_code.py [FOLDER]`.

Code is what is left without blank lines, comments and docstrings (strings that stand alone as statements).
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import defaultdict
from pathlib import Path


def code_lines(text: str) -> int:
    """Lines that hold at least one token of code."""
    prose = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - prose)


def main(root: Path) -> None:
    """Print one row per room and the sum."""
    rooms: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        parts = path.relative_to(root).parts
        row = (1, text.count("\n"), code_lines(text), text.count("# fmt: skip"))
        for room in (parts[0] if len(parts) > 1 else "(leaves)", "all"):
            rooms[room] = [have + more for have, more in zip(rooms[room], row, strict=True)]
    everything = rooms.pop("all")
    sys.stdout.write(f"{'room':<14}{'files':>7}{'lines':>9}{'code':>9}{'fmt: skip':>11}\n")
    for room, (files, lines, code, skips) in [*sorted(rooms.items()), ("all", everything)]:
        sys.stdout.write(f"{room:<14}{files:>7,}{lines:>9,}{code:>9,}{skips:>11,}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "src/assay"))
