"""Structured logs: an event is a name and fields, written as one JSON object or one line for people."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Literal

LOGGER = "assay.serve"
_log = logging.getLogger(LOGGER)


def tell(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log one decision: what happened, and to whom."""
    if _log.isEnabledFor(level):
        _log.log(level, event, extra={"fields": fields})


def tell_failure(event: str, problem: BaseException, **fields: object) -> None:
    """Log something that should not have happened, with where in the code it did."""
    _log.error(event, exc_info=problem, extra={"fields": fields})


def set_up_logs(form: Literal["console", "json"], level: str) -> None:
    """Send the events of the server, and the warnings of its libraries, to standard error."""
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(JsonLines() if form == "json" else PlainLines())
    _log.handlers[:] = [stream]
    _log.setLevel(level.upper())
    _log.propagate = False
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers[:] = [stream]
        library.setLevel(logging.WARNING)
        library.propagate = False


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1]:
            line["trace"] = _trace(record.exc_info[1])
        return json.dumps(line, default=str, ensure_ascii=False)


class PlainLines(logging.Formatter):
    """One line for people: time, level when it matters, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        fields = getattr(record, "fields", {})
        shown = " ".join(f"{name}={_plain(value)}" for name, value in fields.items() if value not in ("", None))
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        line = f"{at}  {level}{record.getMessage()}  {shown}".rstrip()
        if record.exc_info and record.exc_info[1]:
            line += "\n" + "\n".join(f"  {one}" for one in _trace(record.exc_info[1]))
        return line


def _plain(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    # A line stays a line, whatever a client sent.
    text = text.replace("\r", "\\r").replace("\n", "\\n").replace("\x1b", "\\e")
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text


def _trace(problem: BaseException) -> list[str]:
    """Where in the code it happened and of what kind; not its text, which may hold what a client sent."""
    frames = traceback.extract_tb(problem.__traceback__)
    kinds = [f"{type(problem).__module__}.{type(problem).__qualname__}"]
    cause = problem.__cause__ or problem.__context__
    if cause is not None:
        kinds.append(f"after {type(cause).__module__}.{type(cause).__qualname__}")
    return [*kinds, *(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-12:])]
