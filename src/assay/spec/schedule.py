"""What repeats: schedules, and when people are notified."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, WithJsonSchema, field_validator, model_validator
from pydantic_core import CoreSchema

from assay.spec.section import Duration, Section, Share, did_you_mean

_HOURS = re.compile(r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$")
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * sun",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, or L for the last; it must exist in one of the months",
    "month": "1-12 or jan-dec",
    "day-of-week": "0-7 (0 and 7 are Sunday) or sun-sat",
}


def zone_named(name: str) -> tzinfo:
    if name == "UTC":  # known even where there is no database of time zones
        return UTC
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, no name at all, or a folder of the database
        zones = available_timezones()
    if not zones:
        raise ValueError(f"the time zone {name!r} cannot be looked up: this machine has no time zones; install tzdata")
    raise ValueError(f"there is no time zone {name!r}; {did_you_mean(name, zones, 'see tzdata')}")


def _is_a_zone(name: str) -> str:
    zone_named(name)
    return name


class Schedule(Section):
    """When a benchmark runs by itself."""

    cron: str = Field(max_length=500)
    """Five fields (minute, hour, day, month, weekday; lists, ranges, steps, names), or an alias such as `@daily`."""
    timezone: Annotated[str, AfterValidator(_is_a_zone)] = "UTC"
    """Name of a time zone, such as `Europe/Luxembourg`; the times are those of its clocks on the wall."""
    jitter: Duration = Field(default=0.0, ge=0, le=86_400)
    """Start up to this much later, so that not everything starts together; the same due time has the same delay."""
    missed: Literal["skip", "once", "all"] = "once"
    """What to run for times at which no server ran: none of them, one run for all, or each (the newest 24)."""
    overlap: Literal["skip", "queue", "cancel"] = "skip"
    """What happens when the previous campaign is still running: this one is left out, waits, or ends the other."""

    @property
    def fields(self) -> str:
        """The five fields that the expression or its alias means."""
        return ALIASES.get(self.cron.strip().lower(), self.cron)

    @property
    def zone(self) -> tzinfo:
        return zone_named(self.timezone)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema of both forms."""
        return {"anyOf": [handler(core_schema), {"type": "string", "examples": ["0 3 * * *", "@daily"]}]}

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return {"cron": value} if isinstance(value, str) else value

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, value: str) -> str:
        from cronsim import CronSim, CronSimError

        fields = ALIASES.get(value.strip().lower(), value)
        if len(fields.split()) != 5:
            message = f"it is neither a cron expression of five fields nor one of {', '.join(ALIASES)}"
            raise ValueError("; ".join(filter(None, (message, did_you_mean(value, ALIASES)))))
        try:
            comes = next(CronSim(fields, datetime(2024, 1, 1)), None)  # noqa: DTZ001  (days of the calendar, of no zone)
        except CronSimError as problem:
            raise ValueError(_wrong_field(str(problem))) from None
        if comes is None:
            raise ValueError("it names a day that never comes")
        return value


def _wrong_field(message: str) -> str:
    """What is wrong with an expression, from the words of the library: `Bad minute`."""
    field = message.removeprefix("Bad ")
    allowed = f"allowed are {_FIELDS[field]}; lists 1,15, ranges 1-5 and steps */2" if field in _FIELDS else message
    return f"the {field} is not right: {allowed}"


_SHORT = ["ttft_ms.p99 > 50", "latency_ms worse by 5%", "job failed", "no data for 24h", "agent lost"]
_WHEN = Literal["worse", "above", "below", "failed", "silent", "agent-lost"]
When = Annotated[
    _WHEN, WithJsonSchema({"anyOf": [{"enum": list(get_args(_WHEN))}, {"type": "string", "examples": _SHORT}]})
]
_NAME = {"type": "string"}
ChannelNames = Annotated[tuple[str, ...], WithJsonSchema({"anyOf": [{"type": "array", "items": _NAME}, _NAME]})]


class Alert(Section):
    """When to tell people.

    Short form: a text such as `ttft_ms.p99 > 50` or `job failed` stands for `{when: …}`.
    """

    metric: str | None = None
    """Metric, or a statistic of it: `ttft_ms.p99`; for `above` and `below`, and for `worse`, which is about every
    metric when left out. `*` stands for any text."""
    when: When = "worse"
    """What has to happen: a change for the worse, a limit passed, a failed job, no result, an agent gone. Or in short:
    `ttft_ms.p99 > 50`, `worse by 5%`, `job failed`, `no data for 24h`, `agent lost`."""
    by: Share | None = None
    """By how much at least, for `worse`; any proven change when left out."""
    value: float | None = None
    """The limit, for `above` and `below`, in the unit of the metric."""
    after: Duration | None = Field(default=None, gt=0)
    """How long without a result, for `silent`, or without a sign of life, for `agent-lost`; such as `24h`."""
    severity: Literal["info", "warning", "critical"] = "warning"
    """How bad it is."""
    quiet: str | None = None
    """Hours without notifications, such as `22:00-07:00`; alerts that opened meanwhile are sent afterwards."""
    timezone: Annotated[str, AfterValidator(_is_a_zone)] = "UTC"
    """Time zone of the quiet hours, such as `Europe/Luxembourg`."""
    at_most_every: Duration = Field(default=0.0, ge=0)
    """Notify at most once in this time; what happened meanwhile is sent afterwards."""
    notify: ChannelNames = ()
    """Name of the channel to notify, or a list; all channels of the server when left out."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema of both forms."""
        return {"anyOf": [handler(core_schema), {"type": "string", "examples": _SHORT}]}

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: object) -> object:
        if isinstance(value, str):
            return _in_full({"when": value})
        if not isinstance(value, dict):
            return value
        rule = value | ({"notify": _names(value["notify"])} if "notify" in value else {})
        return _in_full(rule) if isinstance(rule.get("when"), str) else rule

    @field_validator("quiet")
    @classmethod
    def _are_hours(cls, value: str | None) -> str | None:
        if value is not None and not _HOURS.match(value):
            raise ValueError(f"{value!r} are no hours; write 22:00-07:00")
        if value is not None and value[:5] == value[6:]:
            raise ValueError(f"{value!r} is the whole day: no notification would ever be sent")
        return value

    @field_validator("notify")
    @classmethod
    def _are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not name.strip() or len(name) > _LONGEST_CHANNEL:
                raise ValueError(f"{name!r} is not a valid channel name: 1 to {_LONGEST_CHANNEL} characters")
        return value

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Alert:
        for key in _NEEDED.get(self.when, ()):
            if getattr(self, key) is None:
                raise ValueError(f"an alert with when: {self.when} needs {key}")
        used = (*_NEEDED.get(self.when, ()), *_ALLOWED.get(self.when, ()))
        for key in ("metric", "by", "value", "after"):
            if getattr(self, key) is not None and key not in used:
                raise ValueError(f"{key} would do nothing for an alert with when: {self.when}; remove it")
        return self


_NEEDED = {"above": ("metric", "value"), "below": ("metric", "value"), "silent": ("after",)}
_ALLOWED = {"worse": ("metric", "by"), "agent-lost": ("after",)}
_LONGEST_CHANNEL = 100
_WORDS = {"job failed": "failed", "failed": "failed", "agent lost": "agent-lost", "agent-lost": "agent-lost"}
_LIMIT = re.compile(r"^(?P<metric>[^\s<>]+)\s*(?P<sign>[<>]=?)\s*(?P<value>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)$")
_WORSE = re.compile(r"^(?:(?P<metric>\S+)\s+)?worse(?:\s+by\s+(?P<by>\S+(?:\s*%)?))?$")
_SILENT = re.compile(r"^no (?:data|results?) for (?P<after>\S.*)$")
_STATISTIC_ALONE = re.compile(r"^(mean|median|min|max|p50|p90|p95|p99|p99_9|std)$")


def _names(value: object) -> object:
    """Names of channels: one alone, or a list."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _in_full(rule: dict[str, object]) -> dict[str, object]:
    """A rule whose `when` is written in short, with a key for each part of it."""
    short = " ".join(str(rule["when"]).split())
    parts = _parts_of(short)
    if parts is None:
        if short in get_args(_WHEN):
            return rule
        raise ValueError(f"{short!r} is no rule; write for example {', '.join(_SHORT)}")
    twice = sorted(key for key in parts if key not in ("when", "metric") and key in rule)
    metric, name = parts.get("metric"), rule.get("metric")
    if isinstance(metric, str) and isinstance(name, str):
        if not _STATISTIC_ALONE.match(metric):
            twice.append("metric")
        parts["metric"] = f"{name}.{metric}"
    elif isinstance(metric, str) and _STATISTIC_ALONE.match(metric):
        raise ValueError(f"when: {short!r} does not say of which metric; write for example ttft_ms.{short}")
    if twice:
        raise ValueError(f"when: {short!r} says {twice[0]} already; remove one of them")
    return {**rule, **parts}


def _parts_of(short: str) -> dict[str, object] | None:
    """The keys of a rule in short form; None for the plain words and for what is not a rule."""
    if short in _WORDS:
        return {"when": _WORDS[short]}
    if match := _SILENT.match(short):
        return {"when": "silent", "after": match["after"]}
    if match := _WORSE.match(short):
        parts = {"when": "worse", "metric": match["metric"], "by": match["by"]}
        return {key: text for key, text in parts.items() if text is not None}
    if match := _LIMIT.match(short):
        way = "above" if match["sign"].startswith(">") else "below"
        return {"when": way, "metric": match["metric"], "value": float(match["value"])}
    if re.search(r"[<>]", short):
        raise ValueError(f"{short!r} is no limit; write for example ttft_ms.p99 > 50, the number in the metric's unit")
    return None
