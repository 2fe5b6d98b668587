"""What must be there before parts start: programs (of this machine or unpacked from its packages), ports, folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from assay.errors import MeasureError, UsageError
from assay.files import write_whole
from assay.infra.commands import call
from assay.infra.processes.parts import DATABASE, HERE, STORES, USER, LocalRecord, own_words
from assay.infra.record import Keys, Notify, is_root
from assay.run.services.plan import free_port, refuse_taken

VARIABLES = {"postgresql": "ASSAY_POSTGRESQL", "redis": "ASSAY_REDIS", "prometheus": "ASSAY_PROMETHEUS"}
"""Name a program where it is in no usual place."""
_NAMES = {"postgresql": ("postgres",), "redis": ("redis-server", "valkey-server"), "prometheus": ("prometheus",)}
# Where packages put PostgreSQL, which has a folder for each version: Debian, Red Hat, Homebrew.
_FOLDERS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql@*/bin",
            "usr/local/opt/postgresql@*/bin")  # fmt: skip
_ON_PATH = ("usr/bin", "usr/sbin", "bin")
# With `--reinstall` these come even where they are installed in part: a link of one leads to a file of the other.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "postgresql": ("postgresql",),
    "redis": ("redis-server", "redis-tools"),
    "prometheus": ("prometheus",),
}
_HOMEBREW = {"postgresql": "postgresql@17", "redis": "redis", "prometheus": "prometheus"}


def find_programs(
    parts: Iterable[str], unpacked: Path, environ: Mapping[str, str] | None = None, root: Path = Path("/")
) -> dict[str, str]:
    """The program of each part that is here; parts without one are left out."""
    env = os.environ if environ is None else environ
    programs = {}
    for part in parts:
        program = _given(part, env) or next(_candidates(part, env, (root, unpacked)), None)
        if program is not None:
            programs[part] = str(program)
    return programs


def initdb_of(postgres: str) -> str:
    return str(Path(postgres).with_name("initdb"))


def _given(part: str, env: Mapping[str, str]) -> Path | None:
    named = env.get(VARIABLES[part])
    if not named:
        return None
    program = _on_path(part, named, env)
    if program is None or not _is_whole(part, program):
        raise UsageError(
            f"{VARIABLES[part]} is {named!r}, which is no program of {part}",
            code="no-program",
            try_=f"name the program itself, such as /usr/bin/{_NAMES[part][0]}",
        )
    return program


def _on_path(part: str, name: str, env: Mapping[str, str]) -> Path | None:
    program = shutil.which(name, path=env.get("PATH"))
    if program is None:
        return None
    # Behind a link of PostgreSQL lies the folder with all of its programs. Redis is one file with several names, and
    # does what it is called by: behind its link lies the name of another program.
    return Path(program).resolve() if part == "postgresql" else Path(program).absolute()


def _candidates(part: str, env: Mapping[str, str], roots: Iterable[Path]) -> Iterator[Path]:
    for name in _NAMES[part]:
        on_path = _on_path(part, name, env)
        if on_path and _is_whole(part, on_path):
            yield on_path
    patterns = _FOLDERS if part == "postgresql" else ()
    for root in roots:
        versions = [folder for pattern in patterns for folder in root.glob(pattern)]
        newest_first = sorted(versions, key=lambda folder: _version(folder.parent.name), reverse=True)
        for folder in (*newest_first, *(root / place for place in _ON_PATH)):
            for program in (folder / name for name in _NAMES[part]):
                if os.access(program, os.X_OK) and program.is_file() and _is_whole(part, program):
                    yield program


def _version(name: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", name)))


def _is_whole(part: str, program: Path) -> bool:
    """Whether everything that a part needs lies beside its program."""
    return part != "postgresql" or os.access(initdb_of(str(program)), os.X_OK)


def can_fetch() -> bool:
    return all(shutil.which(name) for name in ("apt-get", "dpkg-deb"))


def fetch(parts: Sequence[str], unpacked: Path, notify: Notify) -> None:
    """Unpack what some parts need."""
    scratch = unpacked.with_name("apt")
    archives = scratch / "cache/archives"
    for folder in (scratch / "lists/partial", archives / "partial", unpacked):
        folder.mkdir(parents=True, exist_ok=True)
    notify(f"fetching {', '.join(parts)} from the packages of this system into {unpacked}; nothing is installed")
    apt = _apt(scratch)
    install = ("install", "--yes", "--no-install-recommends", "--reinstall", "--download-only")
    packages = (package for part in parts for package in PACKAGES[part])
    try:
        call([*apt, "update"], code="fetch")
        call([*apt, *install, *packages], env={"DEBIAN_FRONTEND": "noninteractive"}, code="fetch")
        debs = sorted(archives.glob("*.deb"))
        if not debs:
            raise MeasureError(f"no package came for {', '.join(parts)}", code="fetch", try_=how_to_install(parts))
        for package in debs:
            call(["dpkg-deb", "--extract", str(package), str(unpacked)], code="fetch")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def missing(parts: Sequence[str], *, refused: bool) -> UsageError:
    """What to say of programs that are neither here nor fetched."""
    ways = ["leave --no-fetch out"] if refused and can_fetch() else []
    ways += [how_to_install(parts), f"continue without: {' '.join(f'--without {part}' for part in parts)}"]
    return UsageError(
        f"there is no program of {', '.join(parts)} on this machine", code="missing-programs", try_="; or ".join(ways)
    )


def how_to_install(parts: Sequence[str], platform: str = sys.platform) -> str:
    """The command that installs what some parts need on this system."""
    if platform == "darwin":
        return f"brew install {' '.join(_HOMEBREW[part] for part in parts)}"
    names = [PACKAGES[part][0] for part in parts]
    return f"apt-get install {' '.join(names)} (other systems name their packages alike)"


def _apt(scratch: Path) -> list[str]:
    """The package tool with lists and a cache of its own, which needs no lock of the system."""
    settings = {
        "Dir::State::Lists": scratch / "lists",
        "Dir::Cache": scratch / "cache",
        "Debug::NoLocking": "true",
        "APT::Get::AllowUnauthenticated": "false",
        # The account that it otherwise uses for fetching may not write into our folder.
        **({"APT::Sandbox::User": "root"} if is_root() else {}),
    }
    return ["apt-get", "--quiet=2", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]


# Root brings parts up under the account that their packages make, else under the one that owns nothing.
_ACCOUNTS = {"postgresql": ("postgres", "nobody"), "redis": ("redis", "nobody"), "prometheus": ("prometheus", "nobody")}
_DATA = "data"
_LINES = 8
_USUAL = {"server": 8080, "prometheus": 9090}
"""Ports of those parts whose address people type."""


def accounts() -> dict[str, str]:
    """Under whose name parts run, when root brings them up; nothing else has to, or could, change its name."""
    if not is_root() or sys.platform == "win32":
        return {}
    import pwd

    there = {account.pw_name for account in pwd.getpwall()}
    names = {part: next((name for name in names if name in there), None) for part, names in _ACCOUNTS.items()}
    return {part: name for part, name in names.items() if name}


def as_account(name: str | None) -> dict[str, Any]:
    """The arguments of `subprocess` that start a process under another name."""
    if name is None or sys.platform == "win32":
        return {}
    import pwd

    account = pwd.getpwnam(name)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def set_up(folder: Path, record: LocalRecord, keys: Keys) -> None:
    """Make everything that the parts of a system need; what is there stays as it is, settings are rewritten."""
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
    """Have PostgreSQL remove the memory that it shared, where it was killed and could not; it must not run."""
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
    """What Prometheus scrapes: the server, itself, and the target files that are put beside it."""
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
        options = ["-D", str(fresh), "-U", USER, "-A", "scram-sha-256", f"--pwfile={password}"]
        _run(folder, record, [initdb_of(program), *options, "--encoding=UTF8", "--locale=C"])
        _run(folder, record, [program, "--single", "-D", str(fresh), "postgres"], f"CREATE DATABASE {DATABASE}\n")
    finally:
        password.unlink(missing_ok=True)
    fresh.rename(own / _DATA)


def _run(folder: Path, record: LocalRecord, words: list[str], content: str = "") -> None:
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
    # In its mode for one user PostgreSQL says what went wrong, and ends well anyway.
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
    stores: Sequence[str], unpacked: Path, notify: Notify, *, may_fetch: bool, known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The program of each part that is not part of assay.

    Args:
        known: those of before; a newer PostgreSQL could not read the data of an older one.
    """
    old = {part: path for part, path in (known or {}).items() if part in stores and os.access(path, os.X_OK)}
    programs = {**find_programs(stores, unpacked), **old}
    lacking = [part for part in stores if part not in programs]
    if lacking and (not may_fetch or not can_fetch()):
        raise missing(lacking, refused=not may_fetch)
    if lacking:
        fetch(lacking, unpacked, notify)
        unpacked.chmod(0o755)  # other accounts start programs from it
        programs = {**find_programs(stores, unpacked), **old}
    if lacking := [part for part in stores if part not in programs]:
        raise missing(lacking, refused=False)
    return programs


def ports_for(stores: Sequence[str], host: str, wanted: int | None) -> dict[str, int]:
    """A free port for each part; the usual one for those whose address people type, where it is free."""
    ports = {"server": server_port(wanted, host)}
    for part in stores:
        ports[part] = _usual_or_free(part, HERE, set(ports.values()))
    return ports


def server_port(wanted: int | None, host: str) -> int:
    """The port that was asked for, else the usual one, else a free one."""
    if not wanted:
        return _usual_or_free("server", host, set())
    if _is_taken(wanted, host):
        raise UsageError(
            f"port {wanted} is taken, or may not be used",
            code="port-taken",
            at="--port",
            try_="leave --port out: a free one is then chosen",
        )
    return wanted


def ports_again(known: Mapping[str, int], host: str, wanted: int | None, notify: Notify) -> dict[str, int]:
    """The ports of before; a new one for each that another process has taken since."""
    ports = {**known, **({"server": server_port(wanted, host)} if wanted else {})}
    for part, port in ports.items():
        at = host if part == "server" else HERE
        if _is_taken(port, at):
            ports[part] = free_port(set(ports.values()), at)
            notify(f"port {port} of {part} is taken by now; it gets {ports[part]}")
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
