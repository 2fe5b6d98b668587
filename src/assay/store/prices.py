"""What machines cost, as set on the server: by name, or by a pattern of names."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date as Date  # noqa: N812  (a field is called date)
from fnmatch import fnmatchcase

from sqlalchemy import select

from assay.errors import UsageError
from assay.store.database import TableAccess, insert_into, record_from
from assay.store.tables import PriceRow

_LONGEST_NAME = 200
_LONGEST_CURRENCY = 8
_MOST = 1000


@dataclass(frozen=True, slots=True)
class PriceRecord:
    """What a machine costs an hour."""

    machine: str
    """Name of a machine or of an agent, or a pattern of names: `gpu-*`."""
    per_hour: float
    currency: str
    date: str
    """When the price was looked up."""
    by: str
    """Who set it."""
    changed_at: float


class Prices(TableAccess):
    def all(self) -> tuple[PriceRecord, ...]:
        rows = self._scalars(select(PriceRow).order_by(PriceRow.machine).limit(_MOST))
        return tuple(record_from(PriceRecord, row) for row in rows)

    def get(self, machine: str) -> PriceRecord:
        row = self._scalar(select(PriceRow).where(PriceRow.machine == machine))
        if row is None:
            raise _unknown(machine)
        return record_from(PriceRecord, row)

    def put(self, machine: str, per_hour: float, currency: str, date: str, *, by: str) -> PriceRecord:
        """Keep a price in place of the one before.

        Args:
            date: the day on which it was looked up, as `2026-03-01`; today when empty.
        """
        _check(machine, per_hour, currency)
        now = self._clock.utc()
        values = {
            "per_hour": float(per_hour),
            "currency": currency.upper(),
            "date": _day(date) or f"{now:%Y-%m-%d}",
            "by": by[:_LONGEST_NAME],
            "changed_at": now.timestamp(),
        }
        with self._writing() as session:
            added = insert_into(session, PriceRow).values(machine=machine, **values)
            session.execute(added.on_conflict_do_update(index_elements=["machine"], set_=values))
            return record_from(PriceRecord, session.get_one(PriceRow, machine, populate_existing=True))

    def remove(self, machine: str) -> None:
        with self._writing() as session:
            row = session.get(PriceRow, machine)
            if row is None:
                raise _unknown(machine)
            session.delete(row)


def price_for(prices: Iterable[PriceRecord], names: Iterable[str]) -> PriceRecord | None:
    """The price of a machine: that of its own name, else of the longest pattern that fits; None where there is none."""
    own_names = [name for name in names if name]
    fitting = [
        price
        for price in prices
        if any(name == price.machine or fnmatchcase(name, price.machine) for name in own_names)
    ]
    return max(fitting, key=lambda price: (price.machine in own_names, len(price.machine)), default=None)


def _check(machine: str, per_hour: float, currency: str) -> None:
    if not machine.strip() or len(machine) > _LONGEST_NAME or not machine.isprintable():
        raise UsageError(f"the name of a machine has 1 to {_LONGEST_NAME} characters", code="value")
    if not math.isfinite(per_hour) or per_hour <= 0:
        raise UsageError(
            f"a price is a number above zero, not {per_hour!r}",
            code="value",
            try_="remove the price of a machine that costs nothing",
        )
    if not 1 <= len(currency) <= _LONGEST_CURRENCY or not currency.isalpha() or not currency.isascii():
        raise UsageError("a currency is a short word of letters, such as USD or EUR", code="value")


def _day(text: str) -> str:
    if not text:
        return ""
    try:
        return Date.fromisoformat(text).isoformat()
    except ValueError:
        raise UsageError("a date is written as 2026-03-01", code="value") from None


def _unknown(machine: str) -> UsageError:
    return UsageError(
        f"no price is known for {machine!r}", code="unknown-price", try_="`GET /api/v1/prices` lists what is there"
    )
