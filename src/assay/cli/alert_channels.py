"""`assay alerts notices|resend|test-channel`: whether people really hear of alerts."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import (
    JsonOption,
    SourceOptions,
)
from assay.cli.output import moment, say, say_json, say_table


class NoticeState(StrEnum):
    """State of a message."""

    waiting = "waiting"
    sending = "sending"
    sent = "sent"
    given_up = "given-up"


def notices(
    alert: Annotated[str, typer.Argument(metavar="[ALERT]", help="Only those about this alert.")] = "",
    state: Annotated[NoticeState | None, typer.Option("--state", help="Only those in this state.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    json_: JsonOption = False,
    *,
    source: SourceOptions,
) -> None:
    """List messages about alerts, the newest first: to which channel, whether it was taken, and if not, why."""
    with source(store, server, token_file, ca) as alerts_of:
        found = alerts_of.notices(alert, state.value if state else "", limit)
    if json_:
        say_json(found)
        return
    rows = [
        (
            str(one["id"]),
            one["channel"],
            one["state"],
            str(one["tries"]),
            moment(one["sent_at"] or one["next_at"] or one["created_at"]),
            one["error"] or one["subject"],
        )
        for one in found
    ]
    head = ("notice", "channel", "state", "tries", "sent or due", "about, or what is wrong")
    say_table(head, rows, "no messages", flexible=head[-1])


def resend(
    notices: Annotated[list[int], typer.Argument(metavar="NOTICE...", help="Numbers of messages.")],
    *,
    source: SourceOptions,
) -> None:
    """Send messages after all that were given up."""
    with source(store, server, token_file, ca) as alerts_of:
        for one in notices:
            sent = alerts_of.send_again(one)
            say(f"{sent['id']} {sent['state']} for {sent['channel']}: {sent['subject']}")


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
