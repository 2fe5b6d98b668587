"""The agent as a part of its machine: service files for systemd and launchd, and what to say on Windows."""

from __future__ import annotations

import os
import plistlib
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assay.errors import UsageError
from assay.files import write_whole
from assay.spec.references import HIDDEN

NAME = "assay-agent"
LABEL = "dev.assay.agent"
# Above the agent's own grace, so that a running attempt is given back before the system loses patience.
_STOP_S = 90


@dataclass(frozen=True, slots=True)
class ServiceFile:
    """A service file: its place, its text, and what to type afterwards."""

    path: Path | None
    """None where the system has no such file."""
    text: str
    then: tuple[str, ...]
    token: str = field(default="", repr=False)
    """For the owner's eyes alone: in a file of its own, or in this one."""
    token_path: Path | None = None

    @property
    def shown(self) -> str:
        """The text for a screen, without the token."""
        return self.text.replace(self.token, HIDDEN) if self.token else self.text


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What the service is to run."""

    arguments: tuple[str, ...]
    """Of `assay agent start`."""
    user: bool = False
    """Only for this user, without asking the administrator."""
    run_as: str = ""
    token: str = field(default="", repr=False)
    """Of the agent; it never becomes a word of the command, which everybody can read."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "assay", "agent", "start", *self.arguments]


def service(request: ServiceOptions, platform: str = sys.platform) -> ServiceFile:
    if platform == "win32":
        return _windows(request)
    return _launchd(request) if platform == "darwin" else _systemd(request)


def install(wanted: ServiceFile, *, force: bool = False) -> Path:
    """Write a service file; one that is there and differs stays, unless forced."""
    path = wanted.path
    if path is None:
        raise UsageError("this system has no service files", code="service", try_="; ".join(wanted.then))
    try:
        if path.exists() and path.read_text(encoding="utf-8") != wanted.text and not force:
            raise UsageError(
                "there is another service file",
                code="service-exists",
                at=str(path),
                try_="look at it, then use --force to overwrite it",
            )
        if wanted.token and wanted.token_path is not None:
            _refuse_odd(wanted.token)
            write_whole(wanted.token_path, f"ASSAY_TOKEN={wanted.token}\n".encode(), mode=0o600)
        write_whole(path, wanted.text.encode(), mode=0o600 if wanted.token in wanted.text and wanted.token else 0o644)
    except OSError as problem:
        raise UsageError(
            f"the service file cannot be written: {problem.strerror}",
            code="service",
            at=str(path),
            try_="use --user, or run it as administrator",
        ) from None
    return path


def _systemd(request: ServiceOptions) -> ServiceFile:
    # The system reads it before it changes to the user of the service, so that it may be root's alone.
    token_path = (Path.home() / ".config/assay" if request.user else Path("/etc/assay")) / f"{NAME}.token.env"
    lines = [
        "[Unit]",
        "Description=assay agent: takes benchmark jobs from a server",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        f"ExecStart={' '.join(map(_quoted, request.command))}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in request.environment.items()),
        *([f"EnvironmentFile={_quoted(str(token_path))}"] if request.token else []),
        *(
            []
            if request.user
            else [
                f"User={request.run_as or _own_name()}",
                f"StateDirectory={NAME}",
                f"Environment=ASSAY_AGENT_STATE=%S/{NAME}",
            ]
        ),
        "Restart=always",
        "RestartSec=5",
        f"TimeoutStopSec={_STOP_S}",
        "KillMode=mixed",
        "NoNewPrivileges=yes",
        "",
        "[Install]",
        f"WantedBy={'default.target' if request.user else 'multi-user.target'}",
        "",
    ]
    where = Path.home() / ".config/systemd/user" if request.user else Path("/etc/systemd/system")
    control = "systemctl --user" if request.user else "sudo systemctl"
    then = (f"{control} daemon-reload", f"{control} enable --now {NAME}")
    return ServiceFile(where / f"{NAME}.service", "\n".join(lines), then, request.token, token_path)


def _launchd(request: ServiceOptions) -> ServiceFile:
    logs = Path.home() / "Library/Logs" if request.user else Path("/var/log")
    document: dict[str, object] = {
        "Label": LABEL,
        "ProgramArguments": request.command,
        "RunAtLoad": True,
        "KeepAlive": True,
        "ThrottleInterval": 5,
        "ExitTimeOut": _STOP_S,
        "ProcessType": "Interactive",  # background work is slowed down, and with it what is measured
        "StandardErrorPath": str(logs / f"{NAME}.log"),
        "StandardOutPath": str(logs / f"{NAME}.log"),
    }
    if environment := {**request.environment, **({"ASSAY_TOKEN": request.token} if request.token else {})}:
        document["EnvironmentVariables"] = environment
    if not request.user:
        document["UserName"] = request.run_as or _own_name()
    folder = Path.home() / "Library/LaunchAgents" if request.user else Path("/Library/LaunchDaemons")
    path = folder / f"{LABEL}.plist"
    domain = "gui/$(id -u)" if request.user else "system"
    then = (f"{'' if request.user else 'sudo '}launchctl bootstrap {domain} {shlex.quote(str(path))}",)
    return ServiceFile(path, plistlib.dumps(document).decode(), then, request.token)


def _windows(request: ServiceOptions) -> ServiceFile:
    if request.token:
        raise UsageError(
            "a task of Windows shows its words to everybody",
            code="service",
            at="--token",
            try_="put the token into a file and give --token-file",
        )
    command = subprocess.list2cmdline(request.command)
    quoted = command.replace('"', '\\"')
    task = f'schtasks /Create /TN {NAME} /SC ONLOGON /RL LIMITED /TR "{quoted}"'
    boot = f'schtasks /Create /TN {NAME} /SC ONSTART /RU {request.run_as or "%USERNAME%"} /RP * /TR "{quoted}"'
    return ServiceFile(None, "", (task if request.user else boot, f"schtasks /Run /TN {NAME}"))


def _own_name() -> str:
    """Who runs the agent: not the administrator who installs it for another account."""
    import getpass

    name = os.environ.get("SUDO_USER") or getpass.getuser()
    if name == "root":
        raise UsageError(
            "the agent would run as root, and jobs with it",
            code="service",
            at="--run-as",
            try_=f"make an account for it (useradd --system {NAME}) and give --run-as {NAME}; or --run-as root",
        )
    return name


def _refuse_odd(token: str) -> None:
    if any(character.isspace() or character in "\"'\\" for character in token):
        raise UsageError(
            "the token holds a space, a quote or a backslash",
            code="service",
            at="--token",
            try_="put it into a file and give --token-file",
        )


def _quoted(word: str) -> str:
    """One word as systemd reads it, with nothing replaced."""
    if any(ord(character) < 32 for character in word):
        raise UsageError(f"{word!r} cannot be written into a service file", code="service")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != word or " " in word or "'" in word or not word else word
