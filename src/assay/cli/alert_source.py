"""Where the command line asks for alerts: a server, or a store on this machine; both answer in the same shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import quote

from assay.cli.options import open_store

if TYPE_CHECKING:
    from assay.alert.records import Trigger
    from assay.place.fleet.client import FleetClient
    from assay.store.notices import NoticeState
    from assay.store.store import Store

Shown = dict[str, Any]
_PAGE = 500


class Source(Protocol):
    """What can be asked and said about alerts."""

    def alerts(self, asked: Mapping[str, str], limit: int) -> list[Shown]:
        """Alerts, the newest first."""
        ...

    def get(self, alert: str) -> Shown:
        """One alert."""
        ...

    def act(self, alert: str, happening: Trigger, word: Mapping[str, Any]) -> Shown:
        """Say something about an alert; as it is then."""
        ...

    def rules(self) -> list[Shown]:
        """Every rule, by name."""
        ...

    def set_rule(self, name: str, benchmark: str, rule: Mapping[str, Any]) -> Shown:
        """Keep a rule."""
        ...

    def remove_rule(self, name: str) -> None:
        """Take a rule away."""
        ...

    def notices(self, alert: str, state: str, limit: int) -> list[Shown]:
        """The newest messages about alerts."""
        ...

    def send_again(self, notice: int) -> Shown:
        """Have a message sent that was given up."""
        ...


@contextmanager
def source(store: Path | None, server: str | None, token_file: Path | None, ca: Path | None) -> Iterator[Source]:
    """The server that is named, or else the store here."""
    if server:
        yield _There(server.connect())
        return
    kept = open_store(store)
    try:
        yield _Here(kept)
    finally:
        kept.close()


class _There:
    """The alerts of a server."""

    def __init__(self, client: FleetClient) -> None:
        self._client = client

    def alerts(self, asked: Mapping[str, str], limit: int) -> list[Shown]:
        return list(islice(self._client.pages("/alerts", {**asked, "limit": min(limit, _PAGE)}), limit))

    def get(self, alert: str) -> Shown:
        return _shown(self._client.get(_alert(alert)))

    def act(self, alert: str, happening: Trigger, word: Mapping[str, Any]) -> Shown:
        return _shown(self._client.post(f"{_alert(alert)}/{happening}", dict(word)))

    def rules(self) -> list[Shown]:
        return list(self._client.pages("/alert-rules"))

    def set_rule(self, name: str, benchmark: str, rule: Mapping[str, Any]) -> Shown:
        return _shown(self._client.put(_rule(name), {"benchmark": benchmark, "rule": dict(rule)}))

    def remove_rule(self, name: str) -> None:
        self._client.delete(_rule(name))

    def notices(self, alert: str, state: str, limit: int) -> list[Shown]:
        return list(self._client.pages("/notices", {"alert": alert, "state": state, "limit": limit}))

    def send_again(self, notice: int) -> Shown:
        return _shown(self._client.post(f"/notices/{notice}/again", {}))


class _Here:
    """The alerts of a store on this machine."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def alerts(self, asked: Mapping[str, str], limit: int) -> list[Shown]:
        return list(islice(self._all(asked, min(limit, _PAGE)), limit))

    def get(self, alert: str) -> Shown:
        from assay.alert.service import read

        return _plain(read(self._store, alert))

    def act(self, alert: str, happening: Trigger, word: Mapping[str, Any]) -> Shown:
        from assay.alert.evaluate import act
        from assay.alert.service import shown
        from assay.clock import SYSTEM_CLOCK

        until = SYSTEM_CLOCK.utc().timestamp() + word["for_s"] if "for_s" in word else None
        changed = act(self._store, alert, happening, by=_me(), why=word["why"], clock=SYSTEM_CLOCK, until=until)
        return _plain(shown(changed))

    def rules(self) -> list[Shown]:
        from assay.alert.service import rules

        return [_plain(one) for one in rules(self._store)]

    def set_rule(self, name: str, benchmark: str, rule: Mapping[str, Any]) -> Shown:
        from assay.alert.service import set_rule
        from assay.clock import SYSTEM_CLOCK

        return _plain(set_rule(self._store, name, benchmark, dict(rule), by=_me(), clock=SYSTEM_CLOCK)[0])

    def remove_rule(self, name: str) -> None:
        from assay.alert.service import remove_rule
        from assay.clock import SYSTEM_CLOCK

        remove_rule(self._store, name, SYSTEM_CLOCK)

    def notices(self, alert: str, state: str, limit: int) -> list[Shown]:
        from assay.alert.service import notices
        from assay.clock import SYSTEM_CLOCK

        only = cast("NoticeState | None", state or None)
        return [_plain(one) for one in notices(self._store, SYSTEM_CLOCK, alert=alert, only=only, limit=limit)]

    def send_again(self, notice: int) -> Shown:
        from assay.alert.service import send_again
        from assay.clock import SYSTEM_CLOCK

        return _plain(send_again(self._store, SYSTEM_CLOCK, notice))

    def _all(self, asked: Mapping[str, str], limit: int) -> Iterator[Shown]:
        from assay.alert.service import listed
        from assay.store.alerts import AlertFilter

        states = (asked["state"],) if asked["state"] else ()
        which = AlertFilter(states, asked["severity"], asked["benchmark"], asked["text"])
        cursor: str | None = None
        while True:
            page = listed(self._store, which, cursor, limit)
            yield from map(_plain, page.items)
            cursor = page.next
            if cursor is None:
                return


def _alert(alert: str) -> str:
    return f"/alerts/{quote(alert, safe='')}"


def _rule(name: str) -> str:
    return f"/alert-rules/{quote(name, safe='')}"


def _shown(answer: Shown) -> Shown:
    return answer


def _plain(record: object) -> Shown:
    """A record in the shape of the API."""
    from assay.documents import to_plain

    return _shown(to_plain(record))


def _me() -> str:
    """Whoever sits here."""
    from getpass import getuser

    try:
        return getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        return "local"
