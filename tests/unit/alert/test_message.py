"""What people are told: numbers with intervals, the cause, links; the same facts in every form, and nothing twice."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.alert.notify.samples import ALERT, AT, MEMBER, MOVED, REOPENED, RESOLVED, SAYS, drawing, message

from assay.alert.message import (
    NoticeDocument,
    began_at,
    compose,
    new_notice,
    pictured,
    prepared,
    read_notice,
    write_notice,
)
from assay.alert.records import AlertRecord, NotificationState
from assay.errors import UsageError
from assay.store.series import Point


def test_text_markdown_and_html_report_the_same_facts():
    told = message()
    assert told.subject == "[warning] ttft_ms.p99 of chat capacity is worse"
    for form in (told.text, told.html, told.markdown.replace("\\", "")):
        assert "212 ms" in form
        assert "221 ms" in form
        assert "+4.4 % [+2.1 %, +6.6 %]" in form
        assert "up to 98.7 %" in form
        assert "driver" in form
        assert "550.54" in form
        assert "https://assay.example.com/series/0123456789abcdef" in form
        assert "Opened, 2025-01-02 03:00 UTC. Severity warning, benchmark chat capacity." in form
        assert form.count("What may explain it: code: commit a1b2c3d") == 1
        assert SAYS not in form, "the table says it already"


def test_a_cause_that_no_sentence_names_is_named():
    assert message(replace(ALERT, sentences=())).text.count("What may explain it: code: commit") == 1


def test_the_plain_text_as_a_whole():
    assert message().text == (
        "ttft_ms.p99 of chat capacity is worse\n\n"
        "Opened, 2025-01-02 03:00 UTC. Severity warning, benchmark chat capacity.\n\n"
        "ttft_ms.p99 · rate=4 · h200\n"
        "  212 ms → 221 ms, +4.4 % [+2.1 %, +6.6 %], real with a probability of up to 98.7 %\n\n"
        "What may explain it: code: commit a1b2c3d → e4f5a6b.\n\n"
        "  commit: a1b2c3d → e4f5a6b\n"
        "  driver: 550.54 → 560.35\n\n"
        "alert: https://assay.example.com/alerts/a1e27000a1e27000\n"
        "series: https://assay.example.com/series/0123456789abcdef\n"
    )


@pytest.mark.parametrize(
    ("alert", "subject", "said"),
    [
        (ALERT, "[warning] ", "Opened, "),
        (RESOLVED, "[resolved] ", "Resolved, 2025-01-02 04:00 UTC, first opened 2025-01-02 03:00 UTC: it recovered. "),
        (REOPENED, "[warning, reopened] ", "Reopened, 2025-01-02 05:00 UTC, first opened 2025-01-02 03:00 UTC."),
        (replace(REOPENED, telling=NotificationState(4, "grown")), "[warning, grown] ", "More has moved, "),
        (replace(ALERT, telling=NotificationState(2, "expected"), by="ada", changed_at=AT + 60), "[expected] ",
         "Marked as expected, 2025-01-02 03:01 UTC, first opened 2025-01-02 03:00 UTC, by ada."),
    ],
)  # fmt: skip
def test_the_subject_and_the_first_sentence_say_what_happened(alert, subject, said):
    told = message(alert)
    assert told.subject.startswith(subject)
    assert said in told.text


def test_where_no_share_can_be_reported_the_difference_is():
    moved = replace(MOVED, change=None, change_interval=None, before=0.0, after=3.2, difference=3.2)
    told = message(replace(ALERT, members=(replace(MEMBER, moved=moved),)))
    assert "0.0 ms → 3.2 ms, +3.2 ms [+4.5, +14.1]" in told.text


def test_what_has_recovered_is_not_reported_as_if_it_stood():
    gone = replace(MEMBER, subject="x", name="another series", state="recovered")
    assert "another series" not in message(replace(ALERT, members=(MEMBER, gone))).text
    assert "another series" in message(replace(RESOLVED, members=(gone,))).text


def test_alerts_without_numbers_are_reported_by_their_sentences():
    lost = replace(
        ALERT,
        kind="agent-lost",
        members=(replace(MEMBER, moved=None, series="", says="box is lost."),),
        sentences=("box is lost.",),
        differs=(),
        cause="",
        title="agent box is lost",
    )
    told = message(lost, picture=False)
    assert "box is lost." in told.text
    assert told.rows == ()
    assert "<table" not in told.html


def test_many_are_cut_and_counted():
    members = tuple(replace(MEMBER, subject=str(n), name=f"series {n}") for n in range(50))
    told = message(replace(ALERT, members=members, sentences=(SAYS,) * 20 + ("and 30 more",)))
    assert told.text.count("  212 ms → 221 ms") == 20
    for form in (told.text, told.markdown, told.html):
        assert "… and 30 more." in form
        assert form.count("30 more") == 1


def test_without_an_address_there_are_no_links():
    told = compose("k", NoticeDocument(ALERT, None, prepared=True), "")
    assert (told.url, told.links) == ("", ())
    assert "http" not in told.text


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)


@given(st.text(max_size=200))
def test_no_name_can_become_markup(text):
    alert = replace(
        ALERT,
        title=text,
        benchmark=text,
        sentences=(text,),
        by=text,
        cause=text,
        members=(replace(MEMBER, name=text, says=text),),
    )
    told = message(alert, picture=False)
    parser = _Tags()
    parser.feed(told.html)
    assert parser.tags <= {"html", "body", "h2", "p", "table", "tr", "th", "td", "span", "a"}
    assert "\n" not in told.subject
    assert "\r" not in told.subject


@given(st.text(alphabet="@#!<>[]|`*_ aB1\n", max_size=40))
def test_markdown_calls_nobody_and_keeps_its_table(text):
    told = message(replace(ALERT, members=(replace(MEMBER, name=text),)), picture=False)
    row = next(line for line in told.markdown.splitlines() if "221 ms" in line)
    assert row.replace("\\|", "").count("|") == 6
    assert "@a" not in told.markdown
    assert "#1" not in told.markdown


def test_what_a_notice_keeps_comes_back_the_same():
    for told in (NoticeDocument(ALERT), NoticeDocument(REOPENED, drawing(), prepared=True, done=("a@b",))):
        assert read_notice(write_notice(told), "k") == told
    assert read_notice(write_notice(NoticeDocument(ALERT), done=("x",)), "k").done == ("x",)
    with pytest.raises(UsageError, match="not a NoticeDocument document"):
        read_notice('{"alert": {"id": 1}}', "k")


def test_a_notice_is_named_by_alert_turn_and_channel():
    made = new_notice(REOPENED, "team-chat", 5.0)
    assert (made.key, made.channel, made.alert, made.not_before) == (
        f"{ALERT.id}:3:team-chat",
        "team-chat",
        ALERT.id,
        5.0,
    )
    assert read_notice(made.document, made.key).alert == REOPENED
    long = [new_notice(ALERT, "x" * 99 + letter).key for letter in "ab"]
    assert len(set(long)) == 2
    assert max(map(len, long)) <= 120


def test_an_alert_began_when_it_last_came_back():
    assert (began_at(ALERT), began_at(RESOLVED), began_at(REOPENED)) == (AT, AT, REOPENED.changed_at)
    assert began_at(AlertRecord("a", "k", "failed", "open", "info", "", "t", (), 5.0, 9.0)) == 5.0


def points(count=60, change_at=40):
    return [Point(n, MOVED.since + (n - change_at) * 3600, 212.0 + 9.4 * (n >= change_at), 0.5) for n in range(count)]


def test_the_picture_shows_the_series_that_moved_with_its_change():
    asked = []

    def lookup(series):
        asked.append(series)
        return points()

    whole = prepared(NoticeDocument(ALERT), lookup)
    assert asked == [MEMBER.series]
    assert whole.prepared
    assert (whole.drawing.change_at, whole.drawing.before, whole.drawing.after) == (40, 212.0, 221.4)
    assert len(whole.drawing.values) == 60
    assert whole.drawing.first == "2024-12-31"
    assert prepared(whole, lookup) is whole
    assert len(asked) == 1


def test_a_result_that_is_not_believed_is_not_drawn():
    some = [replace(one, verdict="invalid") if one.id == 3 else one for one in points()]
    assert prepared(NoticeDocument(ALERT), lambda _: some).drawing.values[3] is None


def test_where_there_is_nothing_to_draw_there_is_no_picture():
    assert prepared(NoticeDocument(ALERT), lambda _: points(1)).drawing is None
    bare = replace(ALERT, members=(replace(MEMBER, series=""),))
    assert pictured(bare) is None
    assert prepared(NoticeDocument(bare), lambda _: pytest.fail("nothing to look up")).prepared


def test_what_still_stands_is_drawn_before_what_does_not():
    gone = replace(MEMBER, subject="x", series="other", state="recovered")
    assert pictured(replace(ALERT, members=(gone, MEMBER))).series == MEMBER.series
    assert pictured(replace(ALERT, members=(gone,))).series == "other"
