"""What is in the cluster now, by list and watch: cut off, it goes on where it was; too late, it lists anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from assay.engines.kubernetes.client.api import (
    Api,
    Change,
    Document,
    Expired,
    Kind,
    Listed,
    name_of,
    uid_of,
    version_of,
)


@dataclass(slots=True)
class Mirror:
    """The objects of one kind that carry some labels, as the server has last told of them.

    It is used by one thread; every change is kept before it is told, so that a break loses nothing.
    """

    api: Api
    kind: Kind
    selector: str = ""
    fields: str = ""
    tell: Callable[[Change], None] | None = None
    """Is told every change, and what a new list shows to have changed meanwhile."""
    _items: dict[str, Document] = field(default_factory=dict)
    _since: str = ""

    @property
    def items(self) -> tuple[Document, ...]:
        """The objects, by name."""
        return tuple(self._items[name] for name in sorted(self._items))

    @property
    def since(self) -> str:
        """How far it is; empty before the first list."""
        return self._since

    def get(self, name: str) -> Document | None:
        return self._items.get(name)

    def refresh(self) -> None:
        """List everything now.

        Raises:
            MeasureError: if the server does not answer; what is known stays.
        """
        self._take(self.api.list(self.kind, self.selector, fields=self.fields))

    def look(self, within_s: float) -> int:
        """Wait for changes and keep them, at most for a time; return how many there were.

        Args:
            within_s: how long to watch; it may end earlier, where the server ends it.

        Raises:
            MeasureError: if the server does not answer; what is known stays, and the next look goes on from there.
        """
        if not self._since:
            before = dict(self._items)
            self.refresh()
            return sum(1 for _ in differences(before, self._items))
        count = 0
        try:
            for change in self.api.watch(
                self.kind, self.selector, fields=self.fields, since=self._since, within_s=within_s
            ):
                count += self._keep(change)
        except Expired:
            before = dict(self._items)
            self._since = ""
            self.refresh()
            count += sum(1 for _ in differences(before, self._items))
        return count

    def _keep(self, change: Change) -> bool:
        self._since = change.version or self._since
        if change.what == "BOOKMARK":
            return False
        name = name_of(change.item)
        if change.what == "DELETED":
            self._items.pop(name, None)
        else:
            self._items[name] = change.item
        if self.tell is not None:
            self.tell(change)
        return True

    def _take(self, listed: Listed) -> None:
        before, self._items = self._items, {name_of(one): one for one in listed.items}
        self._since = listed.version
        if self.tell is not None:
            for change in differences(before, self._items):
                self.tell(change)


def differences(before: dict[str, Document], after: dict[str, Document]) -> Iterator[Change]:
    """What must have happened between two moments; what came and went in between is not known."""
    for name, old in before.items():
        if name not in after or uid_of(after[name]) != uid_of(old):
            yield Change("DELETED", old)
    for name, new in after.items():
        known = before.get(name)
        if known is None or uid_of(known) != uid_of(new):
            yield Change("ADDED", new)
        elif version_of(known) != version_of(new):
            yield Change("MODIFIED", new)
