"""Names of what a store or a server keeps, for completion: one question, and no word where there is no answer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from assay.store.location import store_folder

MOST = 50
PATIENCE_S = 1.0
_FIRST = (("latest", "the newest campaign"), ("latest~1", "the one before"))
_QUERIES = {
    "campaigns": "select id, benchmark || ', ' || substr(created_at, 1, 16) from campaigns where id like ? escape '\\' "
    "order by created_at desc limit ?",
    "jobs": "select id, label from jobs where id like ? escape '\\' order by submitted_at desc, id desc limit ?",
    "agents": "select name, state from agents where name like ? escape '\\' order by name limit ?",
    "benchmarks": "select distinct benchmark, '' from campaigns where benchmark like ? escape '\\' "
    "order by benchmark limit ?",
}
# Kind → what a record of a server is called, and what explains it.
_FIELDS = {
    "campaigns": ("id", "benchmark"),
    "jobs": ("id", "label"),
    "agents": ("name", "state"),
    "benchmarks": ("name", "description"),
}


def names(kind: str, server: str, given: Mapping[str, str], incomplete: str) -> Iterator[tuple[str, str]]:
    """The newest things of a kind whose name begins with what was typed, each with what explains it.

    Args:
        server: its URL; none for the store on this machine.
        given: values of options: `store`, `token_file` and `ca`.
    """
    if server:
        yield from _of_server(kind, server, given)
        return
    if kind == "campaigns":
        yield from _FIRST
    yield from _of_store(kind, store_folder(given.get("store")), incomplete)


def _of_store(kind: str, folder: Path, incomplete: str) -> list[tuple[str, str]]:
    escaped = incomplete.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    try:
        # Read only, and the log of the last writers is read too.
        connection = sqlite3.connect(f"{(folder / 'assay.db').as_uri()}?mode=ro", uri=True, timeout=PATIENCE_S)
        with closing(connection):
            rows = connection.execute(_QUERIES[kind], (f"{escaped}%", MOST)).fetchall()
    except (sqlite3.Error, OSError, ValueError):
        return []
    return [(str(name), str(meaning)) for name, meaning in rows]


def _of_server(kind: str, server: str, given: Mapping[str, str]) -> list[tuple[str, str]]:
    name, meaning = _FIELDS[kind]
    try:
        items = _fetched(f"{server.rstrip('/')}/api/v1/{kind}?limit={MOST}", given)["items"]
        return [(str(item[name]), str(item.get(meaning, ""))) for item in items if name in item]
    except Exception:  # whatever answers there: a completion has no words for it
        return []


def _fetched(url: str, given: Mapping[str, str]) -> Any:  # noqa: ANN401  (a JSON document)
    import json
    import os
    from http.client import HTTPConnection, HTTPSConnection
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port)
    if parts.scheme == "https":
        import ssl

        authority = given.get("ca") or os.environ.get("ASSAY_CA") or None
        context = ssl.create_default_context(cafile=authority)
        connection: HTTPConnection = HTTPSConnection(*address, timeout=PATIENCE_S, context=context)
    else:
        connection = HTTPConnection(*address, timeout=PATIENCE_S)
    file = given.get("token_file") or os.environ.get("ASSAY_TOKEN_FILE")
    token = Path(file).read_text().strip() if file else os.environ.get("ASSAY_TOKEN", "").strip()
    with closing(connection):
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
        return json.loads(connection.getresponse().read())
