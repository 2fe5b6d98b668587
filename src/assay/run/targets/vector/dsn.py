"""The address of a PostgreSQL database, held to the same rules as every other endpoint."""

from __future__ import annotations

import os

from assay.errors import MeasureError
from assay.run.policy import UrlPolicy, check, resolved

# Parameters by which the driver reads or writes files of this machine.
_FILES = ("service", "servicefile", "passfile", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir",
          "sslkeylogfile")  # fmt: skip
_AT = "target.endpoint"


def checked_dsn(dsn: str) -> str:
    """An address of a database that may be connected to; as it is where anything may.

    On an agent every host is resolved and checked once, connections go to the checked addresses, and neither
    passwords nor files of the agent's own account are used.

    Raises:
        MeasureError: if it cannot be read, a host is not known or may not be connected to, or it names a file.
    """
    policy = UrlPolicy.from_environment()
    if policy.anything:
        return dsn
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        given = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value not in (None, "")}
    except ProgrammingError as problem:
        raise _refused(f"it cannot be read: {problem}") from None
    if named := next((name for name in _FILES if name in given), None):
        raise _refused(f"{named} names a file of the agent")
    port = given.get("port", "").partition(",")[0]
    hosts = (given.get("hostaddr") or given.get("host") or "").split(",")
    addresses = [_address(host, int(port) if port.isdigit() else 5432, policy) for host in hosts]
    pins = {"hostaddr": ",".join(addresses)} if all(addresses) else {}
    own = {"password": given.get("password", ""), "passfile": os.devnull}
    return make_conninfo("", **{**given, **pins, **own})


def _address(host: str, port: int, policy: UrlPolicy) -> str:
    """The checked address of a host; empty for a socket of this machine, which counts as loopback."""
    if not host or host.startswith(("/", "@")):
        check(policy, host or "a socket of this machine", ["127.0.0.1"], _AT)
        return ""
    try:
        addresses = resolved(host, port)
    except (OSError, UnicodeError) as problem:
        raise MeasureError(
            f"the host {host!r} is not known: {problem}",
            code="unresolved",
            at=_AT,
            try_="check the name, or give its address",
        ) from None
    check(policy, host, addresses, _AT)
    return addresses[0]


def _refused(why: str) -> MeasureError:
    return MeasureError(
        f"the address of the database is refused: {why}",
        code="endpoint",
        at=_AT,
        try_="write it like postgresql://user@host:5432/database",
    )
