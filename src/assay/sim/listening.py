"""Where a simulated server listens, and how it runs."""

# ruff: noqa: RUF009  (`setting` gives a field)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.sim.faults import whole
from assay.sim.script import setting, switch


def _path(value: object) -> Path:
    return Path(str(value)).expanduser()


def _host(value: object) -> str:
    return str(value)


@dataclass(frozen=True, slots=True)
class Listening:
    """Where the server is and how it runs; what it does is in its script."""

    port: int = setting(whole, "0", "Port to listen on; 0 takes a free one.")
    host: str = setting(_host, "127.0.0.1", "Address to listen on.")
    script: Path | None = setting(_path, "", "YAML file with the same settings; flags win over it.")
    cpu: int | None = setting(whole, "", "Run on this core alone (Linux).")
    tls_cert: Path | None = setting(_path, "", "Certificate chain (PEM); turns TLS on.")
    tls_key: Path | None = setting(_path, "", "Private key of the certificate (PEM).")
    lifeline: bool = switch(False, "End when the standard input is closed.")
