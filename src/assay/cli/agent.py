"""`assay agent`: this machine as a part of a fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from assay.cli.options import ServerOption, TextFormat, TextFormatOption, Verbs, option_value
from assay.cli.output import say
from assay.errors import UsageError
from assay.units import size_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assay.agent.host import HostCheck, HostFacts
    from assay.agent.identity import AgentSettings, RedisAddress


Server = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="URL of the server.", envvar="ASSAY_SERVER")
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="File that holds the token; else ASSAY_TOKEN.", show_default=False)
]
Token = Annotated[str | None, typer.Option("--token", help="The token itself; better in a file.", show_default=False)]
Ca = Annotated[Path | None, typer.Option("--ca", help="Certificate of the authority that signed the server's.")]
Insecure = Annotated[
    bool, typer.Option("--insecure-skip-verify", help="Do not check who the server is; for trying things out.")
]
State = Annotated[
    Path | None,
    typer.Option("--state", help="Folder of what must survive; one per agent.", envvar="ASSAY_AGENT_STATE"),
]
RedisHost = Annotated[str | None, typer.Option("--redis-host", help="Take jobs from Redis on this host directly.")]
RedisPort = Annotated[int, typer.Option("--redis-port", help="Port of Redis.")]
RedisPassword = Annotated[
    str, typer.Option("--redis-password-env", help="Environment variable that holds the password of Redis.")
]
Name = Annotated[str, typer.Option("--device-name", help="Name in place of the machine's own.")]
Labels = Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="A label; may be repeated.")]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="WHAT", help="What jobs may do besides: command.", envvar="ASSAY_AGENT_ALLOW"),
]
Device = Annotated[
    list[str] | None, typer.Option("--device", help="One job at a time on each, such as cuda:0; may be repeated.")
]
PrivateUrls = Annotated[
    bool,
    typer.Option(
        "--allow-private-urls",
        help="Let jobs connect to this machine and its private networks.",
        envvar="ASSAY_ALLOW_PRIVATE_URLS",
    ),
]
AllowEnv = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-env",
        metavar="NAME",
        envvar="ASSAY_ALLOW_ENV",
        help="Let jobs refer to this variable by ${env:NAME}; may be repeated, or names with commas.",
    ),
]
MinFree = Annotated[str, typer.Option("--min-free", help="Take no job when the disk has less room than this.")]
Grace = Annotated[float, typer.Option("--grace", help="Seconds that a running job may continue after a stop.")]
Finish = Annotated[bool, typer.Option("--finish", help="After a stop, let a running job end, however long it takes.")]
LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]


@dataclass(frozen=True, slots=True)
class RedisOptions:
    """Where to take jobs from directly."""

    GROUP: ClassVar[str] = "Redis"
    redis_host: RedisHost = None
    redis_port: RedisPort = 6379
    redis_password_env: RedisPassword = ""

    def address(self, server: str) -> RedisAddress | None:
        import os

        from assay.agent.identity import RedisAddress
        from assay.http import is_loopback, is_loopback_url

        if self.redis_host is None:
            return None
        if is_loopback(self.redis_host) and not is_loopback_url(server):
            typer.echo(f"warning: Redis is looked for on this machine, although the server is {server}", err=True)
        password = os.environ.get(self.redis_password_env) if self.redis_password_env else None
        return RedisAddress(self.redis_host, self.redis_port, password)


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """The server, how to be let in by it, and how to know that it is the right one."""

    GROUP: ClassVar[str] = "Server"
    server: ServerOption = None
    token_file: TokenFile = None
    token: Token = None
    ca: Ca = None
    insecure: Insecure = False

    def secret(self) -> str | None:
        """The token: from a file, from the environment, or given in sight of everybody."""
        from assay.place.fleet.client import read_token

        if self.token and self.token_file is None:
            typer.echo(
                "warning: --token is visible to everybody on this machine; use --token-file or ASSAY_TOKEN", err=True
            )
            return self.token
        return read_token(self.token_file)


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """What this machine is called, and what jobs may do on it."""

    GROUP: ClassVar[str] = "Device"
    device_name: Name = ""
    label: Labels = None
    allow: Allow = None
    device: Device = None
    allow_private_urls: PrivateUrls = False
    allow_env: AllowEnv = None
    state: State = None


app = Verbs(help="Make this machine take jobs from a server.")


@app.command("info")
def info(form: TextFormatOption = TextFormat.text) -> None:
    """Show what this machine is and which compute units work here."""
    from assay.agent.host import examine_host
    from assay.documents import to_json

    facts = examine_host()
    say(to_json(facts, indent=2) if form is TextFormat.json else _facts_in_words(facts))


@app.command("validate")
def validate(state: State = None, min_free: MinFree = "200MB", allow: Allow = None) -> None:
    """Try everything that an agent needs; exit code 1 if something is missing."""
    from assay.agent import host as agent_host
    from assay.agent.identity import state_folder

    findings = agent_host.validate(state_folder(state), free_size(min_free), commands="command" in allowed(allow))
    raise typer.Exit(0 if _all_met(findings) else 1)


@app.command("test")
def reach(*, redis: RedisOptions, access: AccessOptions) -> None:
    """Try to reach the server; exit code 1 if something does not answer."""
    from assay.agent import host as agent_host
    from assay.place.fleet.client import FleetClient

    client = FleetClient(
        named(access.server), access.secret(), ca=access.ca, verify=not access.insecure, patience_s=3.0
    )
    raise typer.Exit(0 if _all_met(agent_host.reach(client, redis.address(client.url))) else 1)


@app.command("enroll")
def enroll(
    device_name: Name = "",
    label: Labels = None,
    allow: Allow = None,
    state: State = None,
    *,
    access: AccessOptions,
) -> None:
    """Make this machine known to the server, without taking jobs."""
    from assay.agent.agent import Agent

    device = DeviceOptions(device_name, label, allow, state=state)
    enrolled = Agent(settings_of(device, access)).enrol()
    say(f"{enrolled.agent} {enrolled.action}")


@app.command("start")
def start(
    *,
    redis: RedisOptions,
    device: DeviceOptions,
    access: AccessOptions,
    min_free: MinFree = "200MB",
    grace: Grace = 60.0,
    finish: Finish = False,
    log_level: LogLevel = "info",
) -> None:
    """Take jobs from the server until stopped; Ctrl-C lets a running job end, twice gives it back."""
    from assay.agent.agent import Agent
    from assay.agent.attempt import OWN_VARIABLES, ProcessExecutor
    from assay.agent.identity import keep_private

    log_to_stderr(log_level)
    settings = settings_of(
        device,
        access,
        min_free=min_free,
        grace_s=grace,
        finish=finish,
        redis=redis.address(named(access.server)),
    )
    keep_private(
        (*OWN_VARIABLES, redis.redis_password_env),
        (settings.token or "", (settings.redis and settings.redis.password) or ""),
    )
    agent = Agent(settings, executor=ProcessExecutor((redis.redis_password_env,)))
    on_signals(lambda interrupted: agent.request_stop(interrupted=interrupted))
    raise typer.Exit(agent.run())


@app.command("serve")
def serve(
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where to wait.")] = "127.0.0.1:8081",
    *,
    device: DeviceOptions,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with the token that callers need.", show_default=False)
    ] = None,
    ca: Ca = None,
    insecure: Insecure = False,
    min_free: MinFree = "200MB",
    log_level: LogLevel = "info",
) -> None:
    """Wait until a server calls, as `assay agents add` makes it, then take its jobs."""
    from assay.agent.attempt import OWN_VARIABLES
    from assay.agent.identity import keep_private
    from assay.agent.listen import work_on_call

    log_to_stderr(log_level)
    host, port = listen_place(listen)
    access = AccessOptions("http://127.0.0.1", ca=ca, insecure=insecure)
    settings = settings_of(device, access, min_free=min_free, address=reachable_at(host, port))
    token = listen_token(token_file, settings.state)
    keep_private(OWN_VARIABLES, (token or "",))
    work_on_call(settings, host, port, token, on_signals)


@app.command("install-service", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def install_service(
    context: typer.Context,
    server: ServerOption = None,
    user: Annotated[bool, typer.Option("--user", help="For this user alone.")] = False,
    run_as: Annotated[str, typer.Option("--run-as", help="User that a service of the system runs as.")] = "",
    only_print: Annotated[bool, typer.Option("--print", help="Print it and write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a service file that is there.")] = False,
) -> None:
    """Have the system start the agent by itself; further options are those of `assay agent start`."""
    from assay.agent import service

    token, words = token_apart(context.args)
    arguments = ("--server", named(server), *words)
    wanted = service.service(service.ServiceOptions(arguments, user=user, run_as=run_as, token=token))
    if only_print or wanted.path is None:
        say(wanted.shown or "\n".join(wanted.then))
        return
    say(f"written  {service.install(wanted, force=force)}")
    for line in wanted.then:
        say(f"then     {line}")


def _facts_in_words(facts: HostFacts) -> str:
    lines = [f"{name:<20} {value}" for name, value in facts.device.items()]
    lines += [f"{'runtime':<20} {name} {version}" for name, version in facts.runtimes.items()]
    return "\n".join(
        [*lines, "", "Available compute units:", *(f"- {unit}" for unit in facts.capabilities or ("none",))]
    )


def _all_met(findings: Iterable[HostCheck]) -> bool:
    """Print findings as they come; False if something needed is missing."""
    good = True
    for finding in findings:
        word = "ok" if finding.ok else "missing" if finding.needed else "no"
        say(f"{word:<8} {finding.name:<14} {finding.detail}")
        if not finding.ok and finding.try_:
            say(f"{'':<8} {'':<14} try: {finding.try_}")
        good = good and (finding.ok or not finding.needed)
    return good


def named(server: str | None) -> str:
    if not server:
        raise UsageError("no server is named", code="no-server", try_="give --server URL, or set ASSAY_SERVER")
    return server


def token_apart(words: list[str]) -> tuple[str, list[str]]:
    """The token among the words of a command, and the other words: everybody can read those of a service."""
    token, others, rest = "", [], iter(words)
    for word in rest:
        if word == "--token":
            token = next(rest, "")
        elif word.startswith("--token="):
            token = word.removeprefix("--token=")
        else:
            others.append(word)
    return token, others


def settings_of(
    device: DeviceOptions,
    access: AccessOptions,
    *,
    min_free: str = "200MB",
    **more: Any,  # noqa: ANN401  (each is one of the settings)
) -> AgentSettings:
    from assay.agent.identity import AgentSettings, state_folder
    from assay.cli.output import labels_of
    from assay.place.fleet.client import server_url

    if access.insecure:
        typer.echo("warning: the server's certificate is not checked; anybody in between can read the token", err=True)
    return AgentSettings(
        server=server_url(named(access.server)),
        state=state_folder(device.state),
        token=access.secret(),
        name=device.device_name,
        labels=labels_of(device.label or ()),
        allow=allowed(device.allow),
        devices=_devices(device.device or []),
        allow_private_urls=device.allow_private_urls,
        allow_env=env_names(device.allow_env),
        min_free=free_size(min_free),
        verify=not access.insecure,
        ca=access.ca,
        **more,
    )


def allowed(allow: list[str] | None) -> frozenset[str]:
    """What jobs may do besides running models."""
    rights = frozenset(allow or ())
    if unknown := rights - {"command"}:
        raise UsageError(f"--allow {min(unknown)} is not known", code="allow", try_="--allow command")
    return rights


def env_names(given: list[str] | None) -> frozenset[str]:
    from assay.agent.attempt import SECRET_VARIABLES
    from assay.spec.references import REFERENCE

    names = frozenset(name for text in given or () for name in text.replace(",", " ").split())
    for name in sorted(names):
        if not REFERENCE.fullmatch(f"${{env:{name}}}"):
            raise UsageError(
                f"{name!r} is not a valid name of an environment variable",
                code="allow-env",
                at="--allow-env",
                try_="write the name alone: --allow-env API_KEY",
            )
        if name in SECRET_VARIABLES:
            raise UsageError(
                f"{name} is the agent's own and no job may have it",
                code="allow-env",
                at="--allow-env",
                try_="give the job a token of its own, in another variable",
            )
    return names


def _devices(names: list[str]) -> tuple[str, ...]:
    from assay.spec.section import canonical

    devices = tuple(option_value(canonical, name, "--device", code="device") for name in names)
    if len(set(devices)) < len(devices):
        raise UsageError("a device is named twice", code="device", at="--device", try_="name each once")
    return devices


def free_size(text: str) -> int:
    return option_value(size_bytes, text, "--min-free", code="size")


def listen_place(listen: str) -> tuple[str, int]:
    """Host and port of an address to listen at."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{listen!r} is no address to listen at", code="listen", try_="write 127.0.0.1:8081")
    return host.strip("[]"), int(port)


def log_to_stderr(level: str) -> None:
    """Write what happens to the error stream."""
    import logging

    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise UsageError(f"--log-level {level} is not known", code="log-level", try_="debug, info, warning or error")
    logging.basicConfig(level=number, format="%(asctime)s %(levelname)-7s %(message)s", datefmt="%Y-%m-%d %H:%M:%S")
    for chatty in ("httpx", "httpcore"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def on_signals(request_stop: Callable[[bool], None]) -> None:
    """Call a function on SIGTERM and Ctrl-C, with whether it was Ctrl-C."""
    import signal
    from types import FrameType

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  (signal's signature)
        request_stop(number == signal.SIGINT)

    for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), stop)


def reachable_at(host: str, port: int) -> str:
    """The address under which others find what listens here."""
    import platform

    name = platform.node() if host in ("0.0.0.0", "::") else host  # noqa: S104  (compared, not bound)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def listen_token(file: Path | None, state: Path) -> str | None:
    """The token that callers need: given, or made once, printed, and kept where only the owner can read it.

    On loopback too: everybody on the machine can connect there.
    """
    import os
    import secrets

    from assay.files import write_whole
    from assay.place.fleet.client import read_token

    given = read_token(file) if file else os.environ.get("ASSAY_AGENT_TOKEN", "").strip() or None
    if given:
        return given
    token_path = state / "listen-token"
    if not token_path.exists():
        write_whole(token_path, secrets.token_urlsafe(32).encode(), mode=0o600)
        typer.echo(f"token for callers (shown once, kept in {token_path}): {token_path.read_text()}", err=True)
        typer.echo(f"the server calls with it by `assay agents add URL --agent-token-file {token_path}`", err=True)
    return read_token(token_path)
