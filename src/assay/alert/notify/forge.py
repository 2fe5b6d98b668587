"""Issues on GitHub and GitLab: one per alert, commented and reopened when it comes back, closed when it is resolved.

Every issue and comment carries a mark that readers do not see. Before anything is written, it is looked for: what a
try that was cut short has written already is found and not written again.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote, urlencode

from pydantic import Field, field_validator

from assay.alert.message import Message
from assay.alert.notify.http import Caller, HttpChannel, HttpReply
from assay.alert.notify.protocol import Address, Name, NotifyError, Secret, revealed
from assay.clock import iso
from assay.report.wording import one_line

# What the number, the open state and the text of an issue are called.
_GITHUB = ("number", "open", "body")
_GITLAB = ("iid", "opened", "description")
_PER_PAGE = 100
_MOST_PAGES = 20
_LONGEST_TITLE = 250
_LONGEST_BODY = 60_000
_REPOSITORY = re.compile(r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue as far as it matters here."""

    number: int
    is_open: bool
    text: str


class Forge(HttpChannel):
    """A place with issues."""

    token: Secret
    """Token that may write issues."""
    issue: int | None = Field(default=None, ge=1)
    """Number of one issue that gets a comment for everything; each alert has an issue of its own when left out."""
    labels: tuple[Name, ...] = ("assay",)
    """Labels of new issues; the first one is how they are found again."""

    def send(self, message: Message) -> None:
        """Write, comment, reopen or close the issue of the alert."""
        desk = IssueTracker(self.caller(), revealed(self.url).rstrip("/"), self.headers())
        if self.issue is not None:
            self._comment(desk, self.issue, message)
            return
        issue = self._find(desk, message)
        if issue is None:
            body = f"{_cut(message.markdown)}\n\n{mark('alert', message.alert.id)}\n{mark('notice', message.key)}"
            issue = self.create(desk, _title(message), body)
        elif mark("notice", message.key) not in issue.text:
            self._comment(desk, issue.number, message)
        wanted = message.event not in ("resolved", "expected", "test")
        if issue.is_open != wanted:
            self.turn(desk, issue.number, is_open=wanted)

    def _find(self, desk: IssueTracker, message: Message) -> Issue | None:
        wanted = mark("alert", message.alert.id)
        return next((issue for issue in self.candidates(desk, message) if wanted in issue.text), None)

    def _comment(self, desk: IssueTracker, number: int, message: Message) -> None:
        wanted = mark("notice", message.key)
        if not any(wanted in text for text in self.comments(desk, number, message)):
            self.say(desk, number, f"{_cut(message.markdown)}\n\n{wanted}")

    @abstractmethod
    def headers(self) -> dict[str, str]:
        """What every call carries."""

    @abstractmethod
    def candidates(self, desk: IssueTracker, message: Message) -> Iterator[Issue]:
        """Issues among which that of the alert is, if it exists."""

    @abstractmethod
    def comments(self, desk: IssueTracker, number: int, message: Message) -> Iterator[str]:
        """The texts of comments on an issue, not older than the message."""

    @abstractmethod
    def create(self, desk: IssueTracker, title: str, body: str) -> Issue:
        """Write a new issue."""

    @abstractmethod
    def say(self, desk: IssueTracker, number: int, body: str) -> None:
        """Comment on an issue."""

    @abstractmethod
    def turn(self, desk: IssueTracker, number: int, *, is_open: bool) -> None:
        """Reopen or close an issue."""


class GitHub(Forge):
    """Issues of a repository on GitHub, or on a GitHub of your own."""

    kind: Literal["github"]
    url: Address = "https://api.github.com"
    """Address of the API; `https://HOST/api/v3` for one of your own."""
    repository: str
    """Owner and name, such as `example/engine`."""

    @field_validator("repository")
    @classmethod
    def _is_a_repository(cls, value: str) -> str:
        if not _REPOSITORY.match(value):
            raise ValueError("owner/name is needed, such as example/engine")
        return value

    def headers(self) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {revealed(self.token)}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }

    def candidates(self, desk: IssueTracker, message: Message) -> Iterator[Issue]:
        """Those with our label; then, as a label may not have been set, the newest since the alert began."""
        issues = f"/repos/{self.repository}/issues"
        common = {"state": "all", "sort": "created", "direction": "desc"}
        queries = [{**common, "labels": self.labels[0]}] if self.labels else []
        for query in (*queries, {**common, "since": _since(message.alert.opened_at)}):
            for issue in desk.pages(issues, query):
                if "pull_request" not in issue:
                    yield _issue(issue, *_GITHUB)

    def comments(self, desk: IssueTracker, number: int, message: Message) -> Iterator[str]:
        path = f"/repos/{self.repository}/issues/{number}/comments"
        for comment in desk.pages(path, {"since": _since(message.at)}):
            yield str(comment.get("body") or "")

    def create(self, desk: IssueTracker, title: str, body: str) -> Issue:
        document = {"title": title, "body": body, "labels": list(self.labels)}
        return _issue(desk.write("POST", f"/repos/{self.repository}/issues", document), *_GITHUB)

    def say(self, desk: IssueTracker, number: int, body: str) -> None:
        desk.write("POST", f"/repos/{self.repository}/issues/{number}/comments", {"body": body})

    def turn(self, desk: IssueTracker, number: int, *, is_open: bool) -> None:
        state = {"state": "open"} if is_open else {"state": "closed", "state_reason": "completed"}
        desk.write("PATCH", f"/repos/{self.repository}/issues/{number}", state)


class GitLab(Forge):
    """Issues of a project on GitLab, or on a GitLab of your own."""

    kind: Literal["gitlab"]
    url: Address = "https://gitlab.com"
    """Address of the GitLab."""
    project: str | int
    """Path, such as `group/engine`, or number of the project."""

    def headers(self) -> dict[str, str]:
        return {"PRIVATE-TOKEN": revealed(self.token)}

    def candidates(self, desk: IssueTracker, message: Message) -> Iterator[Issue]:
        """Those whose description holds the id of the alert."""
        query = {"search": message.alert.id, "in": "description", "scope": "all", "order_by": "created_at"}
        for issue in desk.pages(f"{self._path}/issues", query):
            yield _issue(issue, *_GITLAB)

    def comments(self, desk: IssueTracker, number: int, message: Message) -> Iterator[str]:
        """Comments, the newest first, until they are older than the message."""
        query = {"order_by": "created_at", "sort": "desc"}
        oldest = _since(message.at)
        for comment in desk.pages(f"{self._path}/issues/{number}/notes", query):
            if str(comment.get("created_at") or oldest) < oldest:
                return
            yield str(comment.get("body") or "")

    def create(self, desk: IssueTracker, title: str, body: str) -> Issue:
        document = {"title": title, "description": body, "labels": ",".join(self.labels)}
        return _issue(desk.write("POST", f"{self._path}/issues", document), *_GITLAB)

    def say(self, desk: IssueTracker, number: int, body: str) -> None:
        desk.write("POST", f"{self._path}/issues/{number}/notes", {"body": body})

    def turn(self, desk: IssueTracker, number: int, *, is_open: bool) -> None:
        desk.write("PUT", f"{self._path}/issues/{number}", {"state_event": "reopen" if is_open else "close"})

    @property
    def _path(self) -> str:
        return f"/api/v4/projects/{quote(str(self.project), safe='')}"


@dataclass(frozen=True, slots=True)
class IssueTracker:
    """Makes the calls of one message to one API."""

    caller: Caller
    base: str
    headers: Mapping[str, str]

    def pages(self, path: str, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Every item of a list, page by page."""
        for page in range(1, _MOST_PAGES + 1):
            query_text = urlencode({**query, "per_page": str(_PER_PAGE), "page": str(page)})
            items = self._items(self.caller.call("GET", f"{self.base}{path}?{query_text}", None, self.headers))
            yield from items
            if len(items) < _PER_PAGE:
                return

    def write(self, method: str, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Write something and return it as it is now."""
        body = json.dumps(document, ensure_ascii=False).encode()
        answer = self.caller.call(method, f"{self.base}{path}", body, self.headers).document()
        if not isinstance(answer, dict):
            raise _not_understood()
        return answer

    def _items(self, answer: HttpReply) -> list[dict[str, Any]]:
        documents = answer.document()
        if not isinstance(documents, list) or not all(isinstance(document, dict) for document in documents):
            raise _not_understood()
        return documents


def mark(what: str, name: str) -> str:
    """A mark in Markdown that readers do not see."""
    safe = re.sub(r"[^A-Za-z0-9_.:-]", "-", name).replace("--", "-")
    return f"<!-- assay-{what}:{safe} -->"


def _issue(item: Mapping[str, Any], number: str, open_: str, text: str) -> Issue:
    """An issue of a forge that calls its number and text so, and what stands open so."""
    try:
        return Issue(int(item[number]), item["state"] == open_, str(item.get(text) or ""))
    except (KeyError, TypeError, ValueError):
        raise _not_understood() from None


def _not_understood() -> NotifyError:
    return NotifyError("the answer is not what the API promises", code="answer", try_="check the address of the API")


def _since(moment: float) -> str:
    # The clock of the forge may be behind ours.
    return iso(datetime.fromtimestamp(moment - 3600, UTC)).replace("+00:00", "Z")


def _title(message: Message) -> str:
    title = one_line(message.alert.title)
    return title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 2]} …"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_BODY else f"{text[:_LONGEST_BODY]}\n\n…"
