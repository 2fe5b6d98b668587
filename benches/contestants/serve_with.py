"""`assay serve` with another way to commit: `python serve_with.py unsynced|full|shared serve …`.

`unsynced` is what servers did before: commits go to the log, and only a checkpoint syncs it. `full` lets SQLite sync
each commit. `shared` is assay as it is.
"""

import sys

from sqlalchemy import event

from assay.serve.state import ServerState
from assay.store import database


async def _nothing(_state):
    """Answer without waiting for the disk."""


def _full(connection, _record):
    connection.execute("PRAGMA synchronous = FULL")


def main():
    """Change what the mode says, and serve."""
    mode = sys.argv.pop(1)
    if mode != "shared":
        ServerState.durable = _nothing
    if mode == "full":
        plain = database._sqlite

        def durable(path):
            engine = plain(path)
            event.listen(engine, "connect", _full)
            return engine

        database._sqlite = durable
    from assay.cli.main import main as assay

    assay()


if __name__ == "__main__":
    main()
