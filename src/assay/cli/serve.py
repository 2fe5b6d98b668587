"""`assay serve`: the server that gives jobs to agents and keeps their results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.cli.output import say


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


DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="postgresql://user@host/name; a SQLite file when left out.",
        envvar="ASSAY_SERVER_DATABASE_URL",
        show_default=False,
        show_envvar=True,
    ),
]
FolderOption = Annotated[
    Path | None,
    typer.Option("--folder", "--store", help="Folder of samples, artefacts and the SQLite file.", show_default=False),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="File with the same settings: TOML, YAML or JSON.", show_default=False)
]


def _option(name: str, text: str) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(name, help=text, show_default=False)
    return info


ChannelsOption = Annotated[
    Path | None, _option("--channels", "File of the channels by which people are told of alerts.")
]
PublicUrlOption = Annotated[
    str | None, _option("--public-url", "Address under which people reach the server, for links in messages.")
]
DashboardOption = Annotated[
    Path | None, _option("--dashboard", "Folder of the built web pages, instead of those that came with assay.")
]
MaxSamplesOption = Annotated[int | None, _option("--max-samples", "Most samples in one file of a result (10 million).")]
HeaderTimeoutOption = Annotated[
    float | None, _option("--header-timeout-s", "Seconds in which a request's head must come (20).")
]
BodyTimeoutOption = Annotated[
    float | None, _option("--body-timeout-s", "Seconds that a request's body may stand still (60).")
]
OpenMetricsOption = Annotated[
    bool | None, typer.Option("--open-metrics", help="Let everybody read /metrics without a token.", show_default=False)
]
OpenOption = Annotated[
    bool | None,
    typer.Option("--open/--closed", help="Everybody is admin, on loopback only; or never.", show_default=False),
]
AllowPrivateAgentsOption = Annotated[
    bool | None,
    typer.Option("--allow-private-agents", help="Let `agents add` ask private addresses.", show_default=False),
]
SilentAfterOption = Annotated[
    float | None, _option("--silent-after-s", "Seconds after which a silent agent is faulty (60).")
]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The settings of a server that flags can give, by their names; what is left out is None."""

    host: Annotated[str | None, _option("--host", "Address to listen on (127.0.0.1).")] = None
    port: Annotated[int | None, _option("--port", "Port to listen on (8080); 0 takes a free one.")] = None
    database_url: DatabaseOption = None
    folder: FolderOption = None
    objects: Annotated[
        str | None, _option("--objects", "s3://bucket/prefix: samples and artefacts are kept there too.")
    ] = None
    objects_cache_mb: Annotated[
        float | None, _option("--objects-cache-mb", "How much the folder may hold of what the object store has.")
    ] = None
    redis_url: Annotated[str | None, _option("--redis-url", "redis://host:6379/0 turns the Redis queue on.")] = None
    config: ConfigOption = None
    tls_cert: Annotated[Path | None, _option("--tls-cert", "Certificate chain (PEM).")] = None
    tls_key: Annotated[Path | None, _option("--tls-key", "Private key of the certificate (PEM).")] = None
    log_format: Annotated[LogFormat | None, _option("--log-format", "How log events are written (console).")] = None
    log_level: Annotated[LogLevel | None, _option("--log-level", "Least important events written (info).")] = None
    lease_s: Annotated[float | None, _option("--lease-s", "Seconds a lease lasts without a heartbeat (60).")] = None
    heartbeat_s: Annotated[float | None, _option("--heartbeat-s", "Seconds between heartbeats (10).")] = None
    silent_after_s: SilentAfterOption = None
    tries: Annotated[int | None, _option("--tries", "Leases a job may lose before it is set aside (4).")] = None
    backoff_s: Annotated[float | None, _option("--backoff-s", "Seconds before the second try of a job (1).")] = None
    max_body_mb: Annotated[float | None, _option("--max-body-mb", "Largest JSON body (16).")] = None
    max_result_mb: Annotated[float | None, _option("--max-result-mb", "Largest result document (64).")] = None
    max_artefact_mb: Annotated[float | None, _option("--max-artefact-mb", "Largest artefact (20 GiB).")] = None
    max_samples: MaxSamplesOption = None
    header_timeout_s: HeaderTimeoutOption = None
    body_timeout_s: BodyTimeoutOption = None
    root_path: Annotated[str | None, _option("--root-path", "Path under which a proxy shows the server.")] = None
    open: OpenOption = None
    open_metrics: OpenMetricsOption = None
    allow_private_agents: AllowPrivateAgentsOption = None
    cors_origins: Annotated[
        list[str] | None, _option("--cors-origin", "Web pages of this origin may use the API; may be repeated.")
    ] = None
    channels: ChannelsOption = None
    public_url: PublicUrlOption = None
    dashboard: DashboardOption = None


def serve(*, options: ServeOptions) -> None:
    """Start the server; settings come from flags, then ASSAY_SERVER_* variables, then --config."""
    run, read_settings = _parts()
    given = asdict(options)
    config, origins = given.pop("config"), given.pop("cors_origins")
    words = {name: value.value if isinstance(value, StrEnum) else value for name, value in given.items()}
    run(read_settings(config, **words, cors_origins=tuple(origins) if origins else None), _say_now)


def _say_now(text: str) -> None:
    """Print now: a program that started this in the background waits for it."""
    import sys

    say(text)
    sys.stdout.flush()


def _parts() -> tuple[Any, Any]:
    """The server, if what it needs is installed."""
    from assay.errors import UsageError

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
