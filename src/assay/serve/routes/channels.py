"""Channels: the ways to tell people, as the server's file names them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request

from assay.serve.facts.channels import channels_of, tried
from assay.serve.facts.records import Channel, ChannelTest
from assay.serve.live.notifying import Notifying
from assay.serve.logs import tell
from assay.serve.web.access import Admin, admins, readers
from assay.serve.web.parameters import State
from assay.serve.web.records import Listed

router = APIRouter(prefix="/api/v1/channels", tags=["alerts"])

ChannelName = Annotated[str, Path(max_length=64, description="Name of the channel.")]


@router.get("", dependencies=[readers])
def list_channels(state: State, request: Request) -> Listed[Channel]:
    """List the channels of this server, with what became of their newest messages."""
    return Listed(channels_of(state, _notifying(request).channels))


@router.post("/{name}/test", dependencies=[admins])
def test_channel(name: ChannelName, state: State, request: Request, by: Admin) -> ChannelTest:
    """Send a test message to a channel, at once, and say whether it was taken."""
    answer = tried(state, _notifying(request).channels, name)
    tell("channel tried", channel=name, sent=answer.sent, by=by.name)
    return answer


def _notifying(request: Request) -> Notifying:
    found: Notifying = request.app.state.notifying
    return found
