"""`assay serve`, `assay db` and `assay tokens`: the server, the tables of its database, and who may use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from assay.cli.options import TextFormat, TextFormatOption, Verbs, bare_option, span_s
from assay.cli.output import say
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.store.tokens import TokenStore


class LogFormat(StrEnum):
    """How log events are written."""

    console = "console"
    json = "json"


class LogLevel(StrEnum):
    """Least important events that are written."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """Where a server keeps what it knows."""

    GROUP: ClassVar[str] = "Storage"
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database-url",
            metavar="URL",
            help="postgresql://user@host/name; a SQLite file when left out.",
            envvar="ASSAY_SERVER_DATABASE_URL",
            show_default=False,
        ),
    ] = None
    folder: Annotated[Path | None, bare_option("--store", "Folder of samples, artefacts and the SQLite file.")] = None

    def location(self) -> Path | str:
        """Where the database is: by URL, else the SQLite file in the folder."""
        from assay.store.location import store_folder
        from assay.store.store import DATABASE

        return self.database_url or store_folder(self.folder) / DATABASE


@dataclass(frozen=True, slots=True)
class AddressOptions:
    """Where a server listens and how it is reached. Here and below, what is left out is None."""

    GROUP: ClassVar[str] = "Address"
    host: Annotated[str | None, bare_option("--host", "Address to listen on (127.0.0.1).")] = None
    port: Annotated[int | None, bare_option("--port", "Port to listen on (8080); 0 takes a free one.")] = None
    tls_cert: Annotated[Path | None, bare_option("--tls-cert", "Certificate chain (PEM).")] = None
    tls_key: Annotated[Path | None, bare_option("--tls-key", "Private key of the certificate (PEM).")] = None
    root_path: Annotated[str | None, bare_option("--root-path", "Path under which a proxy shows the server.")] = None
    public_url: Annotated[
        str | None, bare_option("--public-url", "Address under which people reach the server, for links in messages.")
    ] = None


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """What a server uses beside its database."""

    GROUP: ClassVar[str] = "Storage"
    objects: Annotated[
        str | None, bare_option("--objects", "s3://bucket/prefix: samples and artefacts are kept there too.")
    ] = None
    objects_cache_mb: Annotated[
        float | None, bare_option("--objects-cache-mb", "How much the folder may hold of what the object store has.")
    ] = None
    redis_url: Annotated[str | None, bare_option("--redis-url", "redis://host:6379/0 turns the Redis queue on.")] = None


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """How a server deals with agents that fall silent."""

    GROUP: ClassVar[str] = "Fleet"
    lease_s: Annotated[float | None, bare_option("--lease-s", "Seconds a lease lasts without a heartbeat (60).")] = None
    heartbeat_s: Annotated[float | None, bare_option("--heartbeat-s", "Seconds between heartbeats (10).")] = None
    silent_after_s: Annotated[
        float | None, bare_option("--silent-after-s", "Seconds after which a silent agent is faulty (60).")
    ] = None
    tries: Annotated[int | None, bare_option("--tries", "Leases a job may lose before it is set aside (4).")] = None
    backoff_s: Annotated[float | None, bare_option("--backoff-s", "Seconds before the second try of a job (1).")] = None


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """What requests may cost a server."""

    GROUP: ClassVar[str] = "Limits"
    max_body_mb: Annotated[float | None, bare_option("--max-body-mb", "Largest JSON body (16).")] = None
    max_result_mb: Annotated[float | None, bare_option("--max-result-mb", "Largest result document (64).")] = None
    max_artefact_mb: Annotated[float | None, bare_option("--max-artefact-mb", "Largest artefact (20 GiB).")] = None
    max_samples: Annotated[
        int | None, bare_option("--max-samples", "Most samples in one file of a result (10 million).")
    ] = None
    header_timeout_s: Annotated[
        float | None, bare_option("--header-timeout-s", "Seconds in which a request's head must come (20).")
    ] = None
    body_timeout_s: Annotated[
        float | None, bare_option("--body-timeout-s", "Seconds that a request's body may stand still (60).")
    ] = None


@dataclass(frozen=True, slots=True)
class PermissionOptions:
    """Who may do what on a server."""

    GROUP: ClassVar[str] = "Access"
    open: Annotated[bool | None, bare_option("--open/--closed", "Everyone is admin, on loopback only; or never.")] = (
        None
    )
    open_metrics: Annotated[bool | None, bare_option("--open-metrics", "Let anyone read /metrics without a token.")] = (
        None
    )
    allow_private_agents: Annotated[
        bool | None, bare_option("--allow-private-agents", "Let `agents add` ask private addresses.")
    ] = None
    cors_origins: Annotated[
        list[str] | None, bare_option("--cors-origin", "Web pages of this origin may use the API; may be repeated.")
    ] = None


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Files that a server reads, and what it logs."""

    channels: Annotated[Path | None, bare_option("--channels", "File of the channels that alerts are sent to.")] = None
    dashboard: Annotated[
        Path | None, bare_option("--dashboard", "Folder of the built web pages, instead of those that came with assay.")
    ] = None
    log_format: Annotated[LogFormat | None, bare_option("--log-format", "How log events are written (console).")] = None
    log_level: Annotated[LogLevel | None, bare_option("--log-level", "Least important events written (info).")] = None


def serve(
    config: Annotated[Path | None, bare_option("--config", "File with the same settings: TOML, YAML or JSON.")] = None,
    *,
    address: AddressOptions,
    database: DatabaseOptions,
    backends: BackendOptions,
    leases: LeaseOptions,
    limits: LimitOptions,
    access: PermissionOptions,
    files: FileOptions,
) -> None:
    """Start the server; settings come from flags, then ASSAY_SERVER_* variables, then --config."""
    run, read_settings = _parts()
    given: dict[str, Any] = {}
    for part in (address, database, backends, leases, limits, access, files):
        given |= asdict(part)
    origins = given.pop("cors_origins")
    words = {name: value.value if isinstance(value, StrEnum) else value for name, value in given.items()}
    run(read_settings(config, **words, cors_origins=tuple(origins) if origins else None), _say_now)


def _say_now(text: str) -> None:
    """Print now: a program that started this in the background waits for it."""
    import sys

    say(text)
    sys.stdout.flush()


def _parts() -> tuple[Any, Any]:
    """The server, if what it needs is installed."""
    try:
        from assay.serve.server import run
        from assay.serve.settings import read_settings
    except ImportError as problem:
        if (problem.name or "").partition(".")[0] == "assay":
            raise
        raise UsageError(
            f"the server needs a package that is not installed: {problem.name}",
            code="missing-server",
            try_="pip install 'assay-bench[server]'",
        ) from None
    return run, read_settings


db_app = Verbs(help="Bring a database up to date, and say where it is.")


@db_app.command("upgrade")
def upgrade(*, database: DatabaseOptions) -> None:
    """Bring the tables to the newest migration; safe to repeat, and while servers run."""
    from assay.store.database import migrate_database

    before, after = migrate_database(database.location())
    say(f"at {after} already" if before == after else f"from {before or 'nothing'} to {after}")


@db_app.command("current")
def current(*, database: DatabaseOptions) -> None:
    """Say which migration the tables are at, and which one this version needs."""
    from assay.store.database import HEAD, current_revision

    revision = current_revision(database.location())
    say(f"at {revision or 'nothing'}; this version needs {HEAD}")
    if revision != HEAD:
        raise typer.Exit(1)


tokens_app = Verbs(help="Make, list and revoke tokens of a server, in its database.")


class Role(StrEnum):
    """What a token allows."""

    admin = "admin"
    user = "user"
    reader = "reader"
    agent = "agent"


@tokens_app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Who or what will use it.")],
    role: Annotated[Role, typer.Option("--role", "-r", help="What it allows.")] = Role.user,
    expires_in: Annotated[str, typer.Option("--expires-in", help="How long it is valid, such as 30d or 12h.")] = "",
    *,
    database: DatabaseOptions,
) -> None:
    """Make a token and print its secret: it is shown once and kept nowhere."""
    most_s = 100 * 365 * 86400
    wanted = (expires_in, "--expires-in", most_s)
    lasts_s = span_s(*wanted, code="expires-in", try_="write 30d or 12h") if expires_in else None
    with _tokens(database) as tokens:
        _, secret = tokens.create(name, role.value, lasts_s)
    say(secret)


@tokens_app.command("list")
def list_tokens(form: TextFormatOption = TextFormat.text, *, database: DatabaseOptions) -> None:
    """List tokens, without their secrets."""
    from assay.cli.output import moment, say_json, say_table

    with _tokens(database) as tokens:
        records = tokens.list()
    if form is TextFormat.json:
        say_json([asdict(token) for token in records])
        return
    rows = [
        (
            token.id,
            token.role,
            moment(token.created_at),
            moment(token.expires_at) or "never",
            moment(token.last_used),
            token.name,
        )
        for token in records
    ]
    say_table(("token", "role", "created", "ends", "last used", "name"), rows, "no tokens", flexible="name")


@tokens_app.command("revoke")
def revoke(
    tokens: Annotated[list[str], typer.Argument(metavar="TOKEN", help="Ids from `assay tokens list`.")],
    *,
    database: DatabaseOptions,
) -> None:
    """Take rights away; a running server follows within seconds."""
    with _tokens(database) as token_store:
        for token in tokens:
            token_store.revoke(token)
            say(f"revoked {token}")


@contextmanager
def _tokens(database: DatabaseOptions) -> Iterator[TokenStore]:
    from assay.clock import SYSTEM_CLOCK
    from assay.store.database import WriteAheadLog, open_database
    from assay.store.tokens import TokenStore

    engine = open_database(database.location())
    try:
        yield TokenStore(engine, SYSTEM_CLOCK)
        if (log := WriteAheadLog.of(engine)) is not None:
            log.sync()
    finally:
        engine.dispose()
