"""What a person does with the dashboard, in a real browser, with a real server and a real agent."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.live.browser.browsing import rest, watched_page
from tests.live.browser.demo import api_of
from tests.live.serve.setups import Agent
from tests.support.running_server import wait_for

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

# A program whose numbers differ a little from run to run, as real ones do.
PROGRAM = f"""{sys.executable} -c 'import random; print("items/s:", random.gauss(100, 1))'"""
HOSTILE = "<img src=x onerror=alert(1)>"


def test_from_the_editor_to_a_comparison(browser, lab):
    """Write a benchmark, watch it run, read its result, run it again, compare both."""
    from playwright.sync_api import expect

    with watched_page(browser, lab.url) as watched:
        page = watched.page
        page.goto("/")
        page.get_by_role("link", name="Benchmarks").click()
        page.get_by_role("link", name="New benchmark").first.click()

        # Write it.
        page.get_by_role("radio", name="Command").check()
        page.get_by_label("Name of the benchmark").fill(f"story {HOSTILE}")
        page.get_by_label("Command", exact=True).fill(PROGRAM)
        page.get_by_label("Runs", exact=True).fill("3")
        expect(page.get_by_role("textbox", name="Benchmark file")).to_contain_text("runs: 3")
        expect(page.get_by_text("no problem found")).to_be_visible()
        expect(page.get_by_text(f"Can be taken by: {lab.agent}")).to_be_visible()
        page.get_by_role("button", name="Run now").click()

        # Watch it: nothing is reloaded.
        page.wait_for_url(re.compile(r"/campaigns/\w+$"))
        first = page.url.rsplit("/", 1)[1]
        expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE)
        expect(page.locator(".lead")).to_contain_text("done", timeout=120_000)

        # Read its result.
        page.get_by_role("region", name="Results of the jobs").get_by_role("link").first.click()
        page.wait_for_url(re.compile(r"/jobs/\w+"))
        expect(page.get_by_role("region", name="Verdict")).to_contain_text("3 of 3 runs succeeded")
        expect(page.get_by_role("region", name="Verdict")).to_contain_text("items_per_s")
        page.go_back()
        page.wait_for_url(re.compile(rf"/campaigns/{first}$"))
        expect(page.locator(".lead")).to_contain_text("One submission")

        # Once more, then both beside each other.
        page.get_by_role("button", name="Run again").click()
        page.wait_for_url(lambda url: "/campaigns/" in url and first not in url)
        second = page.url.rsplit("/", 1)[1]
        assert lab.ended(second) == "done"
        page.get_by_role("link", name="Campaigns").first.click()
        for campaign in (first, second):
            page.get_by_role("checkbox", name=re.compile(campaign)).check()
        page.get_by_role("link", name="Compare 2 campaigns").click()
        page.wait_for_url(re.compile("/compare"))
        expect(page.get_by_text(re.compile("better|worse|cannot tell")).first).to_be_visible()
        expect(page.locator("main")).to_contain_text("items_per_s")
        page.reload()
        expect(page.locator("main")).to_contain_text("items_per_s")
        assert page.evaluate("document.querySelectorAll('main img[src=x]').length") == 0


def test_the_editor_completes_and_says_what_is_wrong(browser, lab):
    """Completion from the schema, errors with their line, in the real editor."""
    from playwright.sync_api import expect

    with watched_page(browser, lab.url) as watched:
        page = watched.page
        with page.expect_response("**/api/v1/schema"):
            page.goto("/benchmarks/new")
        file = page.get_by_role("textbox", name="Benchmark file")
        file.click()
        page.keyboard.press("Control+End")
        page.keyboard.type("obj", delay=20)
        option = page.get_by_role("option", name=re.compile("objective"))

        def offered() -> bool:
            if option.count() == 0:  # it was typed before the schema had been read
                page.keyboard.press("Control+Space")
                page.wait_for_timeout(300)
            return bool(option.count())

        wait_for(offered, what="the completion")
        option.click()
        expect(file).to_contain_text("objective:")
        page.keyboard.type("latency_ms.p98: 20", delay=5)
        expect(page.get_by_text("1 problem")).to_be_visible()
        expect(page.get_by_role("button", name="Run now")).to_be_disabled()
        page.get_by_role("button", name=re.compile(r"^line \d+$")).click()
        expect(file).to_be_focused()
        expect(page.locator(".cm-lintRange-error, .cm-lintPoint-error").first).to_be_attached()
        page.keyboard.press("Tab")
        expect(file).not_to_be_focused()


def test_a_model_file_travels_from_the_browser_to_the_agent(browser, lab, tiny_model):
    """It is sent by its hash, named in the file, and really measured."""
    from playwright.sync_api import expect

    with watched_page(browser, lab.url) as watched:
        page = watched.page
        page.goto("/benchmarks/new")
        page.get_by_label("Name of the benchmark").fill("my own network")
        page.get_by_label("Model", exact=True).fill(tiny_model.name)
        expect(page.get_by_text("1 problem")).to_be_visible()
        page.get_by_label("Add files").set_input_files(tiny_model)
        expect(page.get_by_text("no problem found")).to_be_visible()
        page.get_by_label("Runs", exact=True).fill("1")
        expect(page.get_by_text("1 run in all")).to_be_visible()
        page.get_by_role("button", name="Run now").click()
        page.wait_for_url(re.compile(r"/campaigns/\w+$"))
        campaign = page.url.rsplit("/", 1)[1]
    assert lab.ended(campaign) == "done"
    (job,) = lab.api.get("/jobs", params={"campaign": campaign}).json()["items"]
    result = lab.api.get(f"/jobs/{job['id']}").json()["result"]
    assert result["metrics"]["latency_ms"]["median"] > 0


def test_a_benchmark_is_saved_and_a_changed_one_becomes_its_next_version(browser, lab):
    from playwright.sync_api import expect

    with watched_page(browser, lab.url) as watched:
        watched.expected += ["/api/v1/schedules/kept"]  # 404 says that it has no schedule
        page = watched.page
        page.goto("/benchmarks/new")
        page.get_by_label("Name of the benchmark").fill("kept")
        expect(page.get_by_text("no problem found")).to_be_visible()
        page.get_by_role("button", name="Save").click()
        page.wait_for_url(re.compile("/benchmarks/kept"))
        page.goto("/benchmarks/new?from=kept")
        page.get_by_label("Batch").fill("1, 8")
        expect(page.get_by_text("2 jobs", exact=True)).to_be_visible()
        page.get_by_role("button", name="Save").click()
        page.wait_for_url(re.compile("/benchmarks/kept"))
        assert lab.api.get("/benchmarks/kept").json()["version"] == 2


def test_an_agent_is_drained(browser, lab):
    from playwright.sync_api import expect

    with watched_page(browser, lab.url) as watched:
        page = watched.page
        page.goto("/fleet")
        page.get_by_role("link", name=lab.agent).first.click()
        page.get_by_role("button", name="Drain").click()
        expect(page.get_by_role("button", name="Let it take jobs again")).to_be_visible()
        (agent,) = lab.api.get("/agents").json()["items"]
        assert agent["draining"]
        page.get_by_role("button", name="Let it take jobs again").click()
        wait_for(lambda: not lab.api.get("/agents").json()["items"][0]["draining"], what="its return")


@contextmanager
def beating(agent: Agent) -> Iterator[None]:
    """An agent that sends heartbeats."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.2):
            agent.beat(state="active")

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_silent_agent_is_reset_and_removed(browser, built, serve_process):
    """Faulty since it sends no heartbeat; reset, it counts again; removed, it is gone from the list."""
    from playwright.sync_api import expect

    server = serve_process("--silent-after-s", "2")
    api = api_of(server.url)
    silent, stays = Agent(api, "silent-one"), Agent(api, "stays")
    wait_for(lambda: api.get(f"/agents/{silent.id}").json()["state"] == "faulty", what="its silence to be noticed")
    with watched_page(browser, server.url) as watched:
        page = watched.page
        page.goto("/fleet")
        page.get_by_role("link", name="silent-one").first.click()
        with page.expect_response("**/reset") as reset:
            page.get_by_role("button", name="Reset").click()
        assert reset.value.ok
        with beating(silent):  # or it would be silent again before a slow browser has shown that it is not
            expect(page.get_by_role("button", name="Reset")).to_be_hidden()
        page.get_by_role("button", name="Remove", exact=True).click()
        dialog = page.get_by_role("dialog", name="Remove silent-one?")
        dialog.get_by_role("button", name="Remove it").click()
        page.wait_for_url(re.compile("/fleet$"))
        expect(page.get_by_role("link", name="stays").first).to_be_visible()
        expect(page.get_by_role("link", name="silent-one")).to_be_hidden()
    assert [one["id"] for one in api.get("/agents").json()["items"]] == [stays.id]


def test_what_may_not_be_compared_says_why_and_can_be_asked_anyway(browser, demo):
    from playwright.sync_api import expect

    sides, why = _not_comparable(api_of(demo))
    with watched_page(browser, demo) as watched:
        page = watched.page
        page.goto(f"/compare?{sides}")
        refused = page.get_by_role("region", name="Not like for like")
        expect(refused).to_contain_text(why)
        expect(page.get_by_role("table").first).to_contain_text("not like for like")
        anyway = page.get_by_role("checkbox", name=re.compile("Compare anyway"))
        anyway.click()
        page.wait_for_url(re.compile("anyway=yes"))
        expect(refused).to_be_hidden()
        expect(anyway).to_be_checked()
        expect(page.get_by_role("table").first).to_contain_text(re.compile("better|worse|no change"))
        rest(page)


def _not_comparable(api):
    """The newest and the oldest result of one job whose model changed, and the reason that the server gives."""
    campaigns = api.get("/campaigns", params={"benchmark": "demo image classifier", "limit": 500}).json()["items"]
    done = [one["id"] for one in campaigns if one["state"] == "done"]
    newest, oldest = (api.get("/jobs", params={"campaign": one}).json()["items"] for one in (done[0], done[-1]))
    labels = {one["label"]: one["id"] for one in oldest}
    sides = f"side=job:{newest[0]['id']}&side=job:{labels[newest[0]['label']]}"
    (why,) = api.get(f"/compare?{sides}").json()["not_comparable"]
    assert "different model digest" in why
    return sides, why


def test_a_finding_is_acknowledged(browser, demo):
    """From the list of alerts to the one that is acknowledged."""
    from playwright.sync_api import expect

    api = api_of(demo)
    alerts = api.get("/alerts", params={"state": "open", "limit": 50}).json()["items"]
    alert = next(one for one in alerts if one["kind"] == "finding")
    with watched_page(browser, demo) as watched:
        page = watched.page
        page.goto("/alerts")
        page.get_by_role("link", name=alert["title"]).first.click()
        # The list has such a button in each row: that of the alert's own page is meant.
        expect(page.get_by_role("heading", level=1, name=alert["title"])).to_be_visible()
        page.get_by_role("button", name="Acknowledge").first.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label(re.compile("^Why")).fill("we look into it")
        dialog.get_by_role("button", name="Acknowledge").click()
        expect(dialog).to_be_hidden()
        expect(page.locator("main")).to_contain_text("we look into it")
    assert api.get(f"/alerts/{alert['id']}").json()["state"] == "acknowledged"


def test_a_closed_server_asks_for_a_token(browser, built, serve_process):
    """Nothing is shown before; a wrong token says so; a reader may look and not touch."""
    from playwright.sync_api import expect

    server = serve_process("--closed", ASSAY_SERVER_TOKEN="the first secret of this server")
    admin = api_of(server.url)
    admin.headers["Authorization"] = "Bearer the first secret of this server"
    reader = admin.post("/tokens", json={"name": "a reader", "role": "reader"}).json()["secret"]
    with watched_page(browser, server.url) as watched:
        watched.expected += ["status of 401", "status of 403"]
        page = watched.page
        page.goto("/campaigns")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Token").fill(reader)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Campaigns")).to_be_visible()
        page.goto("/benchmarks/new")
        expect(page.get_by_role("button", name="Run now")).to_be_disabled()
        rest(page)
