"""How a campaign stands on Kubernetes, in words: what waits for what, what runs where, which services answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from assay.engines.kubernetes.observation import Observation
from assay.engines.kubernetes.phases import waiting_words
from assay.report.live import View

# Jobs whose progress is told beside how the campaign stands.
_SHOWN = 4
# Which node, and how many of them are full, changes all the time.
_REASON = re.compile(r" \(| on ")


class Shown:
    """Tells a view what changed since the last look."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._told: set[str] = set()
        self._key: object = None

    def once(self, key: str, text: str) -> None:
        """Tell something that a person should know, one time."""
        if key not in self._told:
            self._told.add(key)
            self._view.note(text)

    def forget(self, key: str) -> None:
        """Let something be told again when it happens again."""
        self._told.discard(key)

    def look(
        self,
        waiting: Sequence[Observation],
        running: Sequence[Observation],
        progress: Sequence[str],
        done: int,
        total: int,
        now: datetime,
    ) -> None:
        line = _line(waiting, running, done, total, now)
        self._view.phase(" · ".join([line, *([", ".join(progress[:_SHOWN])] if progress else [])]))
        # The reasons and whether anything runs: counts alone change with every job, and those have lines of their own.
        reasons = frozenset(_REASON.split(waiting_words(one))[0] for one in waiting[:_SHOWN])
        key = (reasons, bool(running))
        if key != self._key and (waiting or running):
            self._key = key
            self._view.note(line)

    def service(self, name: str, found: Observation) -> None:
        """Tell when a service has become ready."""
        pod = next((one for one in found.pods if one.ready), None)
        if pod is not None:
            self.once(
                f"service {found.name}", f"the service {name} is ready on {pod.node or 'its node'} (pod {pod.name})"
            )


def _line(waiting: Sequence[Observation], running: Sequence[Observation], done: int, total: int, now: datetime) -> str:
    parts = []
    if running:
        nodes = sorted({pod.node for one in running for pod in one.pods if pod.node})
        where = f" on {', '.join(nodes[:4])}{' …' if len(nodes) > 4 else ''}" if nodes else ""
        parts.append(f"{len(running)} running{where}")
    if waiting:
        parts.append(f"{len(waiting)} {waiting_words(waiting[0], now)}")
    return " · ".join([*parts, f"{done} of {total} done"])
