"""Which tests run one after another in one process, and which of them begin first.

`pytest -n N` gives whole groups to its workers. A file is a group, so that what a module shares is started once;
folders that share something expensive, such as a Slurm cluster or a browser with its demo, are one group each.
"""

from __future__ import annotations

import os
import sys

import pytest
from xdist.scheduler import LoadScopeScheduling

SHARED = {
    # Its nodes are a cluster of their own.
    "tests/live/slurm/test_separate_nodes.py": "separate-nodes",
    "tests/live/slurm/": "slurm",
    "tests/live/slurm_node/test_on_slurm.py": "slurm",
    "tests/unit/engines/slurm/test_live.py": "slurm",
    "tests/live/examples/test_examples.py::test_an_example_for_a_cluster_runs_on_one": "slurm",
    "tests/live/browser/e2e/": "browser",
}
# Long tests that share nothing: each is a group.
ALONE = (
    "tests/live/docs/test_docs.py::test_commands_and_code_of_a_page_work",
    "tests/live/examples/",
    "tests/live/faults/test_faults.py::test_every_job",
    "tests/live/test_served.py",
)
# The longest begin first, so that none of them is left over at the end.
LONGEST = (
    "separate-nodes",
    "slurm",
    "browser",
    "tests/live/faults/",
    "tests/live/browser/",
    "tests/live/docs/",
    "tests/live/examples/",
    "tests/live/kubernetes/",
    "tests/live/test_served.py",
    "tests/live/serve/",
    "tests/live/",
)


class GroupScheduling(LoadScopeScheduling):
    """Gives whole groups to workers, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """The group of a test: that of its folder where it shares something expensive, itself, or else its file."""
    shared = next((group for start, group in SHARED.items() if nodeid.startswith(start)), None)
    return shared or (nodeid if nodeid.startswith(ALONE) else nodeid.partition("::")[0])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failure when it happens: the summary of all comes a quarter of an hour later."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stdout.write(f"\nFAILED {report.nodeid} ({report.when})\n")
        sys.stdout.flush()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling:
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(group_of(item.nodeid)))


def _rank(group: str) -> int:
    return next((place for place, name in enumerate(LONGEST) if group.startswith(name)), len(LONGEST))
