from __future__ import annotations

import json
import re

import jsonschema

from assay.analyse.records import CampaignRecord
from assay.documents import from_json, to_plain
from assay.report.export import result_json, result_schema
from assay.report.markdown import render_markdown

JOB_KEYS = {"job", "digest", "point", "state", "verdict", "checks", "metrics", "runs", "environment", "error"}
METRIC_KEYS = {"unit", "better", "count", "mean", "std", "median", "min", "max", "interval", "outliers"} | {
    "p90",
    "p95",
    "p99",
}


def test_the_document_fits_its_schema(build):
    schema = result_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for record in (build.honest(), build.hostile(), build.campaign()):
        jsonschema.validate(json.loads(result_json(record)), schema)
    assert schema["$id"] == "urn:assay:result:1"


def test_the_document_holds_what_readers_rely_on(build):
    document = json.loads(result_json(build.honest()))
    assert document["schema"] == "assay.result/1"
    for job in document["jobs"]:
        assert set(job) >= JOB_KEYS
        assert all(set(metric) >= METRIC_KEYS for metric in job["metrics"].values())
        assert all(set(check) == {"name", "passed", "detail"} for check in job["checks"])


def test_the_document_reads_back(build):
    record = build.honest()
    assert to_plain(from_json(CampaignRecord, result_json(record), source="test")) == to_plain(record)


def test_markdown_has_table_doubts_and_environment(build):
    text = render_markdown(build.honest())
    assert "| batch=1 threads=1 | latency\\_ms | 12.09 | \\[11.99, 12.18\\] | ±0.8 % | 13.26 | 5×906 | valid |" in text
    assert "- **batch=8 threads=2** (suspect): machine quiet: other programs" in text
    assert "| `machine.cpu` | AMD EPYC" in text


def test_markdown_rows_keep_their_columns_whatever_the_names_say(build):
    text = render_markdown(build.hostile())
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) > 3
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table
    assert "<script" not in re.sub(r"`[^`]*`", "", text)
