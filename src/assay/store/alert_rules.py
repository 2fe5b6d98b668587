"""The rules of alerts: those that were given by API, and those last seen in benchmark files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Engine, delete, select
from sqlalchemy.orm import Session

from assay.errors import UsageError
from assay.store.database import insert_into, reading, writing
from assay.store.watch_tables import AlertRuleRow


@dataclass(frozen=True, slots=True)
class KeptRule:
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
    """When somebody was last told by it."""


class AlertRules:
    """Keeping, reading and removing rules."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def list(self) -> tuple[KeptRule, ...]:
        with reading(self._engine) as session:
            return tuple(sorted(rules_in(session), key=lambda rule: rule.name))

    def get(self, name: str) -> KeptRule:
        """One rule.

        Raises:
            UsageError: `unknown-rule` if there is none.
        """
        with reading(self._engine) as session:
            row = session.scalars(select(AlertRuleRow).where(AlertRuleRow.name == name)).one_or_none()
            if row is None:
                raise unknown_rule(name)
            return _rule(row)

    def put(self, rule: KeptRule) -> tuple[KeptRule, bool]:
        """Keep a rule under its name, in place of what had that name; the second part says whether it is new.

        Raises:
            UsageError: `exists` if the name belongs to a rule of a benchmark file.
        """
        with writing(self._engine) as session:
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

    def remove(self, name: str) -> KeptRule:
        """Take a rule away.

        Raises:
            UsageError: `unknown-rule` if there is none, `conflict` if it stands in a benchmark file.
        """
        with writing(self._engine) as session:
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

    def set_file(self, benchmark: str, rules: Sequence[KeptRule], at: float) -> tuple[str, ...]:
        """Note the rules of a benchmark's file, in place of those it had; return the ids of those that are gone."""
        of_file = (AlertRuleRow.origin == "file", AlertRuleRow.benchmark == benchmark)
        wanted = {rule.id: rule for rule in rules}
        with reading(self._engine) as session:
            known = {row.id: _rule(row) for row in session.scalars(select(AlertRuleRow).where(*of_file))}
        if not _differ(known, wanted) or any(rule.changed_at > at for rule in known.values()):
            return ()
        with writing(self._engine) as session:
            rows = session.scalars(select(AlertRuleRow).where(*of_file).order_by(AlertRuleRow.id).with_for_update())
            there = {row.id: row for row in rows}
            gone = sorted(there.keys() - wanted.keys())
            session.execute(delete(AlertRuleRow).where(AlertRuleRow.id.in_(gone)))
            for one, rule in sorted(wanted.items()):
                if one in there:
                    _overwrite(there[one], rule)
                else:
                    _insert(session, rule)
            return tuple(gone)


def rules_in(session: Session, *, hold: bool = False) -> tuple[KeptRule, ...]:
    """Every rule, as part of a transaction.

    Args:
        hold: nobody else may tell people by any of them until it ends.
    """
    query = select(AlertRuleRow).order_by(AlertRuleRow.id)  # always in the same order: nobody waits in a circle
    return tuple(map(_rule, session.scalars(query.with_for_update() if hold else query)))


def note_told(session: Session, rules: Iterable[str], now: float) -> None:
    """Note that somebody is told by some rules, as part of a transaction."""
    for row in session.scalars(select(AlertRuleRow).where(AlertRuleRow.id.in_(tuple(rules)))):
        row.document = {**row.document, "told_at": now}


def unknown_rule(name: str) -> UsageError:
    return UsageError(f"no alert rule {name!r}", code="unknown-rule", try_="`assay alerts rules` shows what is there")


def _named(name: str) -> Any:  # noqa: ANN401  (SQLAlchemy's own kind)
    return select(AlertRuleRow).where(AlertRuleRow.name == name).with_for_update()


def _insert(session: Session, rule: KeptRule) -> bool:
    """Keep a rule unless one has its id or name; whether it was kept."""
    document = {"rule": dict(rule.rule), "told_at": rule.told_at}
    added = session.execute(
        insert_into(session, AlertRuleRow)
        .values(
            id=rule.id,
            name=rule.name,
            origin=rule.origin,
            benchmark=rule.benchmark,
            document=document,
            created_at=rule.created_at,
            changed_at=rule.changed_at,
            by=rule.by,
        )
        .on_conflict_do_nothing()
        .returning(AlertRuleRow.id)
    )
    return added.scalar_one_or_none() is not None


def _overwrite(row: AlertRuleRow, rule: KeptRule) -> None:
    """Let a row say what a rule says; when it was made and when it told somebody stays."""
    row.name, row.benchmark, row.changed_at, row.by = rule.name, rule.benchmark, rule.changed_at, rule.by
    row.document = {**row.document, "rule": dict(rule.rule)}


def _differ(known: Mapping[str, KeptRule], wanted: Mapping[str, KeptRule]) -> bool:
    said = {one: dict(rule.rule) for one, rule in known.items()}
    return said != {one: dict(rule.rule) for one, rule in wanted.items()}


def _rule(row: AlertRuleRow) -> KeptRule:
    said = row.document
    return KeptRule(
        row.id,
        row.name,
        row.origin,
        row.benchmark,
        said["rule"],
        row.created_at,
        row.changed_at,
        row.by,
        said.get("told_at"),
    )
