"""`assay agent`: this machine as a part of a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.agent_options import (
    AccessOptions,
    Allow,
    Ca,
    DeviceOptions,
    Finish,
    Grace,
    Host,
    Insecure,
    Labels,
    LogLevel,
    MinFree,
    Name,
    RedisOptions,
    State,
    allowed,
    free_size,
    listen_place,
    listen_token,
    log_to_stderr,
    named,
    on_signals,
    reachable_at,
    settings_of,
    token_apart,
)
from assay.cli.options import Verbs
from assay.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assay.agent.host import HostCheck, HostFacts

app = Verbs(help="Make this machine take jobs from a server.")

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
    raise typer.Exit(0 if _all_met(found) else 1)


@app.command("test")
def reach(host: Host = None, *, redis: RedisOptions, access: AccessOptions) -> None:
    """Try to reach the server; exit code 1 if something does not answer."""
    from assay.agent import host as agent_host
    from assay.place.fleet.client import FleetClient

    client = FleetClient(named(host), access.secret(), ca=access.ca, verify=not access.insecure, patience_s=3.0)
    raise typer.Exit(0 if _all_met(agent_host.reach(client, redis.address(client.url))) else 1)


@app.command("enroll")
def enroll(
    host: Host = None,
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
    enrolled = Agent(settings_of(host, device, access)).enrol()
    say(f"{enrolled.agent} {enrolled.action}")


@app.command("start")
def start(
    host: Host = None,
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
    from assay.agent.executor import OWN_VARIABLES, ProcessExecutor
    from assay.agent.identity import keep_private

    log_to_stderr(log_level)
    settings = settings_of(
        host, device, access, min_free=min_free, grace_s=grace, finish=finish, redis=redis.address(named(host))
    )
    keep_private(
        (*OWN_VARIABLES, redis.redis_password_env),
        (settings.token or "", (settings.redis and settings.redis.password) or ""),
    )
    agent = Agent(settings, executor=ProcessExecutor((redis.redis_password_env,)))
    on_signals(lambda interrupted: agent.ask_to_stop(interrupted=interrupted))
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
    from assay.agent.executor import OWN_VARIABLES
    from assay.agent.identity import keep_private
    from assay.agent.listen import work_on_call

    log_to_stderr(log_level)
    host, port = listen_place(listen)
    access = AccessOptions(ca=ca, insecure=insecure)
    settings = settings_of("http://127.0.0.1", device, access, min_free=min_free, address=reachable_at(host, port))
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


def _all_met(findings: Iterable[HostCheck]) -> bool:
    """Print findings as they come; False if something needed is missing."""
    good = True
    for one in findings:
        word = "ok" if one.ok else "missing" if one.needed else "no"
        say(f"{word:<8} {one.name:<14} {one.detail}")
        if not one.ok and one.try_:
            say(f"{'':<8} {'':<14} try: {one.try_}")
        good = good and (one.ok or not one.needed)
    return good
