"""A mirror of the cluster: nothing is lost when it is cut off, and nothing is told twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.engines.kubernetes.client.api import SILENT, Change, Expired, ObjectList, name_of
from assay.engines.kubernetes.client.watch import Mirror, differences
from assay.errors import MeasureError


class Server:
    """Objects with a history, which can be cut short and forgotten."""

    def __init__(self) -> None:
        self.items: dict[str, dict] = {}
        self.history: list[tuple[int, str, dict]] = []
        self.version = 0
        self.forgotten = 0
        self.lists = 0
        self.cut_after: int | None = None
        self.away = False

    def put(self, name: str) -> None:
        what = "MODIFIED" if name in self.items else "ADDED"
        self.version += 1
        uid = self.items[name]["metadata"]["uid"] if name in self.items else f"u{self.version}"
        self.items[name] = {"metadata": {"name": name, "uid": uid, "resourceVersion": str(self.version)}}
        self.history.append((self.version, what, self.items[name]))

    def remove(self, name: str) -> None:
        if name in self.items:
            self.version += 1
            old = self.items.pop(name)
            last = {"metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
            self.history.append((self.version, "DELETED", last))

    def forget(self) -> None:
        self.forgotten = self.version
        self.history.clear()

    def list(self, kind, selector="", *, fields="") -> ObjectList:
        self._answer()
        self.lists += 1
        return ObjectList(tuple(self.items.values()), str(self.version))

    def watch(self, kind, selector="", *, fields="", since, within_s) -> Iterator[Change]:
        self._answer()
        if int(since) < self.forgotten:
            raise Expired("too old")
        for number, (_, what, item) in enumerate([one for one in self.history if one[0] > int(since)]):
            if self.cut_after is not None and number >= self.cut_after:
                raise MeasureError("cut", code=SILENT)
            yield Change(what, item)
        yield Change("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def _answer(self) -> None:
        if self.away:
            raise MeasureError("away", code=SILENT)


def mirror(server: Server) -> tuple[Mirror, list[Change]]:
    heard: list[Change] = []
    return Mirror(server, "Pod", notify=heard.append), heard


def test_it_lists_once_and_then_watches():
    server = Server()
    server.put("a")
    one, heard = mirror(server)
    assert one.poll(1.0) == 1
    server.put("b")
    server.remove("a")
    assert one.poll(1.0) == 2
    assert [name_of(item) for item in one.items] == ["b"]
    assert [(change.what, name_of(change.item)) for change in heard] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]
    assert server.lists == 1
    assert one.poll(1.0) == 0


def test_a_watch_that_was_cut_continues_where_it_was():
    server = Server()
    one, heard = mirror(server)
    one.poll(1.0)
    for name in "abcd":
        server.put(name)
    for cut_after in (2, 1):
        server.cut_after = cut_after
        with pytest.raises(MeasureError):
            one.poll(1.0)
    server.cut_after = None
    assert one.poll(1.0) == 1
    assert [name_of(change.item) for change in heard] == ["a", "b", "c", "d"]
    assert server.lists == 1, "nothing had to be listed again"


def test_what_the_server_forgot_is_listed_again_and_reported_once():
    server = Server()
    one, heard = mirror(server)
    server.put("a")
    server.put("b")
    one.poll(1.0)
    server.remove("a")
    server.put("b")
    server.put("c")
    server.forget()
    assert one.poll(1.0) == 3
    assert [(change.what, name_of(change.item)) for change in heard[2:]] == [
        ("DELETED", "a"),
        ("MODIFIED", "b"),
        ("ADDED", "c"),
    ]
    assert one.poll(1.0) == 0


def test_a_server_that_is_away_loses_nothing():
    server = Server()
    server.put("a")
    one, heard = mirror(server)
    one.poll(1.0)
    server.away = True
    for _ in range(3):
        with pytest.raises(MeasureError):
            one.poll(1.0)
    assert [name_of(item) for item in one.items] == ["a"], "what was known stays"
    server.put("b")
    server.forget()
    with pytest.raises(MeasureError):
        one.poll(1.0)
    server.away = False
    assert one.poll(1.0) == 1
    assert [name_of(change.item) for change in heard] == ["a", "b"]


def test_an_object_of_the_same_name_is_another_one():
    old = {"a": {"metadata": {"name": "a", "uid": "1", "resourceVersion": "5"}}}
    new = {"a": {"metadata": {"name": "a", "uid": "2", "resourceVersion": "9"}}}
    assert [change.what for change in differences(old, new)] == ["DELETED", "ADDED"]
    assert not list(differences(new, new))


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc")),
        st.tuples(st.just("remove"), st.sampled_from("abc")),
        st.tuples(st.sampled_from(["forget", "look", "cut", "away"]), st.just("")),
    ),
    max_size=40,
)


@given(ACTS)
@settings(max_examples=300)
def test_after_any_story_the_mirror_shows_what_is_there(acts):
    server = Server()
    one, heard = mirror(server)
    for act, name in acts:
        if act in ("put", "remove"):
            getattr(server, act)(name)
        elif act == "forget":
            server.forget()
        else:
            server.cut_after, server.away = (1 if act == "cut" else None), act == "away"
            with suppress(MeasureError):
                one.poll(1.0)
    server.cut_after, server.away = None, False
    one.poll(1.0)
    one.poll(1.0)
    assert {name_of(item): item for item in one.items} == server.items
    alive: dict[str, str] = {}
    for change in heard:  # every story that was told makes sense by itself
        name, uid = name_of(change.item), change.item["metadata"]["uid"]
        if change.what == "ADDED":
            assert name not in alive
            alive[name] = uid
        else:
            assert alive[name] == uid
            if change.what == "DELETED":
                del alive[name]
    assert set(alive) == set(server.items)
