"""`assay alerts`: what people are notified about, what they say to it, and whether the messages were sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import SourceOptions, TextFormat, TextFormatOption, Verbs, span_s
from assay.cli.output import moment, say, say_json, say_table

if TYPE_CHECKING:
    from assay.alert.records import AlertRecord, Trigger

app = Verbs(help="List alerts and their rules; acknowledge, snooze, expect and resolve.")
rules_app = Verbs(
    help="List, set and remove the rules of alerts; lists when nothing else is asked.", no_args_is_help=False
)
app.add_typer(rules_app, name="rules")

Alert = Annotated[str, typer.Argument(metavar="ALERT", help="Id of the alert, or its beginning.")]
Alerts = Annotated[list[str], typer.Argument(metavar="ALERT", help="Ids of alerts, or their beginnings.")]
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


class NoticeState(StrEnum):
    """State of a message."""

    waiting = "waiting"
    sending = "sending"
    sent = "sent"
    given_up = "given-up"


@app.command("list")
def list_(
    state: Annotated[AlertState, typer.Option("--state", help="Only those in this state.")] = AlertState.active,
    every: Annotated[bool, typer.Option("--all", "-a", help="Those that are over too.")] = False,
    severity: Annotated[Severity | None, typer.Option("--severity", help="Only those as bad as this.")] = None,
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only those of this benchmark.")] = "",
    text: Annotated[str, typer.Option("--text", help="Only those that say this.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many.")] = 50,
    form: TextFormatOption = TextFormat.text,
    *,
    options: SourceOptions,
) -> None:
    """List alerts, the newest first: those that stand, unless asked otherwise."""
    from assay.documents import to_plain
    from assay.store.alerts import AlertFilter

    states = () if every else (state.value,)
    which = AlertFilter(states, severity.value if severity else "", benchmark, text)
    with options.open() as source:
        alerts = tuple(source.alerts(which, limit))
    if form is TextFormat.json:
        say_json([to_plain(alert) for alert in alerts])
        return
    rows = [(alert.id, alert.state, alert.severity, moment(alert.changed_at), alert.title) for alert in alerts]
    say_table(("alert", "state", "severity", "changed", "title"), rows, "no alerts", flexible="title")


@app.command("show")
def show(alert: Alert, form: TextFormatOption = TextFormat.text, *, options: SourceOptions) -> None:
    """Show an alert: what it is about, what may explain it, and its history."""
    from assay.documents import to_plain

    with options.open() as source:
        record = source.alert(alert)
    if form is TextFormat.json:
        say_json(to_plain(record))
    else:
        say("\n".join(_lines(record)))


def _saying(trigger: Trigger, meaning: str) -> Callable[..., None]:
    """A verb that says one thing to alerts."""

    def say_to(alerts: Alerts, why: WhyOption = "", *, options: SourceOptions) -> None:
        _act(alerts, trigger, why, options)

    say_to.__doc__ = meaning
    return say_to


app.command("ack")(
    _saying("acknowledge", "Say that you are working on it: no more notifications unless it gets worse.")
)


@app.command("snooze")
def snooze(
    alerts: Alerts,
    span: Annotated[str, typer.Option("--for", help="For how long, such as 4h, 2d or 30m.")],
    why: WhyOption = "",
    *,
    options: SourceOptions,
) -> None:
    """Hear nothing of it for a while; then it is open again."""
    _act(
        alerts,
        "snooze",
        why,
        options,
        for_s=span_s(span, "--for", 10 * 365 * 86400, code="span", try_="write 4h, 2d or 30m"),
    )


app.command("expect")(_saying("expect", "Mark its changes as expected: their series continue from the new level."))
app.command("resolve")(_saying("resolve", "Close it; it opens again if the problem comes back."))
app.command("reopen")(_saying("reopen", "Open it again."))


@rules_app.callback(invoke_without_command=True)
def rules(form: TextFormatOption = TextFormat.text, *, options: SourceOptions) -> None:
    """List the rules that decide when people are notified."""
    from assay.documents import to_plain

    if options.context.invoked_subcommand is not None:
        return
    with options.open() as source:
        rules = source.rules()
    if form is TextFormat.json:
        say_json([to_plain(rule) for rule in rules])
        return
    rows = [
        (rule.name, rule.origin, rule.benchmark, str(rule.rule.get("severity", "warning")), rule.says) for rule in rules
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
    quiet: Annotated[str, typer.Option("--quiet", help="Hours without notifications, such as 22:00-07:00.")] = "",
    timezone: Annotated[str, typer.Option("--timezone", help="Time zone of these hours.")] = "UTC",
    at_most_every: Annotated[str, typer.Option("--at-most-every", help="Tell no more than once in this time.")] = "",
    notify: Annotated[list[str] | None, typer.Option("--notify", help="A channel to tell; all when left out.")] = None,
    *,
    options: SourceOptions,
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
    with options.open() as source:
        changed = source.set_rule(name, benchmark, rule)
    say(f"{changed.name}: {changed.says}")


@rules_app.command("rm")
def remove_rules(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names of rules.")],
    *,
    options: SourceOptions,
) -> None:
    """Take rules away; alerts that stand by them alone are resolved."""
    with options.open() as source:
        for name in names:
            source.remove_rule(name)
            say(f"removed {name}")


@app.command("notices")
def notices(
    alert: Annotated[str, typer.Argument(metavar="ALERT", help="Only those about this alert.")] = "",
    state: Annotated[NoticeState | None, typer.Option("--state", help="Only those in this state.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    form: TextFormatOption = TextFormat.text,
    *,
    options: SourceOptions,
) -> None:
    """List messages about alerts, the newest first: to which channel, whether it was taken, and if not, why."""
    from assay.documents import to_plain

    with options.open() as source:
        messages = source.notices(alert, state.value if state else None, limit)
    if form is TextFormat.json:
        say_json([to_plain(message) for message in messages])
        return
    rows = [
        (
            str(message.id),
            message.channel,
            message.state,
            str(message.tries),
            moment(message.sent_at or message.next_at or message.created_at),
            message.error or message.subject,
        )
        for message in messages
    ]
    head = ("notice", "channel", "state", "tries", "sent or due", "about, or what is wrong")
    say_table(head, rows, "no messages", flexible=head[-1])


@app.command("resend")
def resend(
    notices: Annotated[list[int], typer.Argument(metavar="NOTICE", help="Numbers of messages.")],
    *,
    options: SourceOptions,
) -> None:
    """Send messages after all that were given up."""
    with options.open() as source:
        for number in notices:
            sent = source.send_again(number)
            say(f"{sent.id} {sent.state} for {sent.channel}: {sent.subject}")


@app.command("test-channel")
def send_test(
    name: Annotated[str, typer.Argument(metavar="CHANNEL", help="Name of the channel.")],
    channels: Annotated[
        Path, typer.Option("--channels", help="The channels file.", envvar="ASSAY_SERVER_CHANNELS", show_default=False)
    ],
    public_url: Annotated[
        str,
        typer.Option(
            "--public-url",
            help="Address of the server, for the link.",
            envvar="ASSAY_SERVER_PUBLIC_URL",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Send a message to a channel that says it is a test; exit code 3 if it is not taken."""
    from assay.alert.notify.channels import read_channels, try_channel

    wrong = try_channel(read_channels(channels, only=name), name, public_url)
    say(f"{name} took the test message" + (f", but: {wrong}" if wrong else ""))


def _act(alerts: list[str], trigger: Trigger, why: str, options: SourceOptions, *, for_s: float | None = None) -> None:
    with options.open() as source:
        for alert in alerts:
            changed = source.act(alert, trigger, why, for_s)
            say(f"{changed.id} {changed.state}{_until(changed)}: {changed.title}")


def _until(alert: AlertRecord) -> str:
    return f" until {moment(alert.snoozed_until)}" if alert.snoozed_until else ""


def _lines(alert: AlertRecord) -> Iterator[str]:
    from assay.analyse.series.causes import shown

    yield alert.title
    yield f"{alert.id}  {alert.state}{_until(alert)}  {alert.severity}  opened {moment(alert.opened_at)}"
    yield ""
    yield from alert.sentences
    if alert.differs:
        yield ""
        yield "differs between the last good and the first bad result"
        yield from (
            f"  {difference.name}: {shown(difference.before)} → {shown(difference.after)}"
            for difference in alert.differs
        )
    yield ""
    for line in alert.history:
        who = f" by {line.by}" if line.by else ""
        why = f": {line.why}" if line.why else ""
        yield f"{moment(line.at)}  {line.state}{who} ({line.happening}){why}"
