"""Which tests run one after another in one process, and which processes' work begins first.

`pytest -n N --dist loadgroup` gives whole groups to its workers. A file is a group, so that what a module shares is
started once; tests that share something expensive, such as Slurm, are one group however many files they are in.
"""

from __future__ import annotations

import pytest

# Fixtures that cost seconds or minutes to start, and the group of the tests that use them.
SHARED = {"slurm_cluster": "slurm", "browser": "browser", "demo": "browser"}
# The longest begin first, so that none of them is left over at the end.
LONGEST = ("slurm", "browser", "tests/docs/", "tests/pods/", "tests/faults/", "tests/test_served.py", "tests/serve/")


def group_of(item: pytest.Item) -> str:
    """The group of a test: that of the most expensive thing it uses, else its file."""
    used = getattr(item, "fixturenames", ())
    return next((group for fixture, group in SHARED.items() if fixture in used), item.nodeid.partition("::")[0])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.has_plugin("xdist"):
        return
    groups = {item: group_of(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: _rank(groups[item]))


def _rank(group: str) -> int:
    return next((place for place, name in enumerate(LONGEST) if group.startswith(name)), len(LONGEST))
