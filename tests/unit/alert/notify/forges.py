"""A GitHub and a GitLab as far as issues go, by the words of their documentation."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.unit.alert.notify.receivers import Received, Reply


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _json(document: Any, status: int = 200) -> Reply:
    return Reply(status, {"Content-Type": "application/json"}, json.dumps(document).encode())


class FakeForge:
    """Keeps issues and comments. The answers to the numbers in `lost` never arrive, though what was asked is done."""

    prefix = ""
    body = "body"

    def __init__(self, *, sets_labels: bool = True) -> None:
        self.issues: list[dict[str, Any]] = []
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.writes: list[str] = []
        self.lost: set[int] = set()
        self.sets_labels = sets_labels
        self.tokens: set[str] = set()

    def __call__(self, request: Received) -> Reply:
        self.tokens.add(request.headers.get("authorization", "") or request.headers.get("private-token", ""))
        path = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(path.query).items()}
        inside = unquote(path.path).removeprefix(self.prefix)
        document = json.loads(request.body) if request.body else {}
        if inside == path.path and self.prefix not in unquote(path.path):
            return _json({"message": "Not Found"}, 404)
        reply = self._answer(request.method, inside, query, document)
        if request.method != "GET":
            self.writes.append(f"{request.method} {inside}")
            if len(self.writes) in self.lost:
                return Reply(0)
        return reply

    def _answer(self, method: str, path: str, query: dict[str, str], document: dict[str, Any]) -> Reply:
        if method == "GET" and path == "/issues":
            return _json(_page([one for one in reversed(self.issues) if self.matches(one, query)], query))
        if method == "POST" and path == "/issues":
            return _json(self.add(document), 201)
        found = re.fullmatch(r"/issues/(\d+)(/\w+)?", path)
        if found is None or int(found[1]) > len(self.issues):
            return _json({"message": "Not Found"}, 404)
        issue = self.issues[int(found[1]) - 1]
        comments = self.comments.setdefault(int(found[1]), [])
        if found[2] and method == "POST":
            comments.append({"body": document["body"], "created_at": _now(), "updated_at": _now()})
            return _json(comments[-1], 201)
        if found[2]:
            return _json(_page(comments if query.get("sort") != "desc" else comments[::-1], query))
        return _json(self.change(issue, document))

    def add(self, document: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def change(self, issue: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def matches(self, issue: dict[str, Any], query: dict[str, str]) -> bool:
        raise NotImplementedError


class FakeGitHub(FakeForge):
    prefix = "/repos/example/engine"

    def add(self, document: dict[str, Any]) -> dict[str, Any]:
        labels = [{"name": name} for name in document["labels"]] if self.sets_labels else []
        self.issues.append(
            {
                "number": len(self.issues) + 1,
                "state": "open",
                "title": document["title"],
                "body": document["body"],
                "labels": labels,
                "updated_at": _now(),
            }
        )
        return self.issues[-1]

    def change(self, issue: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
        assert document["state"] in ("open", "closed")
        issue.update(document)
        return issue

    def matches(self, issue: dict[str, Any], query: dict[str, str]) -> bool:
        state = query.get("state", "open")
        fits = state in ("all", issue["state"])
        if "labels" in query:
            fits &= query["labels"] in [label["name"] for label in issue["labels"]]
        return fits and issue["updated_at"] >= query.get("since", "")


class FakeGitLab(FakeForge):
    prefix = "/api/v4/projects/group/engine"
    body = "description"

    def add(self, document: dict[str, Any]) -> dict[str, Any]:
        self.issues.append(
            {
                "iid": len(self.issues) + 1,
                "id": 1000 + len(self.issues),
                "state": "opened",
                "title": document["title"],
                "description": document["description"],
                "labels": document["labels"].split(","),
            }
        )
        return self.issues[-1]

    def change(self, issue: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
        issue["state"] = {"close": "closed", "reopen": "opened"}[document["state_event"]]
        return issue

    def matches(self, issue: dict[str, Any], query: dict[str, str]) -> bool:
        return query["search"] in issue["description"] and query["in"] == "description"


def _page(items: list[Any], query: dict[str, str]) -> list[Any]:
    size, page = int(query.get("per_page", 20)), int(query.get("page", 1))
    return items[(page - 1) * size : page * size]
