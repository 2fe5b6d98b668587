"""Alerts and their rules in the store. What they mean is decided by `alert`; here one decision is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, delete, or_, select
from sqlalchemy.orm import Session

from assay.errors import UsageError
from assay.store.database import TableAccess, insert_into, record_from
from assay.store.listing import Page, read_page
from assay.store.notices import NewNotice, put_in
from assay.store.tables import AlertRow, AlertRuleRow

# So much of an id names an alert, if no other begins with it.
_SHORTEST_REFERENCE = 4
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A rule as it is kept."""

    id: str
    name: str
    origin: str
    """`api`, or `file` for one that stands in a benchmark file."""
    benchmark: str
    """Name of a benchmark, or a pattern."""
    rule: Mapping[str, Any]
    """As in the section alerts of a benchmark file."""
    created_at: float
    changed_at: float
    by: str = ""
    told_at: float | None = None
    """When it last notified."""


class AlertRules(TableAccess):
    def list(self) -> tuple[StoredRule, ...]:
        with self._reading() as session:
            return tuple(sorted(rules_in(session), key=lambda rule: rule.name))

    def get(self, name: str) -> StoredRule:
        row = self._scalar(select(AlertRuleRow).where(AlertRuleRow.name == name))
        if row is None:
            raise unknown_rule(name)
        return _rule(row)

    def put(self, rule: StoredRule) -> tuple[StoredRule, bool]:
        """Keep a rule under its name, in place of what had that name; the second part says whether it is new."""
        with self._writing() as session:
            fresh = _insert(session, rule)
            row = session.scalars(_named(rule.name)).one()
            if row.origin != rule.origin:
                raise UsageError(
                    f"the name {rule.name!r} belongs to a rule of the benchmark {row.benchmark!r}",
                    code="exists",
                    try_="choose another name",
                )
            if not fresh:
                _overwrite(row, replace(rule, id=row.id))
            session.flush()
            return _rule(row), fresh

    def remove(self, name: str) -> StoredRule:
        with self._writing() as session:
            row = session.scalars(_named(name)).one_or_none()
            if row is None:
                raise unknown_rule(name)
            if row.origin == "file":
                raise UsageError(
                    f"{name!r} stands in the file of the benchmark {row.benchmark!r}",
                    code="conflict",
                    try_="remove it there; it is gone with the next campaign of that file",
                )
            session.delete(row)
            return _rule(row)

    def set_file(self, benchmark: str, rules: Sequence[StoredRule], at: float) -> tuple[str, ...]:
        """Note the rules of a benchmark's file, in place of those it had; return the ids of those that are gone."""
        of_file = (AlertRuleRow.origin == "file", AlertRuleRow.benchmark == benchmark)
        wanted = {rule.id: rule for rule in rules}
        stored = {row.id: _rule(row) for row in self._scalars(select(AlertRuleRow).where(*of_file))}
        if _said_by(stored) == _said_by(wanted) or any(rule.changed_at > at for rule in stored.values()):
            return ()
        with self._writing() as session:
            rows = session.scalars(select(AlertRuleRow).where(*of_file).order_by(AlertRuleRow.id).with_for_update())
            there = {row.id: row for row in rows}
            gone = sorted(there.keys() - wanted.keys())
            session.execute(delete(AlertRuleRow).where(AlertRuleRow.id.in_(gone)))
            for rule_id, rule in sorted(wanted.items()):
                if rule_id in there:
                    _overwrite(there[rule_id], rule)
                else:
                    _insert(session, rule)
            return tuple(gone)


def rules_in(session: Session, *, hold: bool = False) -> tuple[StoredRule, ...]:
    """Every rule, as part of a transaction.

    Args:
        hold: lock them until the transaction ends, so that no other server notifies by them.
    """
    query = select(AlertRuleRow).order_by(AlertRuleRow.id)  # always in the same order, against deadlocks
    return tuple(map(_rule, session.scalars(query.with_for_update() if hold else query)))


def note_notified(session: Session, rules: Iterable[str], now: float) -> None:
    """Note that some rules notify now, as part of a transaction."""
    for row in session.scalars(select(AlertRuleRow).where(AlertRuleRow.id.in_(tuple(rules)))):
        row.document = {**row.document, "told_at": now}


def unknown_rule(name: str) -> UsageError:
    return UsageError(f"no alert rule {name!r}", code="unknown-rule", try_="`assay alerts rules` shows what is there")


def _named(name: str) -> Any:  # noqa: ANN401  (SQLAlchemy's own kind)
    return select(AlertRuleRow).where(AlertRuleRow.name == name).with_for_update()


def _insert(session: Session, rule: StoredRule) -> bool:
    """Keep a rule unless one has its id or name; whether it was kept."""
    values = asdict(rule)
    values["document"] = {name: values.pop(name) for name in ("rule", "told_at")}
    added = insert_into(session, AlertRuleRow).values(**values).on_conflict_do_nothing().returning(AlertRuleRow.id)
    return session.scalar(added) is not None


def _overwrite(row: AlertRuleRow, rule: StoredRule) -> None:
    """Write a rule into its row; `created_at` and `told_at` stay."""
    row.name, row.benchmark, row.changed_at, row.by = rule.name, rule.benchmark, rule.changed_at, rule.by
    row.document = {**row.document, "rule": dict(rule.rule)}


def _said_by(rules: Mapping[str, StoredRule]) -> dict[str, dict[str, Any]]:
    return {rule_id: dict(rule.rule) for rule_id, rule in rules.items()}


def _rule(row: AlertRuleRow) -> StoredRule:
    return record_from(StoredRule, row, rule=row.document["rule"], told_at=row.document.get("told_at"))


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """An alert as it is kept."""

    id: str
    key: str
    state: str
    severity: str
    benchmark: str
    opened_at: float
    changed_at: float
    snoozed_until: float | None
    by: str
    document: str
    history: str


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """Which alerts to list; what is empty does not count."""

    states: tuple[str, ...] = ()
    severity: str = ""
    benchmark: str = ""
    text: str = ""
    """Part of what it says, or the beginning of its id."""
    since: float | None = None
    """Changed at that time or later."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What a decision is made from, while no other server can decide about the same."""

    alert: StoredAlert | None
    rules: Mapping[str, StoredRule] = field(default_factory=dict)
    """Id → rule, for every rule there is."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be kept of an alert, and the notices to queue."""

    alert: StoredAlert
    notices: tuple[NewNotice, ...] = ()
    told_by: tuple[str, ...] = ()
    """Rules that notify now."""
    instead_of: str = ""
    """Id of an alert that is over and had the same key: it gives its key away."""


Decide = Callable[[DecisionContext], Decision | None]


class _TakenError(Exception):
    """Another server opened an alert with the same key in between."""


class Alerts(TableAccess):
    # Reading

    def page(
        self, which: AlertFilter | None = None, *, cursor: str | None = None, limit: int = 50
    ) -> Page[StoredAlert]:
        """Alerts, the newest first."""
        query, order = select(AlertRow).where(*_conditions(which or AlertFilter())), (AlertRow.opened_at, AlertRow.id)
        with self._reading() as session:
            return read_page(session, query, order, cursor, limit, newest_first=True).map(_alert)

    def get(self, reference: str) -> StoredAlert:
        with self._reading() as session:
            return _alert(_find(session, reference))

    def in_states(self, states: Iterable[str], containing: str = "") -> tuple[StoredAlert, ...]:
        """Alerts in some states, the oldest first; only those whose document holds a text, if one is given."""
        query = select(AlertRow).where(AlertRow.state.in_(tuple(states)))
        if containing:
            query = query.where(AlertRow.document.contains(containing, autoescape=True))
        return tuple(map(_alert, self._scalars(query.order_by(AlertRow.opened_at, AlertRow.id))))

    def pending(self) -> tuple[str, ...]:
        """Ids of the alerts with pending notices."""
        query = select(AlertRow.id).where(AlertRow.document.contains('"owed":true'))
        return tuple(self._scalars(query.order_by(AlertRow.opened_at, AlertRow.id)))

    def changed_since(self, at: float) -> tuple[StoredAlert, ...]:
        """Alerts that changed at a moment or later, in the order in which they did."""
        query = select(AlertRow).where(AlertRow.changed_at >= at).order_by(AlertRow.changed_at, AlertRow.id)
        return tuple(map(_alert, self._scalars(query)))

    def overslept(self, now: float) -> tuple[str, ...]:
        """Ids of the alerts that were snoozed until now."""
        query = select(AlertRow.id).where(AlertRow.state == "snoozed", AlertRow.snoozed_until <= now)
        return tuple(self._scalars(query.order_by(AlertRow.id)))

    # Deciding

    def decide(self, key: str, decide: Decide, now: float) -> StoredAlert | None:
        """Have something decided about what has a key; concurrent callers take turns.

        Returns:
            What was kept; None when nothing changed.
        """
        while True:
            try:
                return self._decide(AlertRow.key == key, decide, now)
            except _TakenError:  # decide again, about the one that is there now
                continue

    def change(self, alert_id: str, decide: Decide, now: float) -> StoredAlert | None:
        """The same for one alert that is there, by its id."""

        def known(context: DecisionContext) -> Decision | None:
            if context.alert is None:
                raise unknown_alert(alert_id)
            return decide(context)

        return self._decide(AlertRow.id == alert_id, known, now)

    def _decide(self, which: ColumnElement[bool], decide: Decide, now: float) -> StoredAlert | None:
        with self._reading() as session:  # most of the time there is nothing to change, so no lock is taken
            if decide(_known(session, which)) is None:
                return None
        with self._writing() as session:
            request = decide(_known(session, which, hold=True))
            if request is None:
                return None
            _keep(session, request)
            put_in(session, request.notices, now)
            note_notified(session, request.told_by, now)
            return request.alert


def _known(session: Session, which: ColumnElement[bool], *, hold: bool = False) -> DecisionContext:
    # The rules first, by everybody: who waits for an alert while another waits for the rules would wait in a circle.
    rules = {rule.id: rule for rule in rules_in(session, hold=hold)}
    query = select(AlertRow).where(which)
    row = session.scalars(query.with_for_update() if hold else query).one_or_none()
    return DecisionContext(None if row is None else _alert(row), rules)


def unknown_alert(reference: str) -> UsageError:
    return UsageError(
        f"no alert {reference!r} in the store",
        code="unknown-alert",
        try_="`assay alerts list --all` shows what is there",
    )


def _find(session: Session, reference: str) -> AlertRow:
    row = session.get(AlertRow, reference)
    if row is not None:
        return row
    if len(reference) < _SHORTEST_REFERENCE or not set(reference) <= _HEX:
        raise unknown_alert(reference)
    rows = session.scalars(select(AlertRow).where(AlertRow.id.startswith(reference)).limit(2)).all()
    if len(rows) > 1:
        raise UsageError(f"several alerts begin with {reference!r}", code="ambiguous", try_="give more of the id")
    if not rows:
        raise unknown_alert(reference)
    return rows[0]


def _conditions(wanted: AlertFilter) -> list[ColumnElement[bool]]:
    equal = ((AlertRow.severity, wanted.severity), (AlertRow.benchmark, wanted.benchmark))
    conditions: list[ColumnElement[bool]] = [column == value for column, value in equal if value]
    conditions += [AlertRow.state.in_(wanted.states)] if wanted.states else []
    conditions += [AlertRow.changed_at >= wanted.since] if wanted.since is not None else []
    if wanted.text:
        parts = [text.icontains(wanted.text, autoescape=True) for text in (AlertRow.document, AlertRow.benchmark)]
        conditions.append(or_(*parts, AlertRow.id.startswith(wanted.text, autoescape=True)))
    return conditions


def _keep(session: Session, request: Decision) -> None:
    """Write an alert, new or changed."""
    columns = asdict(request.alert)
    row = session.get(AlertRow, request.alert.id)
    if row is not None:
        for name, value in columns.items():
            setattr(row, name, value)
        session.flush()
        return
    if request.instead_of:
        over = session.get_one(AlertRow, request.instead_of)
        over.key = f"{over.key[:40]}.{over.id}"
        session.flush()
    added = insert_into(session, AlertRow).values(**columns).on_conflict_do_nothing().returning(AlertRow.id)
    if session.scalar(added) is None:
        raise _TakenError


def _alert(row: AlertRow) -> StoredAlert:
    return record_from(StoredAlert, row)
