"""`assay alerts`: what people are told about, and what they say to it; of a store here or of a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli import alert_channels
from assay.cli.alert_source import source
from assay.cli.options import (
    JsonOption,
    SourceOptions,
    Verbs,
)
from assay.cli.output import moment, say, say_json, say_table

if TYPE_CHECKING:
    from assay.alert.records import Trigger

app = Verbs(
    help="List alerts and their rules; acknowledge, snooze, expect and resolve.",
)
rules_app = Verbs(help="List, set and remove the rules of alerts; lists when nothing else is asked.")
app.add_typer(rules_app, name="rules")
app.command("notices")(alert_channels.notices)
app.command("resend")(alert_channels.resend)
app.command("test-channel")(alert_channels.send_test)

Alert = Annotated[str, typer.Argument(metavar="ALERT", help="Id of the alert, or its beginning.")]
Alerts = Annotated[list[str], typer.Argument(metavar="ALERT...", help="Ids of alerts, or their beginnings.")]
WhyOption = Annotated[str, typer.Option("--why", "-m", help="The reason; it is kept in the history.")]


class AlertState(StrEnum):
    """State of an alert."""

    active = "active"
    open = "open"
    acknowledged = "acknowledged"
    snoozed = "snoozed"
    expected = "expected"
    resolved = "resolved"


class Severity(StrEnum):
    """How bad an alert is."""

    info = "info"
    warning = "warning"
    critical = "critical"


@app.command("list")
def list_(
    state: Annotated[AlertState, typer.Option("--state", help="Only those in this state.")] = AlertState.active,
    every: Annotated[bool, typer.Option("--all", "-a", help="Those that are over too.")] = False,
    severity: Annotated[Severity | None, typer.Option("--severity", help="Only those as bad as this.")] = None,
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only those of this benchmark.")] = "",
    text: Annotated[str, typer.Option("--text", help="Only those that say this.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many.")] = 50,
    json_: JsonOption = False,
    *,
    source: SourceOptions,
) -> None:
    """List alerts, the newest first: those that stand, unless asked otherwise."""
    asked = {
        "state": "" if every else state.value,
        "severity": severity.value if severity else "",
        "benchmark": benchmark,
        "text": text,
    }
    with source(store, server, token_file, ca) as alerts_of:
        found = alerts_of.alerts(asked, limit)
    if json_:
        say_json(found)
        return
    rows = [(one["id"], one["state"], one["severity"], moment(one["changed_at"]), one["title"]) for one in found]
    say_table(("alert", "state", "severity", "changed", "title"), rows, "no alerts", flexible="title")


@app.command("show")
def show(
    alert: Alert,
    json_: JsonOption = False,
    *,
    source: SourceOptions,
) -> None:
    """Show an alert: what it is about, what may explain it, and its history."""
    with source(store, server, token_file, ca) as alerts_of:
        found = alerts_of.get(alert)
    if json_:
        say_json(found)
        return
    say("\n".join(_lines(found)))


@app.command("ack")
def ack(
    alerts: Alerts,
    why: WhyOption = "",
    *,
    source: SourceOptions,
) -> None:
    """Say that you work on it: nobody is told again while it stands as it is."""
    _act(alerts, "acknowledge", {"why": why}, store, server, token_file, ca)


@app.command("snooze")
def snooze(
    alerts: Alerts,
    span: Annotated[str, typer.Option("--for", help="For how long, such as 4h, 2d or 30m.")],
    why: WhyOption = "",
    *,
    source: SourceOptions,
) -> None:
    """Hear nothing of it for a while; then it is open again."""
    _act(alerts, "snooze", {"why": why, "for_s": _seconds(span)}, store, server, token_file, ca)


@app.command("expect")
def expect(
    alerts: Alerts,
    why: WhyOption = "",
    *,
    source: SourceOptions,
) -> None:
    """Call its changes expected: their series are measured from the new level on."""
    _act(alerts, "expect", {"why": why}, store, server, token_file, ca)


@app.command("resolve")
def resolve(
    alerts: Alerts,
    why: WhyOption = "",
    *,
    source: SourceOptions,
) -> None:
    """End it by hand; it is opened again if the trouble is seen anew."""
    _act(alerts, "resolve", {"why": why}, store, server, token_file, ca)


@app.command("reopen")
def reopen(
    alerts: Alerts,
    why: WhyOption = "",
    *,
    source: SourceOptions,
) -> None:
    """Take back what was said: it is open as before."""
    _act(alerts, "reopen", {"why": why}, store, server, token_file, ca)


@rules_app.callback(invoke_without_command=True)
def rules(
    context: typer.Context,
    json_: JsonOption = False,
    *,
    source: SourceOptions,
) -> None:
    """List the rules that decide when people are told."""
    if context.invoked_subcommand is not None:
        return
    with source(store, server, token_file, ca) as alerts_of:
        found = alerts_of.rules()
    if json_:
        say_json(found)
        return
    rows = [
        (one["name"], one["origin"], one["benchmark"], str(one["rule"].get("severity", "warning")), one["says"])
        for one in found
    ]
    empty = "no rules; benchmark files have them under alerts, or: assay alerts rules set"
    say_table(("rule", "origin", "benchmark", "severity", "when"), rows, empty, flexible="rule")


@rules_app.command("set")
def set_rule(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the rule.")],
    when: Annotated[
        str,
        typer.Argument(
            metavar="WHEN",
            help="Such as 'ttft_ms.p99 > 50', 'latency_ms worse by 5%', "
            "'job failed', 'no data for 24h' or 'agent lost'.",
        ),
    ],
    benchmark: Annotated[str, typer.Option("--benchmark", help="A benchmark, or a pattern such as chat-*.")] = "*",
    severity: Annotated[Severity, typer.Option("--severity", help="How bad it is.")] = Severity.warning,
    quiet: Annotated[str, typer.Option("--quiet", help="Hours in which nobody is told, such as 22:00-07:00.")] = "",
    timezone: Annotated[str, typer.Option("--timezone", help="Time zone of these hours.")] = "UTC",
    at_most_every: Annotated[str, typer.Option("--at-most-every", help="Tell no more than once in this time.")] = "",
    notify: Annotated[list[str] | None, typer.Option("--notify", help="A channel to tell; all when left out.")] = None,
    *,
    source: SourceOptions,
) -> None:
    """Set a rule for every benchmark whose name matches, in place of what had its name."""
    given = {
        "when": when,
        "severity": severity.value,
        "quiet": quiet,
        "timezone": timezone,
        "at_most_every": at_most_every,
        "notify": notify,
    }
    rule = {key: value for key, value in given.items() if value}
    with source(store, server, token_file, ca) as alerts_of:
        kept = alerts_of.set_rule(name, benchmark, rule)
    say(f"{kept['name']}: {kept['says']}")


@rules_app.command("rm")
def remove_rules(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of rules.")],
    *,
    source: SourceOptions,
) -> None:
    """Take rules away; alerts that stand by them alone are resolved."""
    with source(store, server, token_file, ca) as alerts_of:
        for name in names:
            alerts_of.remove_rule(name)
            say(f"removed {name}")


def _act(
    alerts: list[str],
    happening: Trigger,
    word: Mapping[str, Any],
    store: Path | None,
    server: str | None,
    token_file: Path | None,
    ca: Path | None,
) -> None:
    with source(store, server, token_file, ca) as alerts_of:
        for one in alerts:
            changed = alerts_of.act(one, happening, word)
            until = f" until {moment(changed['snoozed_until'])}" if changed["snoozed_until"] else ""
            say(f"{changed['id']} {changed['state']}{until}: {changed['title']}")


def _seconds(text: str) -> float:
    from assay.errors import UsageError
    from assay.units import seconds

    try:
        found = seconds(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 10 * 365 * 86400:
        raise UsageError(f"{text!r} is no span of time", code="span", at="--for", try_="write 4h, 2d or 30m")
    return found


def _lines(alert: Mapping[str, Any]) -> Iterator[str]:
    """An alert as people read it."""
    yield alert["title"]
    until = f" until {moment(alert['snoozed_until'])}" if alert["snoozed_until"] else ""
    yield f"{alert['id']}  {alert['state']}{until}  {alert['severity']}  opened {moment(alert['opened_at'])}"
    yield ""
    yield from alert["sentences"]
    if alert["differs"]:
        yield ""
        yield "differs between the last good and the first bad result"
        yield from (f"  {one['name']}: {_value(one['before'])} → {_value(one['after'])}" for one in alert["differs"])
    yield ""
    for line in alert["history"]:
        who = f" by {line['by']}" if line["by"] else ""
        why = f": {line['why']}" if line["why"] else ""
        yield f"{moment(line['at'])}  {line['state']}{who} ({line['happening']}){why}"


def _value(value: Any) -> str:  # noqa: ANN401  (JSON)
    """Something that differs, for people."""
    from assay.analyse.series.triage import shown

    return shown(value)
