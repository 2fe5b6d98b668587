"""Every page with demo data: accessible, in light and dark, within its policy, and without a request to elsewhere."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from tests.live.browser.browsing import broken_words, cut_off, findings_of, rest, watched_page
from tests.live.browser.demo import api_of
from tests.live.browser.e2e.proxy import shown_under
from tests.live.browser.pages import PAGES, names_in
from tests.support.running_server import ServerProcess

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]
SERIOUS = ("serious", "critical")
PHONE = {"width": 390, "height": 800}
# Pages whose tables have few enough columns for a screen of 1400 px.
_WIDE = {"compare", "campaign", "job", "job-llm"}
# On a push every page is seen once; in dark and in other sizes these: text, a wide table, charts.
ON_A_PUSH = {"overview", "campaigns", "job-llm"}
EACH = [pytest.param(one, id=one.name, marks=() if one.name in ON_A_PUSH else pytest.mark.nightly) for one in PAGES]
WHOLE = [one for one in EACH if one.id not in _WIDE]


@pytest.fixture(scope="module")
def names(demo):
    with api_of(demo) as api:
        return names_in(api)


@pytest.mark.parametrize("shown", PAGES, ids=lambda one: one.name)
def test_a_page_is_accessible(browser, demo, names, shown):
    """Axe finds nothing serious; nothing is refused by the policy, and no other host is asked."""
    _is_accessible(browser, demo, names, shown, "light")


@pytest.mark.parametrize("shown", EACH)
def test_a_page_is_accessible_in_dark(browser, demo, names, shown):
    _is_accessible(browser, demo, names, shown, "dark")


def _is_accessible(browser, demo, names, shown, theme):
    with watched_page(browser, demo, theme) as watched:
        watched.page.goto(shown.address.format(**names))
        rest(watched.page)
        assert watched.page.evaluate("document.documentElement.dataset.theme") == theme
        assert watched.page.locator("main h1").count() == 1
        assert watched.page.locator(".failure").count() == 0
        bad = [one for one in findings_of(watched.page) if one["impact"] in SERIOUS]
        assert bad == []


@pytest.mark.parametrize("shown", EACH)
def test_a_page_fits_a_small_screen(browser, demo, names, shown):
    """Nothing but what scrolls by itself is wider than the screen."""
    with watched_page(browser, demo) as watched:
        watched.page.set_viewport_size(PHONE)
        watched.page.goto(shown.address.format(**names))
        rest(watched.page)
        wide = watched.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 1


@pytest.mark.parametrize("shown", EACH)
def test_a_small_screen_breaks_no_word(browser, demo, names, shown):
    """Columns are as wide as their words: nothing is set one letter a line."""
    with watched_page(browser, demo) as watched:
        watched.page.set_viewport_size(PHONE)
        watched.page.goto(shown.address.format(**names))
        rest(watched.page)
        assert broken_words(watched.page) == []


def test_on_a_small_screen_the_number_of_alerts_stands_apart(browser, demo, names):
    with watched_page(browser, demo) as watched:
        watched.page.set_viewport_size(PHONE)
        watched.page.goto("/alerts")
        rest(watched.page)
        watched.page.wait_for_selector('nav a[href$="/alerts"] .number')  # it is asked for beside the page
        apart = watched.page.evaluate("""() => {
          const link = document.querySelector('nav a[href$="/alerts"]'), word = document.createRange()
          word.selectNodeContents(link.firstChild)
          return link.querySelector('.number').getBoundingClientRect().left - word.getBoundingClientRect().right
        }""")
        assert apart >= 4


def test_on_a_small_screen_a_short_page_begins_below_the_places(browser, demo):
    """Places are as high as they are, however little there is below them."""
    with watched_page(browser, demo) as watched:
        watched.page.set_viewport_size(PHONE)
        heights = []
        for address in ("/campaigns", "/nowhere"):
            watched.page.goto(address)
            rest(watched.page)
            heights.append(watched.page.locator("nav.side").bounding_box()["height"])
        assert heights[0] == heights[1]


def test_a_table_that_scrolls_sideways_shows_it(browser, demo, names):
    """A shade lies over the edge behind which there is more, and is gone at the end."""
    with watched_page(browser, demo) as watched:
        watched.page.set_viewport_size(PHONE)
        watched.page.goto("/campaigns")
        rest(watched.page)
        box = watched.page.locator("main .scroll").first
        assert box.evaluate("(one) => one.scrollWidth > one.clientWidth")
        assert "gradient" in box.evaluate("(one) => getComputedStyle(one).backgroundImage")


@pytest.mark.parametrize("shown", WHOLE)
def test_a_wide_screen_shows_all_columns(browser, demo, names, shown):
    with watched_page(browser, demo) as watched:
        watched.page.goto(shown.address.format(**names))
        rest(watched.page)
        assert cut_off(watched.page) == []


def test_campaigns_picked_from_the_top_are_compared_with_the_oldest(browser, demo, names):
    """The base is what was there before, and the jobs of the answers stand in no boxes."""
    from playwright.sync_api import expect

    with watched_page(browser, demo) as watched:
        page = watched.page
        page.goto("/campaigns?text=demo+image+classifier&state=done")
        rest(page)
        boxes = page.get_by_role("checkbox", name="Compare demo image classifier")
        newer, older = (boxes.nth(place).get_attribute("aria-label").split()[-1] for place in (0, 1))
        boxes.nth(0).check()
        boxes.nth(1).check()
        page.get_by_role("link", name="Compare 2 campaigns").click()
        page.wait_for_url("**/compare?*")
        rest(page)
        sides = page.locator(".side-card")
        expect(sides.first).to_contain_text(older)
        expect(sides.nth(1)).to_contain_text(newer)
        cells = page.locator("main table tbody td:first-child *")
        expect(cells.first).to_be_visible()
        widths = cells.evaluate_all(
            "(all) => all.map((one) => getComputedStyle(one).borderTopWidth + getComputedStyle(one).borderLeftWidth)"
        )
        assert set(widths) == {"0px0px"}


def test_under_a_path_behind_a_proxy(browser, built, tmp_path):
    """Every address begins with the path: pages, files, the API, the events; also after a reload of a deep page."""
    from playwright.sync_api import expect

    prefix = "/tools/assay"
    server = ServerProcess(tmp_path / "server", "--root-path", prefix)
    try:
        with shown_under(prefix, server.url) as (url, asked), watched_page(browser, url) as watched:
            page = watched.page
            page.goto(f"{url}/")
            expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()
            page.get_by_role("link", name="Fleet").click()
            page.wait_for_url(f"{url}/fleet")
            page.goto(f"{url}/benchmarks/new?case=command")
            expect(page.get_by_text("no problem found")).to_be_visible()
            page.reload()
            expect(page.get_by_role("radio", name="Command")).to_be_checked()
            rest(page)
            watched.check()
            assert asked
            assert all(path.startswith(f"{prefix}/") for path in asked), asked
            assert all(urlsplit(one).path.startswith(f"{prefix}/") for one in watched.asked if one.startswith("http"))
    finally:
        server.stop()


def test_without_events_the_page_asks_by_itself(browser, built, serve_process):
    """A proxy that lets no stream through: the page says that it asks, and still shows what is new."""
    from playwright.sync_api import expect

    server = serve_process()
    with watched_page(browser, server.url) as watched:
        watched.expected += ["api/v1/events", "ERR_FAILED"]
        page = watched.page
        page.route("**/api/v1/events", lambda route: route.abort())
        page.goto("/campaigns")
        expect(page.get_by_text("asking every 5 s")).to_be_visible()
        with api_of(server.url) as api:
            document = {"benchmark": "came later", "target": {"model": "squeezenet"}}
            assert api.post("/campaigns", json={"document": document}).status_code == 201
        expect(page.get_by_text("came later").first).to_be_visible()


def test_an_address_of_a_view_brings_its_choices_back(browser, demo):
    """What is chosen is in the address; going back takes it away again."""
    from playwright.sync_api import expect

    with watched_page(browser, demo) as watched:
        page = watched.page
        page.goto("/campaigns")
        rest(page)
        page.get_by_label("State", exact=True).select_option("failed")
        page.wait_for_url("**/campaigns?*failed*")
        page.reload()
        expect(page.get_by_label("State", exact=True)).to_have_value("failed")
        page.go_back()
        expect(page.get_by_label("State", exact=True)).to_have_value("")


def test_the_first_load_travels_packed_and_small(browser, demo):
    """What really goes over the wire for the overview before charts: under 300 kB."""
    with watched_page(browser, demo) as watched:
        sizes: dict[str, int] = {}
        watched.page.on(
            "response", lambda answer: sizes.setdefault(answer.url, int(answer.headers.get("content-length", 0) or 0))
        )
        watched.page.goto("/settings")
        rest(watched.page)
        files = {url: size for url, size in sizes.items() if "/api/" not in url}
        assert sum(files.values()) < 300_000, files
        scripts = [url for url in files if url.endswith(".js")]
        assert scripts
        assert all(files[url] > 0 for url in scripts), "every script has a length, and is packed"
