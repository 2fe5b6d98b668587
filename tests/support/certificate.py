"""A certificate for the tests of TLS."""

from __future__ import annotations

import subprocess
from pathlib import Path


def self_signed(folder: Path, name: str = "127.0.0.1") -> tuple[Path, Path]:
    """A certificate that only those trust who are given it, and its key."""
    folder.mkdir(parents=True, exist_ok=True)
    cert, key = folder / "cert.pem", folder / "key.pem"
    kind = "IP" if name[0].isdigit() else "DNS"
    subject = ["-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={kind}:{name}"]
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = ["openssl", "req", "-x509", *new_key, *subject, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key
