"""Which tests run one after another in one process, and which of them begin first.

`pytest -n N` gives whole groups to its workers. A file is a group, so that what a module shares is started once;
folders that share something expensive, such as a Slurm cluster or a browser with its demo, are one group each.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

SHARED = {
    "tests/live/slurm/": "slurm",
    "tests/live/slurm_node/test_on_slurm.py": "slurm",
    "tests/live/browser/": "browser",
}
# The longest begin first, so that none of them is left over at the end.
LONGEST = (
    "slurm",
    "browser",
    "tests/live/docs/",
    "tests/live/kubernetes/",
    "tests/live/faults/",
    "tests/live/test_served.py",
    "tests/live/serve/",
)


class GroupScheduling(LoadScopeScheduling):
    """Gives whole groups to workers, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """The group of a test: that of its folder where it shares something expensive, else its file."""
    file = nodeid.partition("::")[0]
    return next((group for folder, group in SHARED.items() if file.startswith(folder)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling:
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(group_of(item.nodeid)))


def _rank(group: str) -> int:
    return next((place for place, name in enumerate(LONGEST) if group.startswith(name)), len(LONGEST))
