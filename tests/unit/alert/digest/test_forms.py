"""A digest as Markdown and as a page: complete, escaped, and plain when there is nothing to tell."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.unit.alert.digest.material import DAY, SINCE, UNTIL, hostile, moved, named, spots, watched, week

from assay.alert.digest import build, digest_markdown
from assay.alert.digest.html import digest_html
from assay.alert.digest.records import MOST_PICTURES, DigestMaterial
from assay.alert.digest.wording import (
    change_text,
    interval_text,
    levels_text,
    probability_text,
    since_text,
    summary,
    title,
)

EMPTY = DigestMaterial("a store", (watched(), watched(named("p99"))))


def parsed(page: str) -> ET.Element:
    return ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def page(material=None, **spots_of) -> str:
    made = build(material or week(), SINCE, UNTIL, "1.0")
    drawn = {one.series.id: spots(one.before) for one in made.movements}
    return digest_html(made, spots_of or drawn)


def text_of(node: ET.Element) -> str:
    return " ".join("".join(node.itertext()).split())


def section(root: ET.Element, name: str) -> ET.Element:
    return next(node for node in root.iter("section") if node.get("id") == name)


# Words


def test_a_change_in_cells():
    one = moved(change=0.0612, low=0.052, high=0.0704)
    assert (change_text(one), interval_text(one)) == ("+6.1 %", "[+5.2, +7.0] %")
    assert levels_text(one) == "71.5 → 75.8 ms" or levels_text(one) == "71.5 → 75.9 ms"
    assert since_text(one) == "2025-12-29"
    assert since_text(replace(one, kind="drift", end_at=UNTIL - DAY)) == "2025-12-29 to 2025-12-31 (drift)"
    assert (probability_text(one), probability_text(replace(one, probability=1.0))) == ("≤ 99.8 %", "> 99.9 %")
    assert change_text(replace(one, change=None, before=0.0, after=2.5)) == "2.500 ms"
    assert interval_text(replace(one, low=None)) == "-"


def test_the_summary_of_a_week():
    made = build(week(), SINCE, UNTIL)
    assert title(made) == "What moved from 2025-12-25 to 2026-01-01"
    told = summary(made)
    assert told.startswith("5 of 5 series got results in these 7 days. 4 changes: 2 worse, 1 better, 1 undecided.")
    assert "2 failed jobs" in told
    assert "1 silent job" in told


@pytest.mark.parametrize(
    ("material", "told"),
    [
        (
            DigestMaterial("x"),
            "There is no series yet: results of the same job on the same kind of machine become one.",
        ),
        (EMPTY, "2 of 2 series got results in these 7 days. Nothing moved, nothing failed and nothing fell silent."),
        (
            DigestMaterial("x", (watched(last_at=SINCE - DAY),)),
            "No series got a result in these 7 days, of 1 series that are known; the newest result came on 2025-12-24.",
        ),
    ],
)
def test_an_empty_digest_says_so(material, told):
    made = build(material, SINCE, UNTIL)
    assert summary(made).startswith(told)
    assert ("Nothing moved, nothing failed and nothing fell silent." in summary(made)) == bool(material.series)
    assert told.split(".")[0] in digest_markdown(made)
    assert told.split(".")[0] in text_of(parsed(digest_html(made, {})))


def test_a_new_change_is_unconfirmed_in_every_form():
    words = "new, unconfirmed (3 of 8)"
    young = moved(answer="cannot tell", cause="unknown", unconfirmed=words, because=("it is new",))
    made = build(replace(week(), movements=(young,)), SINCE, UNTIL, "1.0")
    assert "1 change: 1 new and unconfirmed." in summary(made)
    told = digest_markdown(made)
    assert f"| {words} | +6.0 %" in told
    assert f"{words}, because it is new" in told
    page = text_of(parsed(digest_html(made, {})))
    assert words in page
    assert "New, unconfirmed (3 of 8), because it is new." in page
    for form in (told, page):
        assert "cannot tell" not in form


# Markdown


def test_the_markdown_of_a_week():
    told = digest_markdown(build(week(), SINCE, UNTIL, "1.0"))
    for head in (
        "What moved",
        "What failed",
        "What is noisy",
        "What was acknowledged, expected or resolved",
        "Other open alerts",
        "What is silent",
        "How to read this",
    ):
        assert f"\n## {head}\n" in told
    assert "### code: commit aaaaaaaaaaaa → bbbbbbbbbbbb" in told
    assert "| latency\\_ms · image classifier · batch=8 | worse | +6.0 % | \\[+5.0, +7.0\\] % |" in told
    assert "first bad [c2-job-1](http://127.0.0.1:8080/api/v1/jobs/c2-job-1)" in told
    assert "last good `assay results show c1 --job 1`" in told
    assert "`assay explain f1`" in told
    assert "cannot tell, because the interval of the change reaches over zero" in told
    assert (
        "| chat service · llama3.1 | 2 | 2025-12-30 to 2025-12-31 | error\\[out-of-memory\\] while loading: killed |"
        in told
    )
    assert re.search(r"\| energy\\_per\\_item\\_j · training \| 8\.0 % \| \d+ % \|", told)
    assert "agent gpu-02 is lost" in told


def test_every_table_of_the_markdown_is_whole():
    for material in (week(), hostile()):
        lines = digest_markdown(build(material, SINCE, UNTIL)).splitlines()
        columns = [len(re.findall(r"(?<!\\)\|", line)) if line.startswith("| ") else 0 for line in lines]
        for before, after in pairwise(columns):
            assert not (before and after) or before == after


def test_hostile_names_stay_text():
    told = digest_markdown(build(hostile(), SINCE, UNTIL))
    assert "<script" not in re.sub(r"`[^`\n]*`", "", told.replace("\\`", ""))  # a piece of code is shown as it is
    assert "javascript:" not in told
    assert "\x1b" not in told
    html = page(hostile())
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    root = parsed(html)
    assert not [node for node in root.iter("a") if node.get("href", "").startswith("javascript")]


# The page


def test_the_page_is_well_formed_and_needs_nothing_else():
    root = parsed(page())
    assert not list(root.iter("script"))
    assert not [node for node in root.iter() if "src" in node.attrib]
    policy = next(node.get("content") for node in root.iter("meta") if node.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    links = [node.get("href", "") for node in root.iter("a")]
    ids = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert [link for link in links if not link.startswith("#")] == ["http://127.0.0.1:8080/api/v1/jobs/c2-job-1"] * 4


def test_the_page_holds_the_same_as_the_markdown():
    root = parsed(page())
    told = text_of(section(root, "moved"))
    assert "commit aaaaaaaaaaaa → bbbbbbbbbbbb" in told
    assert "+6.0 %" in told
    assert "[+5.0, +7.0] %" in told
    assert "assay explain f1" in told
    assert "out-of-memory" in text_of(section(root, "failed"))
    assert "energy_per_item_j" in text_of(section(root, "noisy"))
    assert "acknowledged alice" in text_of(section(root, "handled")).replace("acknowledgedalice", "acknowledged alice")
    assert "images_per_s" in text_of(section(root, "silent"))
    assert "gpu-02" in text_of(section(root, "alerts"))


def test_every_series_that_moved_is_drawn_once_and_reported_in_words():
    root = parsed(page())
    figures = list(section(root, "moved").iter("figure"))
    assert len(figures) == 4
    for figure in figures:
        chart = figure.find("svg")
        assert chart.find("title").text
        assert "results from" in chart.find("desc").text
        assert figure.find("figcaption").text


def test_without_results_nothing_is_drawn_and_everything_is_reported():
    made = build(week(), SINCE, UNTIL)
    root = parsed(digest_html(made, {}))
    assert not list(root.iter("figure"))
    assert len(list(section(root, "moved").iter("article"))) == 3


def test_a_page_with_very_many_changes_stays_within_reason():
    many = tuple(moved(named(f"metric_{number}"), id=f"f{number}") for number in range(100))
    made = build(DigestMaterial("x", tuple(watched(one.series) for one in many), many), SINCE, UNTIL)
    html = digest_html(made, {one.series.id: spots(nights=365) for one in many})
    assert html.count("<figure") == MOST_PICTURES
    assert "60 more series moved and are not drawn." in html
    assert len(html) < 2_000_000
