"""What must be there before parts start: programs and ports, a data folder for PostgreSQL, files of settings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from assay.errors import MeasureError, UsageError
from assay.files import write_whole
from assay.infra.processes.parts import DATABASE, HERE, STORES, USER, LocalRecord, own_words
from assay.infra.processes.programs import can_fetch, fetch, find_programs, initdb_of, missing
from assay.infra.record import Keys, is_root
from assay.run.services.plan import free_port, refuse_taken

# Root brings parts up under the account that their packages make, else under the one that owns nothing.
_ACCOUNTS = {"postgresql": ("postgres", "nobody"), "redis": ("redis", "nobody"), "prometheus": ("prometheus", "nobody")}
_DATA = "data"
_LINES = 8
_USUAL = {"server": 8080, "prometheus": 9090}
"""Ports of those parts whose address people type."""
Tell = Callable[[str], None]


def accounts() -> dict[str, str]:
    """Under whose name parts run, when root brings them up; nothing else has to, or could, change its name."""
    if not is_root() or sys.platform == "win32":
        return {}
    import pwd

    there = {one.pw_name for one in pwd.getpwall()}
    return {
        part: next(name for name in names if name in there) for part, names in _ACCOUNTS.items() if there & set(names)
    }


def as_account(name: str | None) -> dict[str, Any]:
    """The arguments of `subprocess` that start a process under another name."""
    if name is None or sys.platform == "win32":
        return {}
    import pwd

    one = pwd.getpwnam(name)
    return {"user": one.pw_uid, "group": one.pw_gid, "extra_groups": []}


def set_up(folder: Path, record: LocalRecord, keys: Keys) -> None:
    """Make everything that the parts of a system need; what is there stays as it is, settings are rewritten.

    Raises:
        MeasureError: if PostgreSQL cannot make its folder.
    """
    for name in ("logs", "tmp", "store", "agent", "cache"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    for part in STORES:
        if record.has(part):
            (folder / part).mkdir(mode=0o700, exist_ok=True)
            give(folder / part, record.accounts.get(part))
    if record.has("postgresql"):
        _make_postgresql(folder, record, keys)
    if record.has("redis"):
        _write(folder, record, "redis", "redis.conf", redis_conf(folder, record, keys))
    if record.has("prometheus"):
        _write(folder, record, "prometheus", "reader.token", keys.reader)
        # JSON is YAML, with nothing to quote wrongly.
        text = json.dumps(prometheus_settings(folder / "prometheus", record), indent=2)
        _write(folder, record, "prometheus", "prometheus.yml", text)
        (folder / "prometheus" / "targets").mkdir(mode=0o755, exist_ok=True)


def give_memory_back(folder: Path, record: LocalRecord) -> None:
    """Have PostgreSQL remove the memory that it shared, where it was killed and could not; it must not run.

    Raises:
        MeasureError: if it cannot.
    """
    data = folder / "postgresql" / _DATA
    if record.has("postgresql") and (data / "postmaster.pid").exists():
        _run(folder, record, [record.programs["postgresql"], "--single", "-D", str(data), "postgres"])


def redis_conf(folder: Path, record: LocalRecord, keys: Keys) -> str:
    """The settings of Redis, with its password: no word of a command, which everybody can read."""
    settings = {
        "bind": HERE,
        "port": str(record.ports["redis"]),
        "dir": json.dumps(str(folder / "redis")),
        "daemonize": "no",
        "requirepass": keys.redis,
        "appendonly": "yes",
        "save": '""',
        "maxmemory-policy": "noeviction",
    }
    return "".join(f"{name} {value}\n" for name, value in settings.items())


def prometheus_settings(own: Path, record: LocalRecord) -> Mapping[str, Any]:
    """What Prometheus scrapes: the server, itself, and whatever target files somebody puts beside it."""
    server = record.server_url.removeprefix("http://")
    return {
        "global": {"scrape_interval": "15s"},
        "scrape_configs": [
            {
                "job_name": "assay-server",
                "authorization": {"credentials_file": str(own / "reader.token")},
                "static_configs": [{"targets": [server]}],
            },
            {"job_name": "prometheus", "static_configs": [{"targets": [f"{HERE}:{record.ports['prometheus']}"]}]},
            {"job_name": "targets", "file_sd_configs": [{"files": [f"{own}/targets/*.json"]}]},
        ],
    }


def give(path: Path, account: str | None) -> None:
    """Make a file or folder belong to an account."""
    if account is not None and sys.platform != "win32":
        who = as_account(account)
        os.chown(path, who["user"], who["group"])


def _write(folder: Path, record: LocalRecord, part: str, name: str, text: str) -> None:
    path = folder / part / name
    write_whole(path, text.encode())
    give(path, record.accounts.get(part))


def _make_postgresql(folder: Path, record: LocalRecord, keys: Keys) -> None:
    """Make the folder of data under another name first: under its own it is whole."""
    own = folder / "postgresql"
    if (own / _DATA).is_dir():
        return
    fresh, password = own / "fresh", own / "password"
    shutil.rmtree(fresh, ignore_errors=True)
    _write(folder, record, "postgresql", password.name, keys.database)
    program = record.programs["postgresql"]
    try:
        _run(
            folder,
            record,
            [
                initdb_of(program),
                "-D",
                str(fresh),
                "-U",
                USER,
                "-A",
                "scram-sha-256",
                f"--pwfile={password}",
                "--encoding=UTF8",
                "--locale=C",
            ],
        )
        _run(folder, record, [program, "--single", "-D", str(fresh), "postgres"], f"CREATE DATABASE {DATABASE}\n")
    finally:
        password.unlink(missing_ok=True)
    fresh.rename(own / _DATA)


def _run(folder: Path, record: LocalRecord, words: list[str], content: str = "") -> None:
    """Run a program of PostgreSQL to its end."""
    try:
        done = subprocess.run(
            words,
            input=content,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=folder / "postgresql",
            env=own_words(folder, record, "postgresql"),
            check=False,
            **as_account(record.accounts.get("postgresql")),
        )
    except OSError as problem:
        code, said = 1, str(problem)
    else:
        code, said = done.returncode, done.stderr or done.stdout
    # In its mode for one user PostgreSQL says what went wrong, and ends well all the same.
    if code or "FATAL" in said or "ERROR" in said:
        lines = "\n  ".join(said.strip().splitlines()[-_LINES:])
        raise MeasureError(
            f"{Path(words[0]).name} failed:\n  {lines}",
            code="postgresql",
            at=str(folder / "postgresql"),
            try_="is there room, and may every folder above be entered by the account "
            f"{record.accounts.get('postgresql') or 'of this user'}?",
        )


def programs_for(
    stores: Sequence[str], unpacked: Path, tell: Tell, *, may_fetch: bool, known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The program of each part that is one of somebody else.

    Args:
        known: those of before; a newer PostgreSQL could not read the data of an older one.

    Raises:
        UsageError: if one is missing, with all that are.
        MeasureError: if one cannot be fetched.
    """
    old = {part: path for part, path in (known or {}).items() if part in stores and os.access(path, os.X_OK)}
    found = {**find_programs(stores, unpacked), **old}
    lacking = [part for part in stores if part not in found]
    if lacking and (not may_fetch or not can_fetch()):
        raise missing(lacking, refused=not may_fetch)
    if lacking:
        fetch(lacking, unpacked, tell)
        unpacked.chmod(0o755)  # other accounts start programs from it
        found = {**find_programs(stores, unpacked), **old}
    if lacking := [part for part in stores if part not in found]:
        raise missing(lacking, refused=False)
    return found


def ports_for(stores: Sequence[str], host: str, wanted: int | None) -> dict[str, int]:
    """A free port for each part; the usual one for those whose address people type, where it is free.

    Raises:
        UsageError: if that is taken.
    """
    ports: dict[str, int] = {}
    if wanted is not None:
        _refuse_taken(wanted, host)
        ports["server"] = wanted
    for part in ("server", *stores):
        if part not in ports:
            ports[part] = _usual_or_free(part, host if part == "server" else HERE, set(ports.values()))
    return ports


def ports_again(known: Mapping[str, int], host: str, wanted: int | None, tell: Tell) -> dict[str, int]:
    """The ports of before; a new one for each that somebody else has taken since.

    Raises:
        UsageError: if the server's port was asked for, and is taken.
    """
    ports = dict(known)
    if wanted is not None:
        _refuse_taken(wanted, host)
        ports["server"] = wanted
    for part, port in ports.items():
        at = host if part == "server" else HERE
        if _is_taken(port, at):
            ports[part] = free_port(set(ports.values()), at)
            tell(f"port {port} of {part} is taken by now; it gets {ports[part]}")
    return ports


def _usual_or_free(part: str, host: str, taken: set[int]) -> int:
    usual = _USUAL.get(part)
    if usual is not None and usual not in taken and not _is_taken(usual, host):
        return usual
    return free_port(taken, host)


def _is_taken(port: int, host: str) -> bool:
    with suppress(MeasureError):
        refuse_taken(port, "", host)
        return False
    return True


def _refuse_taken(port: int, host: str) -> None:
    if _is_taken(port, host):
        raise UsageError(
            f"port {port} is taken, or may not be used",
            code="port-taken",
            at="--port",
            try_="leave --port out: a free one is then chosen",
        )
