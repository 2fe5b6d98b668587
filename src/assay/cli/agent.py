"""`assay agent`: this machine as a part of a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.agent_options import (
    allowed,
    env_names,
    free_size,
    listen_place,
    listen_token,
    log_to_stderr,
    named,
    on_signals,
    reachable_at,
    redis_of,
    secret,
    settings_of,
    token_apart,
)
from assay.cli.options import Verbs
from assay.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assay.agent.host import HostCheck, HostFacts

app = Verbs(help="Make this machine take jobs from a server.")

Host = Annotated[
    str | None, typer.Option("--host", metavar="URL", help="Address of the server.", envvar="ASSAY_SERVER")
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
Grace = Annotated[float, typer.Option("--grace", help="Seconds that a running job may go on after a stop.")]
Finish = Annotated[bool, typer.Option("--finish", help="After a stop, let a running job end, however long it takes.")]
LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


@app.command("info")
def info(json_: JsonFlag = False) -> None:
    """Show what this machine is and which compute units work here."""
    from assay.agent.host import examine_host
    from assay.documents import to_json

    facts = examine_host()
    say(to_json(facts, indent=2) if json_ else _facts_in_words(facts))


@app.command("validate")
def validate(state: State = None, min_free: MinFree = "200MB", allow: Allow = None) -> None:
    """Try everything that an agent needs; exit code 1 if something is missing."""
    from assay.agent import host as agent_host
    from assay.agent.identity import state_folder

    found = agent_host.validate(state_folder(state), free_size(min_free), commands="command" in allowed(allow))
    raise typer.Exit(0 if _told(found) else 1)


@app.command("test")
def reach(
    host: Host = None,
    redis_host: RedisHost = None,
    redis_port: RedisPort = 6379,
    redis_password_env: RedisPassword = "",
    token_file: TokenFile = None,
    token: Token = None,
    ca: Ca = None,
    insecure: Insecure = False,
) -> None:
    """Try to reach the server; exit code 1 if something does not answer."""
    from assay.agent import host as agent_host
    from assay.place.fleet.client import FleetClient

    client = FleetClient(named(host), secret(token_file, token), ca=ca, verify=not insecure, patience_s=3.0)
    redis = redis_of(redis_host, redis_port, redis_password_env, client.url)
    raise typer.Exit(0 if _told(agent_host.reach(client, redis)) else 1)


@app.command("enroll")
def enroll(
    host: Host = None,
    device_name: Name = "",
    label: Labels = None,
    allow: Allow = None,
    state: State = None,
    token_file: TokenFile = None,
    token: Token = None,
    ca: Ca = None,
    insecure: Insecure = False,
) -> None:
    """Make this machine known to the server, without taking jobs."""
    from assay.agent.agent import Agent

    settings = settings_of(
        host, state, token_file, token, name=device_name, labels=label, allow=allow, ca=ca, verify=not insecure
    )
    enrolled = Agent(settings).enrol()
    say(f"{enrolled.agent} {enrolled.action}")


@app.command("start")
def start(
    host: Host = None,
    redis_host: RedisHost = None,
    redis_port: RedisPort = 6379,
    redis_password_env: RedisPassword = "",
    device_name: Name = "",
    label: Labels = None,
    allow: Allow = None,
    device: Device = None,
    allow_private_urls: PrivateUrls = False,
    allow_env: AllowEnv = None,
    state: State = None,
    token_file: TokenFile = None,
    token: Token = None,
    ca: Ca = None,
    insecure: Insecure = False,
    min_free: MinFree = "200MB",
    grace: Grace = 60.0,
    finish: Finish = False,
    log_level: LogLevel = "info",
) -> None:
    """Take jobs from the server until stopped; Ctrl-C lets a running job end, twice gives it back."""
    from assay.agent.agent import Agent
    from assay.agent.executor import OWN_VARIABLES, ProcessExecutor
    from assay.agent.identity import keep_private

    log_to_stderr(log_level)
    settings = settings_of(
        host,
        state,
        token_file,
        token,
        name=device_name,
        labels=label,
        allow=allow,
        devices=device,
        allow_private_urls=allow_private_urls,
        allow_env=env_names(allow_env),
        ca=ca,
        verify=not insecure,
        min_free=min_free,
        grace_s=grace,
        finish=finish,
        redis=redis_of(redis_host, redis_port, redis_password_env, named(host)),
    )
    keep_private(
        (*OWN_VARIABLES, redis_password_env), (settings.token or "", (settings.redis and settings.redis.password) or "")
    )
    agent = Agent(settings, executor=ProcessExecutor((redis_password_env,)))
    on_signals(lambda interrupted: agent.ask_to_stop(interrupted=interrupted))
    raise typer.Exit(agent.run())


@app.command("serve")
def serve(
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where to wait.")] = "127.0.0.1:8081",
    device_name: Name = "",
    label: Labels = None,
    allow: Allow = None,
    device: Device = None,
    allow_private_urls: PrivateUrls = False,
    allow_env: AllowEnv = None,
    state: State = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with the token that callers need.", show_default=False)
    ] = None,
    ca: Ca = None,
    insecure: Insecure = False,
    min_free: MinFree = "200MB",
    log_level: LogLevel = "info",
) -> None:
    """Wait until a server calls, as `assay agents add` makes it, then take its jobs."""
    from assay.agent.executor import OWN_VARIABLES
    from assay.agent.identity import keep_private
    from assay.agent.listen import work_on_call

    log_to_stderr(log_level)
    host, port = listen_place(listen)
    settings = settings_of(
        "http://127.0.0.1",
        state,
        None,
        None,
        name=device_name,
        labels=label,
        allow=allow,
        devices=device,
        allow_private_urls=allow_private_urls,
        allow_env=env_names(allow_env),
        ca=ca,
        verify=not insecure,
        min_free=min_free,
        address=reachable_at(host, port),
    )
    token = listen_token(token_file, settings.state)
    keep_private(OWN_VARIABLES, (token or "",))
    work_on_call(settings, host, port, token, on_signals)


@app.command("install-service", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def install_service(
    context: typer.Context,
    host: Host = None,
    user: Annotated[bool, typer.Option("--user", help="For this user alone.")] = False,
    run_as: Annotated[str, typer.Option("--run-as", help="User that a service of the system runs as.")] = "",
    only_print: Annotated[bool, typer.Option("--print", help="Print it and write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a service file that is there.")] = False,
) -> None:
    """Have the system start the agent by itself; further options are those of `assay agent start`."""
    from assay.agent import service

    token, words = token_apart(context.args)
    arguments = ("--host", named(host), *words)
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


def _told(findings: Iterable[HostCheck]) -> bool:
    """Print findings as they come; False if something needed is missing."""
    good = True
    for one in findings:
        word = "ok" if one.ok else "missing" if one.needed else "no"
        say(f"{word:<8} {one.name:<14} {one.detail}")
        if not one.ok and one.try_:
            say(f"{'':<8} {'':<14} try: {one.try_}")
        good = good and (one.ok or not one.needed)
    return good
