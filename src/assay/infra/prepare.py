"""Makes the database of a server ready: its tables brought up to date, and the tokens of a system made known.

Started as `python -m assay.infra.prepare` before each start of a server, on one machine as in containers. The database
is the one of ASSAY_SERVER_DATABASE_URL, else the SQLite file in ASSAY_SERVER_FOLDER; tokens come from the variables
ASSAY_INFRA_TOKEN_ADMIN, …_AGENT and …_READER. It waits for a database that is not there yet, and is safe to repeat.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping

from assay.clock import SYSTEM_CLOCK
from assay.errors import AssayError, StoreError
from assay.infra.record import ROLES, TOKEN_VARIABLE
from assay.store.database import current_revision, migrate_database, open_database
from assay.store.location import store_folder
from assay.store.store import DATABASE
from assay.store.tokens import TokenStore

_WITHIN_S = 120.0
_AGAIN_S = 1.0


def prepare(
    environ: Mapping[str, str],
    *,
    within_s: float = _WITHIN_S,
    pause: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> str:
    """Bring the tables up to date and make the tokens known; return what was done, in words."""
    location = environ.get("ASSAY_SERVER_DATABASE_URL") or store_folder(environ.get("ASSAY_SERVER_FOLDER")) / DATABASE
    if isinstance(location, str):
        _await(location, now() + within_s, pause, now)
    before, after = migrate_database(location)
    by_role = {role: environ[name] for role in ROLES if environ.get(name := TOKEN_VARIABLE + role.upper())}
    engine = open_database(location)
    try:
        tokens = TokenStore(engine, SYSTEM_CLOCK)
        for role, secret in by_role.items():
            tokens.adopt(secret.strip(), f"{role} of `assay infra`", role)
    finally:
        engine.dispose()
    moved = f"at {after} already" if before == after else f"from {before or 'nothing'} to {after}"
    return f"tables {moved}; tokens for {', '.join(by_role) or 'no role'}"


def _await(location: str, until: float, pause: Callable[[float], None], now: Callable[[], float]) -> None:
    """Wait for a database that starts beside this process."""
    while True:
        try:
            current_revision(location)
        except StoreError:
            if now() > until:
                raise
        else:
            return
        pause(_AGAIN_S)


def main() -> int:
    try:
        sys.stdout.write(f"{prepare(os.environ)}\n")
    except AssayError as problem:
        sys.stderr.write(f"{problem}\n")
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
