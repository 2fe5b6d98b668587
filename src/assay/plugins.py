"""What installed packages register by entry point: ours are found without reading the metadata of all others."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PACKAGE = "assay-bench"


def find_plugin(name: str, *groups: str) -> EntryPoint | None:
    """The entry point of a name in one of the groups; ours where another package registers the same name."""
    own = _own()
    if (ours := next((own[group, name] for group in groups if (group, name) in own), None)) is not None:
        return ours
    from importlib.metadata import entry_points

    return next((entry for group in groups for entry in entry_points(group=group, name=name)), None)


def plugin_names(*groups: str) -> list[str]:
    """Every name that is registered in one of the groups."""
    from importlib.metadata import entry_points

    return sorted({entry.name for group in groups for entry in entry_points(group=group)})


@cache
def _own() -> dict[tuple[str, str], EntryPoint]:
    # Here, as reading metadata takes longer to load than most processes need.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return {(entry.group, entry.name): entry for entry in distribution(PACKAGE).entry_points}
    except PackageNotFoundError:
        return {}
