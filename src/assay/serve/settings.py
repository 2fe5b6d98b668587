"""Settings of the server: flags win over the environment (`ASSAY_SERVER_*`), the environment over the file."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from assay.documents import validation_words
from assay.errors import Problem, SpecError, UsageError
from assay.http import is_loopback
from assay.place.leasing import LeasePolicy
from assay.spec.source import read
from assay.store.objects.files import parse_place
from assay.store.samples import MOST_SAMPLES

MB = 10**6
_PREFIX = "ASSAY_SERVER_"


def _dashboard() -> Path | None:
    return Path(named) if (named := os.environ.get("ASSAY_DASHBOARD")) else None


class ServerSettings(BaseSettings):
    """Everything that can be set about a server."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, extra="forbid", use_attribute_docstrings=True, frozen=True, env_ignore_empty=True
    )

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    database_url: SecretStr | None = None
    """`postgresql://user@host/name`; a SQLite file in the folder when left out."""
    folder: Path | None = None
    """Folder of samples, artefacts and the SQLite file; the user's own store when left out."""
    objects: str | None = None
    """`s3://bucket/prefix`: samples and artefacts are kept there, and the folder holds what is new or was used."""
    objects_cache_mb: float | None = Field(default=None, ge=0)
    """How much the folder may hold of what the object store has; as much as there is when left out."""
    redis_url: SecretStr | None = None
    """`redis://host:6379/0` turns the Redis broker on."""
    tls_cert: Path | None = None
    """Certificate chain (PEM)."""
    tls_key: Path | None = None
    """Private key of the certificate (PEM)."""
    log_format: Literal["console", "json"] = "console"
    """How log events are written."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least important events that are written."""
    lease_s: float = Field(default=60.0, gt=0, le=3600)
    """How long a lease lasts without a heartbeat."""
    heartbeat_s: float = Field(default=10.0, gt=0, le=600)
    """How often agents send a heartbeat."""
    silent_after_s: float = Field(default=60.0, gt=0, le=3600)
    """An agent that was silent for this long is marked faulty."""
    tries: int = Field(default=4, ge=1, le=100)
    """How many leases a job may lose before it is set aside."""
    backoff_s: float = Field(default=1.0, ge=0, le=300)
    """Wait before the second try of a job; it doubles with each further one."""
    max_body_mb: float = Field(default=16.0, gt=0)
    """Largest JSON body."""
    max_result_mb: float = Field(default=64.0, gt=0)
    """Largest result document."""
    max_artefact_mb: float = Field(default=20 * 2**30 / MB, gt=0)
    """Largest artefact; 20 GiB when left out."""
    max_samples: int = Field(default=MOST_SAMPLES, ge=1)
    """Most samples in one file of a result."""
    header_timeout_s: float = Field(default=20.0, gt=0, le=3600)
    """How long a client may take to send the head of a request; then its connection is closed."""
    body_timeout_s: float = Field(default=60.0, gt=0, le=3600)
    """How long a client may send nothing of a body that it began; then its connection is closed."""
    token: SecretStr | None = None
    """Admin token to accept from the start; give it by the environment, not by a flag."""
    open: bool | None = None
    """Everybody is admin; only on loopback. Left out: when bound to loopback and no token was ever in use."""
    open_metrics: bool = False
    """Let everybody read /metrics without a token."""
    root_path: str = ""
    """Path under which a proxy shows the server, such as `/assay`."""
    allow_private_agents: bool = False
    """Let `agents add` ask agents in private networks even when the server is not on loopback."""
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """Web pages of these origins may use the API; none by default."""
    channels: Path | None = None
    """File of the channels by which people are notified of alerts; without it there are no notifications."""
    public_url: str = ""
    """Address under which people reach the server, for links in messages; made of host and port when left out."""
    dashboard: Path | None = Field(default_factory=_dashboard)
    """Folder of the built web pages, also by ASSAY_DASHBOARD; those that came with assay when left out."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  (pydantic's signature)
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what was set on purpose: no `.env` file of whatever folder this is started in."""
        return init_settings, env_settings

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _separated_by_commas(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return tuple(value) if isinstance(value, list) else value

    @field_validator("root_path")
    @classmethod
    def _begins_with_a_slash(cls, value: str) -> str:
        path = value.strip("/")
        return f"/{path}" if path else ""

    @field_validator("public_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError("not an address that begins with https:// or http:// and names a host")
        return value.rstrip("/")

    @field_validator("dashboard")
    @classmethod
    def _was_built(cls, value: Path | None) -> Path | None:
        if value is not None and not (value / "index.html").is_file():
            raise ValueError(f"there is no index.html in {value}; leave it out for the pages that came with assay")
        return value

    @field_validator("objects")
    @classmethod
    def _is_an_object_store(cls, value: str | None) -> str | None:
        try:
            return value and parse_place(value).url
        except UsageError as problem:
            raise ValueError(f"{problem.problem.message}; {problem.problem.try_}") from None

    @field_validator("database_url")
    @classmethod
    def _is_a_url(cls, value: SecretStr | None) -> SecretStr | None:
        try:
            kind = None if value is None else make_url(value.get_secret_value()).get_backend_name()
        except ArgumentError:
            raise ValueError("not a database URL; use postgresql://user@host/name or sqlite:///path") from None
        if kind not in (None, "postgresql", "sqlite"):
            raise ValueError(f"databases of kind {kind!r} are not supported; use postgresql:// or sqlite:///")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> ServerSettings:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together; only one is given")
        if self.open and not self.on_loopback:
            raise ValueError(f"open is set, but host is {self.host}: a server is open on loopback only; use tokens")
        if self.heartbeat_s >= self.lease_s:
            raise ValueError(f"heartbeat_s ({self.heartbeat_s:g}) must be shorter than lease_s ({self.lease_s:g})")
        return self

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def shown_url(self) -> str:
        """Where people find the server; empty when that is not known, because any free port is taken."""
        if self.public_url or not self.port:
            return self.public_url
        scheme = "https" if self.tls_cert else "http"
        everywhere = self.host in ("0.0.0.0", "::")  # noqa: S104  (compared, not bound)
        host = socket.gethostname() if everywhere else f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}{self.root_path}"

    @property
    def policy(self) -> LeasePolicy:
        return LeasePolicy(lease_s=self.lease_s, tries=self.tries, backoff_s=self.backoff_s)

    @property
    def database_shown(self) -> str:
        """The database for people to read: never with its password."""
        if self.database_url is None:
            return "SQLite"
        return make_url(self.database_url.get_secret_value()).render_as_string(hide_password=True)


def read_settings(config: Path | None = None, **flags: object) -> ServerSettings:
    """Put flags, environment and file together.

    Args:
        config: a TOML, YAML or JSON file with the same names.
        flags: what the command line said; None means that it said nothing.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    # The environment wins over the file, so what it sets is left out of the file.
    set_outside = {name.upper() for name, value in os.environ.items() if value}
    in_file = _file(config) if config else {}
    from_environment = {name for name in ServerSettings.model_fields if f"{_PREFIX}{name}".upper() in set_outside}
    below = {name: value for name, value in in_file.items() if name not in from_environment}
    try:
        return ServerSettings(**{**below, **given})
    except ValidationError as invalid:
        raise SpecError.of(_problems(invalid, given, below, config)) from None


def _file(path: Path) -> dict[str, Any]:
    try:
        return dict(read(path).document)
    except SpecError as wrong:
        said = wrong.problem.message.replace("the benchmark file", "the settings")
        raise UsageError(said, code="settings", at=str(path), try_="check the path and the syntax") from None


def _problems(
    invalid: ValidationError, flags: dict[str, object], below: dict[str, Any], config: Path | None
) -> list[Problem]:
    problems = []
    for error in invalid.errors(include_url=False, include_context=False):
        name = str(error["loc"][0]) if error["loc"] else ""
        said = validation_words(error)
        shown = f" is {error['input']}" if isinstance(error["input"], int | float) else ""  # a text may be a secret
        message = f"{name}{shown}: {said}" if name else said
        if error["type"] == "extra_forbidden":
            message = f"{name} is not a setting of the server"
        origin = str(config) if name in below else f"{_PREFIX}{name.upper()}" if name else ""
        at = f"--{name.replace('_', '-')}" if name in flags else origin
        problems.append(Problem("settings", message, at, "`assay serve --help` lists all"))
    return problems
