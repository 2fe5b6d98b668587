"""The page about error codes, from every place in the code that raises or reports one.

What a code means is what the code says beside it: the message and the advice, with `…` where a value is put in.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from page_parts import table

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "assay"
# The most messages of one code that are shown; the rest is counted.
MOST_SHOWN = 3
# Exit code, and the code of an error that names none.
_BASES = {"AssayError": ("3", "failed"), "UsageError": ("2", "usage"), "MeasureError": ("3", "measure")}
# Records, and which of their arguments are code, message and advice.
_RECORDS = {"Problem": (0, 1, 3), "FailureReason": (0, 1, 2), "Failure": (0, 1, 3)}

_INTRODUCTION = """\
An error says what failed, with its value, where, and what to do. The code in brackets stays the same from version to
version; `--format json`, the records of failed jobs and the answers of a server carry it too.

```text
error[port-taken] 127.0.0.1:8080
  the port 8080 is taken by another program
  try: assay serve --port 8081
```

The code ends the command with an exit code: **2** is wrong use, found before anything was measured; **3** means that it
could not be measured. Errors of a server's HTTP API show their HTTP status instead. `…` stands for a value.
[Troubleshooting](../troubleshooting.md) explains the common ones at length."""


@dataclass(frozen=True, slots=True)
class Mention:
    """One place in the code that raises or reports a code."""

    code: str
    ends: str  # exit code, or HTTP status
    messages: tuple[str, ...]
    advice: tuple[str, ...]


def errors_page() -> str:
    """Every code with what it means and what to do."""
    found: dict[str, list[Mention]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for mention in mentions_of(ast.parse(path.read_text(encoding="utf-8"))):
            found[mention.code].append(mention)
    rows = [_row(code, mentions) for code, mentions in sorted(found.items())]
    return "\n\n".join(("# Error codes", _INTRODUCTION, table(("code", "ends", "says", "try"), rows))) + "\n"


def _row(code: str, mentions: list[Mention]) -> tuple[str, str, str, str]:
    messages = list(dict.fromkeys(message for mention in mentions for message in mention.messages))
    advice = list(dict.fromkeys(advice for mention in mentions for advice in mention.advice))
    ends = sorted({mention.ends for mention in mentions if mention.ends})
    return f"`{code}`", ", ".join(ends), _shortened(messages), _shortened(advice)


def _shortened(texts: list[str]) -> str:
    more = len(texts) - MOST_SHOWN
    return "<br>".join([*texts[:MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def mentions_of(module: ast.Module) -> Iterator[Mention]:
    """Every code that a module names in a call of an error, a problem or a reason."""
    constants = _strings(module.body)
    scopes = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    makers = {scope.name: maker for scope in scopes if (maker := _maker(scope))}
    for scope in scopes:
        names = constants | _strings(scope.body)
        for node in ast.walk(scope):
            parts = _parts(node) or _made(node, makers)
            if parts and (codes := _texts(parts.code, names)) and _is_code(codes[0]):
                yield Mention(codes[0], parts.ends, _texts(parts.message, names), _texts(parts.advice, names))


@dataclass(frozen=True, slots=True)
class Parts:
    """The expressions that an error is made from."""

    ends: str
    code: ast.expr | None
    message: ast.expr | None
    advice: ast.expr | None


def _parts(node: ast.AST) -> Parts | None:
    """What a call makes an error from; so does a tuple of code, message, place and advice that is returned."""
    match node:
        case ast.Return(value=ast.Tuple(elts=[ast.Constant() as code, message, _, advice])):
            return Parts("2", code, message, advice)
        case ast.Call(func=ast.Name(id=kind) | ast.Attribute(attr=kind)):
            options = {keyword.arg: keyword.value for keyword in node.keywords}
            words = dict(enumerate(node.args))
            if kind in _RECORDS:
                code_at, message_at, advice_at = _RECORDS[kind]
                advice = options.get("try_", words.get(advice_at))
                return Parts("" if kind == "Problem" else "3", words.get(code_at), words.get(message_at), advice)
            if kind in errors():
                ends, default = errors()[kind]
                return Parts(ends, options.get("code", ast.Constant(default)), words.get(0), options.get("try_"))
            if kind == "RequestProblem":
                return Parts(_status(words.get(0)), options.get("code"), words.get(1), options.get("try_"))
    return None


_Maker = tuple[list[str], Parts]  # parameters of a function, and the error that it makes of them


def _maker(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> _Maker | None:
    """A function that takes the code of the error that it makes."""
    names = [argument.arg for argument in (*scope.args.args, *scope.args.kwonlyargs)]
    made = (parts for node in ast.walk(scope) if (parts := _parts(node)))
    return next(((names, parts) for parts in made if isinstance(parts.code, ast.Name) and parts.code.id in names), None)


def _made(node: ast.AST, makers: Mapping[str, _Maker]) -> Parts | None:
    """What a call of such a function makes an error from."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in makers:
            names, parts = makers[name]
            given = dict(zip(names, node.args, strict=False))
            given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}

            def put_in(part: ast.expr | None) -> ast.expr | None:
                return given.get(part.id, part) if isinstance(part, ast.Name) else part

            return Parts(parts.ends, put_in(parts.code), put_in(parts.message), put_in(parts.advice))
    return None


def _status(node: ast.expr | None) -> str:
    return f"HTTP {node.value}" if isinstance(node, ast.Constant) else ""


def _is_code(text: str) -> bool:
    return text.replace("-", "").replace("…", "").isalnum() and text.islower()


@cache
def errors() -> dict[str, tuple[str, str]]:
    """Name of an error → the exit code that it ends a command with, and its code where none is named."""
    classes = {
        node.name: node
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
    }
    known = dict(_BASES)
    while added := {
        name: (known[base.id][0], (_strings(node.body).get("default_code") or (known[base.id][1],))[0])
        for name, node in classes.items()
        for base in node.bases
        if name not in known and isinstance(base, ast.Name) and base.id in known
    }:
        known |= added
    return known


def _strings(body: list[ast.stmt]) -> dict[str, tuple[str, ...]]:
    """Name → the texts that are assigned to it in a module or a function."""
    found: dict[str, tuple[str, ...]] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = found.get(node.targets[0].id, ()) + _texts(node.value, {})
    return found


def _texts(node: ast.expr | None, names: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """What an expression may read as, with `…` for its values; nothing if it is no text."""
    match node:
        case ast.Constant(value=str() as value) if value:
            return (" ".join(value.split()),)
        case ast.JoinedStr(values=parts):
            return ("".join(part.value if isinstance(part, ast.Constant) else "…" for part in parts),)
        case ast.IfExp(body=body, orelse=other):
            return _texts(body, names) + _texts(other, names)
        case ast.Name(id=name):
            return names.get(name, ())
    return ()
