"""Changes put together by what caused them: many series that one thing moved are one story."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from assay.report.digest.records import Difference, Group, Movement

# In this order they are told: first what somebody here did.
ORDER = ("code", "data or model", "environment", "machine", "method", "unknown", "noise")
# Changes further apart are two stories, whatever differs.
_APART_S = 36 * 3600.0
# A list longer than this tells nothing.
_MOST = 3
_HASH = 12
_NUMBERS = re.compile(r", (?:as it did|and at none)| \(")
_ANSWERS = {"worse": 0, "cannot tell": 1, "better": 2}


def grouped(movements: Iterable[Movement]) -> tuple[Group, ...]:
    """Group changes of one cause that came together: those that share a difference, or that have none to share.

    Groups with something that became worse come first, then the order of the causes, then the newest.
    """
    groups: list[list[Movement]] = []
    for one in sorted(movements, key=lambda one: one.at):
        home = next((group for group in groups if _belongs(one, group)), None)
        if home is None:
            groups.append([one])
        else:
            home.append(one)
    return tuple(sorted((_group(one) for one in groups), key=_rank))


def _belongs(one: Movement, group: Sequence[Movement]) -> bool:
    if group[0].cause != one.cause or one.at - group[-1].at > _APART_S:
        return False
    shared = _shared(group)
    if shared or one.differs:
        return bool(set(shared) & set(one.differs))
    return group[0].series.benchmark == one.series.benchmark


def _shared(group: Sequence[Movement]) -> tuple[Difference, ...]:
    return tuple(one for one in group[0].differs if all(one in other.differs for other in group))


def _group(movements: Sequence[Movement]) -> Group:
    ordered = tuple(sorted(movements, key=lambda one: (_ANSWERS[one.answer], -abs(one.change or 0.0))))
    # The same reason has other numbers in each series; once is enough.
    why: dict[str, str] = {}
    for sentence in (each for one in ordered for each in one.why):
        why.setdefault(_NUMBERS.split(sentence)[0], sentence)
    return Group(ordered[0].cause, title_of(_shared(movements)), ordered, tuple(why.values()))


def told_in_title(one: Movement, group: Group) -> bool:
    """Whether the title of its group says all that differs for a change."""
    shared = _shared(group.movements)
    return len(shared) <= _MOST and set(one.differs) <= set(shared)


def title_of(shared: Sequence[Difference]) -> str:
    """What differs, on one line."""
    told = [f"{one.name} {short(one.before)} → {short(one.after)}" for one in shared[:_MOST]]
    more = [f"{len(shared) - _MOST} more"] if len(shared) > _MOST else []
    return ", ".join([*told, *more]) or "nothing that is recorded differs for all of them"


def short(text: str) -> str:
    """A value on one line: the beginning of a hash is enough to know it by."""
    is_hash = len(text) >= 32 and all(letter in "0123456789abcdef" for letter in text.removeprefix("sha256:"))
    return text.removeprefix("sha256:")[:_HASH] if is_hash else text or "none"


def _rank(group: Group) -> tuple[bool, int, float]:
    worse = any(one.answer == "worse" and one.state == "open" for one in group.movements)
    place = ORDER.index(group.cause) if group.cause in ORDER else len(ORDER)
    return not worse, place, -max(one.at for one in group.movements)
