"""The files from which Grafana sets itself up, and those of a Prometheus that outlives campaigns."""

from __future__ import annotations

import json
from pathlib import Path

from assay.monitoring.grafana.dashboards import boards
from assay.monitoring.prometheus import configuration
from assay.spec.monitoring import Monitoring

_ABOUT = """\
# assay: dashboards for Grafana

Made by `assay monitoring files`.

- `provisioning/` and `dashboards/`: give them to Grafana as `/etc/grafana/provisioning` and the folder that
  `provisioning/dashboards/assay.yaml` names, or start Grafana with GF_PATHS_PROVISIONING set to `provisioning`.
- `prometheus.yml` (with --discovery): for a Prometheus of your own that watches one campaign. A campaign with
  `monitoring: true` starts one by itself and needs no such file.

A dashboard can also be imported by hand: Dashboards, New, Import, and the JSON file.
"""


def grafana_files(folder: Path, url: str, discovery: str | None = None) -> dict[str, str]:
    """Name of each file → its content.

    Args:
        discovery: folder of target files of a campaign, for a Prometheus of one's own.
    """
    source = {
        "apiVersion": 1,
        "datasources": [
            {
                "name": "assay",
                "uid": "assay",
                "type": "prometheus",
                "access": "proxy",
                "url": url,
                "isDefault": True,
                "jsonData": {"timeInterval": "1s", "httpMethod": "POST"},
            }
        ],
    }
    provider = {
        "apiVersion": 1,
        "providers": [
            {
                "name": "assay",
                "folder": "assay",
                "type": "file",
                "allowUiUpdates": True,
                "options": {"path": str((folder / "dashboards").absolute())},
            }
        ],
    }
    own = {} if discovery is None else {"prometheus.yml": configuration(discovery, Monitoring())}
    files = {
        "provisioning/datasources/assay.yaml": source,
        "provisioning/dashboards/assay.yaml": provider,
        **own,
        **{f"dashboards/{name}.json": board for name, board in boards().items()},
    }
    # JSON is YAML, with nothing to quote wrongly.
    return {"README.md": _ABOUT, **{name: json.dumps(content, indent=2) + "\n" for name, content in files.items()}}
