"""The channels file: names of channels, and what each needs. It belongs to the server; its secrets are references."""

from __future__ import annotations

import difflib
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from assay.alert.message import Message, NoticeDocument, compose
from assay.alert.notify.protocol import Channel, NotifyError
from assay.alert.picture import drawing_of
from assay.alert.records import AlertRecord, NotificationState
from assay.documents import validation_words
from assay.errors import Problem, SpecError, UsageError
from assay.spec.problems import unique
from assay.spec.references import redact
from assay.spec.source import KeyPath, SourceDocument, dotted, read

GROUP = "assay.notifiers"
# Ours are found without reading what every installed package registers; pyproject.toml names them too.
OURS = {
    "alertmanager": "assay.alert.notify.webhooks:Alertmanager",
    "command": "assay.alert.notify.command:Command",
    "email": "assay.alert.notify.email_:Email",
    "github": "assay.alert.notify.forge:GitHub",
    "gitlab": "assay.alert.notify.forge:GitLab",
    "mattermost": "assay.alert.notify.webhooks:Slack",
    "slack": "assay.alert.notify.webhooks:Slack",
    "webhook": "assay.alert.notify.webhooks:Webhook",
}
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
# Values that may be shown in an error; everything else could be a secret.
_HARMLESS = frozenset({"kind", "timeout", "port", "security", "issue", "repeat", "lasts"})
_SAYS = (
    "This is a test of the channel. It works.",
    "Nothing was measured: the picture, where there is one, only shows what pictures look like here.",
)


def read_channels(
    path: Path, environ: Mapping[str, str] | None = None, *, only: str | None = None
) -> dict[str, Channel]:
    """Read a channels file (YAML, TOML or JSON).

    Args:
        only: name of the one channel that will be used; secrets of the others need not be set.
    """
    try:
        source = read(path)
    except SpecError as wrong:
        raise SpecError.of(_of_this_file(problem) for problem in wrong.problems) from None
    return parse_channels(source, os.environ if environ is None else environ, only)


def parse_channels(source: SourceDocument, environ: Mapping[str, str], only: str | None = None) -> dict[str, Channel]:
    channels: dict[str, Channel] = {}
    problems: list[Problem] = []
    for name, value in source.document.items():
        channel = _channel(name, value, source)
        if isinstance(channel, list):
            problems += channel
        else:
            channels[name] = channel
            problems += _unset(name, channel, source, environ) if only in (None, name) else []
    if problems:
        raise SpecError.of(unique(problems))
    return channels


def kind_names() -> list[str]:
    return sorted({*OURS, *(entry.name for entry in entry_points(group=GROUP))})


def find_kind(name: str) -> type[Channel] | None:
    """The class of a kind of channel, built in or registered by an installed package; None if there is none."""
    if name in OURS:
        module, _, attribute = OURS[name].partition(":")
        kind_class = getattr(import_module(module), attribute)
    else:
        entry = next(iter(entry_points(group=GROUP, name=name)), None)
        if entry is None:
            return None
        try:
            kind_class = entry.load()
        except Exception as failure:  # code of others may do anything when it is imported
            raise UsageError(
                f"the kind of channel {name!r} cannot be loaded: {type(failure).__name__}: {failure}",
                code="channel-kind",
                try_=f"check the package that registers it: {entry.value}",
            ) from None
    if not (isinstance(kind_class, type) and issubclass(kind_class, Channel)):
        raise UsageError(f"what is registered as the kind of channel {name!r} is no Channel", code="channel-kind")
    return kind_class


def _channel(name: str, value: JsonValue, source: SourceDocument) -> Channel | list[Problem]:
    where = source.at((name,))
    if not _NAME.match(name):
        return [
            Problem(
                "channel-name",
                f"{name!r} is not a valid channel name",
                where,
                "use up to 64 letters, digits, dots, _ and -, such as team-chat",
            )
        ]
    if not isinstance(value, dict):
        return [Problem("value", f"{name}: a mapping of keys is needed", where, f"{name}: {{kind: slack, url: …}}")]
    kind = value.get("kind")
    if kind is None:
        return [Problem("missing-key", f"{name}.kind is missing", where, f"use one of {', '.join(kind_names())}")]
    model = find_kind(str(kind))
    if model is None:
        near = difflib.get_close_matches(str(kind), kind_names(), n=1, cutoff=0.5)
        advice = f"did you mean {near[0]}?" if near else f"use one of {', '.join(kind_names())}"
        return [
            Problem(
                "channel-kind",
                f"{name}.kind is {json.dumps(kind)}: there is no such kind of channel",
                source.at((name, "kind")),
                advice,
            )
        ]
    try:
        return model.model_validate_json(json.dumps(value))  # through JSON: only its strict mode takes lists for tuples
    except ValidationError as invalid:
        return [_problem(name, error, value, model, source) for error in invalid.errors(include_url=False)]


def _problem(name: str, error: ErrorDetails, value: JsonValue, model: type[Channel], source: SourceDocument) -> Problem:
    inside, written = _inside(error["loc"], value, error["type"])
    path: KeyPath = (name, *inside)
    where, said = source.at(path), dotted(path)
    keys = sorted(field.alias or key for key, field in model.model_fields.items())
    kind = f"a channel of kind {value['kind']}" if isinstance(value, dict) else "a channel"
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(path[-1]), keys, n=1, cutoff=0.5)
        advice = f"did you mean {near[0]}?" if near else f"valid keys are {', '.join(keys)}"
        return Problem("unknown-key", f"{said} is not a key of {kind}", where, advice)
    if error["type"] == "missing":
        return Problem("missing-key", f"{said} is missing", where, f"add {path[-1]}: … to {name}")
    words = validation_words(error)
    shown = f" is {json.dumps(written)}" if path[-1] in _HARMLESS else ""
    advice = f"{kind} takes {', '.join(keys)}"
    code = "secret" if "secret is not written out" in words else "value"
    return Problem(code, f"{said}{shown}: {words}", where, advice if code == "value" else _reference(path))


def _reference(path: KeyPath) -> str:
    return f"{path[-1]}: ${{env:{re.sub(r'[^A-Z0-9]', '_', '_'.join(map(str, path)).upper())}}}"


def _inside(loc: tuple[int | str, ...], value: JsonValue, kind: str) -> tuple[KeyPath, Any]:
    """The path inside the channel, less the labels that pydantic adds for unions, and what is written there."""
    path: KeyPath = ()
    cursor: Any = value
    for position, part in enumerate(loc):
        children: Any = (
            cursor if isinstance(cursor, dict) else dict(enumerate(cursor)) if isinstance(cursor, list) else {}
        )
        if part in children:
            cursor, path = children[part], (*path, part)
        elif kind == "missing" and position == len(loc) - 1:
            path = (*path, part)
    return path, cursor


def _unset(name: str, channel: Channel, source: SourceDocument, environ: Mapping[str, str]) -> list[Problem]:
    missing = [variable for variable in channel.secret_names() if not environ.get(variable)]
    return [
        Problem(
            "secret",
            f"{name} needs the environment variable {variable}, which is not set",
            source.at((name,)),
            f"export {variable}=… where `assay serve` is started",
        )
        for variable in missing
    ]


def _of_this_file(problem: Problem) -> Problem:
    message = problem.message.replace("the benchmark file", "the channels file").replace(
        "a benchmark file", "a channels file"
    )
    advice = "" if "assay init" in problem.try_ else problem.try_
    return Problem(problem.code, message, problem.at, advice or "check the path and the syntax")


def try_channel(channels: Mapping[str, Channel], name: str, server: str = "") -> str | None:
    """Send a test message to a channel.

    Returns:
        What was wrong although it was taken; None when nothing was.
    """
    if name not in channels:
        near = difflib.get_close_matches(name, channels, 1)
        choices = f"use one of {', '.join(sorted(channels))}" if channels else "the channels file names none"
        raise UsageError(
            f"there is no channel {name!r}",
            code="unknown-channel",
            try_=f"did you mean {near[0]}?" if near else choices,
        )
    channel = channels[name]
    try:
        return channel.send(trial_message(name, server))
    except NotifyError as failed:
        raise without_secrets(failed, channel) from None


def trial_message(name: str, server: str = "") -> Message:
    now = time.time()
    alert = AlertRecord(
        f"test{secrets.token_hex(6)}",
        "test",
        "finding",
        "open",
        "info",
        "",
        f"A test of the channel {name}",
        _SAYS,
        now,
        now,
        links={"server": "/"} if server else {},
        telling=NotificationState(1, "opened"),
    )
    steps = [1.0] * 12 + [2.0] * 12
    drawing = drawing_of(
        "a test picture: nothing was measured", steps, [0.1] * 24, [""] * 24, change_at=12, before=1.0, after=2.0
    )
    return compose(f"{alert.id}:1:{name}", NoticeDocument(alert, drawing, prepared=True), server, test=True)


def without_secrets(failed: NotifyError, channel: Channel) -> NotifyError:
    """The same failure, with nothing in its words that the channel keeps secret."""
    names = channel.secret_names()
    problem = failed.problem
    return NotifyError(
        redact(problem.message, names),
        retry=failed.retry,
        after_s=failed.after_s,
        done=failed.done,
        code=problem.code,
        at=redact(problem.at, names),
        try_=redact(problem.try_, names),
    )
