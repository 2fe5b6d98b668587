"""Panels of a Grafana dashboard as plain documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SOURCE = {"type": "prometheus", "uid": "${source}"}
"""The data source that the reader chooses at the top of a dashboard."""
_WIDTH, _HEIGHT = 12, 8
_ALL = ".+"


@dataclass(frozen=True, slots=True)
class Query:
    """One expression and what its lines are called."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    highest: float | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """A list at the top of a dashboard from which the reader chooses."""

    name: str
    metric: str
    """The metric whose labels are the choices."""


def dashboard(uid: str, title: str, about: str, choices: Sequence[Choice], panels: Sequence[Panel]) -> dict[str, Any]:
    variables = [_source(), *(_choice(choice, choices[:place]) for place, choice in enumerate(choices))]
    return {
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["assay"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "utc",
        "templating": {"list": variables},
        "panels": [_panel(panel, place) for place, panel in enumerate(panels)],
        "links": [
            {
                "type": "dashboards",
                "tags": ["assay"],
                "title": "assay",
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "annotations": {"list": []},
    }


def _source() -> dict[str, Any]:
    return {
        "name": "source",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
        "current": {},
        "options": [],
    }


def _choice(choice: Choice, before: Sequence[Choice]) -> dict[str, Any]:
    known = ",".join(f'{one.name}=~"${one.name}"' for one in before)
    return {
        "name": choice.name,
        "label": choice.name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": f"label_values({choice.metric}{{{known}}}, {choice.name})", "refId": choice.name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": _ALL,
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _panel(panel: Panel, place: int) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "custom": {"spanNulls": False, "showPoints": "auto"}}
    if panel.highest is not None:
        defaults["max"] = panel.highest
    options: dict[str, Any] = {
        "tooltip": {"mode": "multi"},
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["mean", "max"]},
    }
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
        defaults = {"unit": panel.unit}
    return {
        "id": place + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": _WIDTH * (place % 2), "y": _HEIGHT * (place // 2), "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "expr": query.expression,
                "legendFormat": query.legend,
                "datasource": SOURCE,
            }
            for number, query in enumerate(panel.queries)
        ],
    }
