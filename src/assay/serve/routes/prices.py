"""Prices of machines, for figures per price where a result carries none itself."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from assay.serve.facts.records import PriceInput
from assay.serve.logs import tell
from assay.serve.web.access import User, readers, users
from assay.serve.web.parameters import State
from assay.serve.web.records import Listed
from assay.store.prices import PriceRecord, Prices

router = APIRouter(prefix="/api/v1/prices", tags=["prices"])

Machine = Annotated[str, Path(max_length=200, description="Name of a machine, or a pattern of names such as `gpu-*`.")]


@router.get("", dependencies=[readers])
def list_prices(state: State) -> Listed[PriceRecord]:
    """List the prices of machines by name."""
    return Listed(_prices(state).all())


@router.get("/{machine}", dependencies=[readers])
def get_price(machine: Machine, state: State) -> PriceRecord:
    """Read the price that was given for a name or pattern."""
    return _prices(state).get(machine)


@router.put("/{machine}", dependencies=[users])
def put_price(machine: Machine, given: PriceInput, state: State, by: User) -> PriceRecord:
    """Say what a machine costs, or all machines whose names follow a pattern."""
    kept = _prices(state).put(machine, given.per_hour, given.currency, given.date, by=by.name)
    tell("price set", machine=machine, per_hour=kept.per_hour, currency=kept.currency, by=by.name)
    return kept


@router.delete("/{machine}", dependencies=[users], status_code=204)
def remove_price(machine: Machine, state: State, by: User) -> None:
    """Forget a price."""
    _prices(state).remove(machine)
    tell("price removed", machine=machine, by=by.name)


def _prices(state: State) -> Prices:
    return Prices(state.kept.store.engine, state.clock)
