"""The dashboard's files: served under a strict policy, below any path, and never in the place of the API."""

import gzip
import os
import re
import shutil

import httpx
import pytest
from tests.live.serve.setups import is_problem

from assay.errors import SpecError
from assay.serve.settings import ServerSettings, read_settings
from assay.serve.web.dashboard import BuiltFiles, content_headers

INDEX = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <base href="/" />
    <meta name="csp-nonce" content="" />
    <link rel="icon" href="./icon.svg" type="image/svg+xml" />
    <script type="module" crossorigin src="./assets/index-CnBuIlT1.js"></script>
    <link rel="stylesheet" crossorigin href="./assets/index-StYlE001.css">
  </head>
  <body><div id="root"></div></body>
</html>
"""
SCRIPT = "console.log('the dashboard')\n" * 200


@pytest.fixture
def built(tmp_path):
    """A folder as a build leaves it, with something above it that is nobody's business."""
    folder = tmp_path / "built"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "icon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "assets" / "index-CnBuIlT1.js").write_text(SCRIPT)
    (folder / "assets" / "index-StYlE001.css").write_text("a{}")
    (folder / "assets" / "notes.secret").write_text("not for the web")
    (tmp_path / "secret.js").write_text("secret")
    (folder / "assets" / "link.js").symlink_to(tmp_path / "secret.js")
    return folder


@pytest.fixture
def pages(serve, built):
    """A server with a dashboard, and a client for its pages."""
    server = serve(dashboard=built)
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
        yield client


def base_of(page):
    return re.search(r'<base href="([^"]*)">', page.text)[1]


def nonce_of(page):
    return re.search(r'<meta name="csp-nonce" content="([^"]+)">', page.text)[1]


@pytest.mark.live
@pytest.mark.parametrize("path", ["/", "/campaigns", "/campaigns/c-1", "/benchmarks/resnet-v1.5", "/fleet/box.local",
                                  "/benchmarks/new", "/no/such/page", "/benchmarks/a%2Fb", "/apiary"])  # fmt: skip
def test_every_address_of_a_page_is_the_page(pages, path):
    page = pages.get(path)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert '<div id="root">' in page.text
    assert page.headers["cache-control"] == "no-store"
    assert base_of(page) == "/"


@pytest.mark.live
def test_the_policy_lets_in_what_the_server_has_and_nothing_else(pages):
    page = pages.get("/")
    rules = dict(rule.split(" ", 1) for rule in page.headers["content-security-policy"].split("; "))
    assert rules == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": f"'self' 'nonce-{nonce_of(page)}'",
        "img-src": "'self' data: blob:",
        "connect-src": "'self'",
        "font-src": "'self'",
        "base-uri": "'self'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert len(page.headers.get_list("content-security-policy")) == 1
    assert nonce_of(pages.get("/")) != nonce_of(page)
    assert len(nonce_of(page)) >= 22


@pytest.mark.live
def test_files_are_packed_and_kept_for_ever_where_their_name_is_their_content(pages):
    script = pages.get("/assets/index-CnBuIlT1.js")
    assert script.text == SCRIPT
    assert script.headers["content-encoding"] == "gzip"
    assert int(script.headers["content-length"]) < len(SCRIPT) / 10
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert script.headers["vary"] == "Accept-Encoding"
    for word in ("identity", "br", "gzip;q=0"):
        plain = pages.get("/assets/index-CnBuIlT1.js", headers={"Accept-Encoding": word})
        assert "content-encoding" not in plain.headers
        assert plain.text == SCRIPT
    icon = pages.get("/icon.svg")
    assert (icon.status_code, icon.headers["content-type"]) == (200, "image/svg+xml")
    assert icon.headers["cache-control"] == "public, max-age=3600"
    assert pages.get("/assets/index-StYlE001.css").headers["content-type"] == "text/css; charset=utf-8"


@pytest.mark.live
def test_a_question_for_the_headers_has_no_body(pages):
    asked = pages.head("/")
    assert (asked.status_code, asked.content) == (200, b"")
    assert "content-security-policy" in asked.headers


@pytest.mark.live
@pytest.mark.parametrize("path", ["/assets/index-OLD.js", "/favicon.ico", "/robots.txt", "/assets/notes.secret",
                                  "/assets/link.js", "/campaigns/x.css", "/index.html", "/assets/",
                                  "/..%2fsecret.js", "/assets/..%2f..%2fsecret.js"])  # fmt: skip
def test_a_file_that_is_not_there_is_no_page(pages, path):
    is_problem(pages.get(path), 404, "unknown-file")


@pytest.mark.live
@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/api/v1/none", 404), ("GET", "/api/v2", 404), ("GET", "/docs", 404),
    ("GET", "/docs/x", 404), ("GET", "/metrics/x", 404), ("GET", "/api/v1/benchmarks/check/x", 404),
    ("POST", "/", 405), ("POST", "/campaigns", 405), ("DELETE", "/api/v1/campaigns", 405),
    ("GET", "/api/v1/jobs/batch/x", 404), ("GET", "/api/v1/alerts/x/snooze", 405),
])  # fmt: skip
def test_programs_are_answered_as_ever(pages, method, path, status):
    answer = pages.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


@pytest.mark.live
@pytest.mark.parametrize("stripped", [True, False])
def test_it_works_below_the_path_of_a_proxy(serve, built, stripped):
    server = serve(dashboard=built, root_path="/tools/assay")
    root = f"http://127.0.0.1:{server.port}"
    below = root if stripped else f"{root}/tools/assay"
    for path in ("/", "/campaigns/c-1"):
        assert base_of(httpx.get(f"{below}{path}", trust_env=False, timeout=60)) == "/tools/assay/"
    assert httpx.get(f"{below}/assets/index-CnBuIlT1.js", trust_env=False, timeout=60).text == SCRIPT
    is_problem(httpx.get(f"{below}/api/v1/none", trust_env=False, timeout=60), 404, "not-found")
    assert httpx.get(f"{below}/api/v1/session", trust_env=False, timeout=60).json()["open"] is True
    if not stripped:
        assert base_of(httpx.get(below, trust_env=False, timeout=60)) == "/tools/assay/"


@pytest.mark.live
def test_pages_need_no_token_and_report_nothing(serve, built):
    server = serve(dashboard=built, open=False)
    assert httpx.get(f"{server.url}/", trust_env=False, timeout=60).status_code == 200
    assert server.client.get("/session").status_code == 401


@pytest.mark.live
def test_where_nothing_was_built_the_page_says_so_and_how(serve, built):
    server = serve(dashboard=built, root_path="/a'b")
    shutil.rmtree(built)
    page = httpx.get(f"http://127.0.0.1:{server.port}/campaigns", trust_env=False, timeout=60)
    assert page.status_code == 200
    assert "make web" in page.text
    assert 'href="/a&#x27;b/api/v1/docs"' in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    is_problem(
        httpx.get(f"http://127.0.0.1:{server.port}/assets/x.js", trust_env=False, timeout=60), 404, "unknown-file"
    )


def test_a_new_build_is_seen_at_once(built):
    files = BuiltFiles(built)
    assert files.find("assets/index-CnBuIlT1.js").content == SCRIPT.encode()
    (built / "assets" / "index-CnBuIlT1.js").unlink()
    (built / "assets" / "index-CnBuIlT2.js").write_text("new")
    (built / "index.html").write_text(INDEX.replace("CnBuIlT1", "CnBuIlT2"))
    os.utime(built / "index.html", (1, 1))
    assert files.find("assets/index-CnBuIlT1.js") is None
    assert files.find("assets/index-CnBuIlT2.js").content == b"new"
    assert "CnBuIlT2" in files.page("/", "n")


def test_packing_changes_nothing_and_is_left_out_where_it_gains_nothing(built):
    files = BuiltFiles(built)
    script = files.find("assets/index-CnBuIlT1.js")
    assert gzip.decompress(script.packed) == script.content
    assert files.find("assets/index-CnBuIlT1.js") is script
    style = files.find("assets/index-StYlE001.css")
    assert style.packed is None
    assert "Vary" not in content_headers(style, packed=False)


def test_what_goes_into_the_page_stays_text(built):
    page = BuiltFiles(built).page('/"><script>/', "a\\1b")
    assert "<script>/" not in page
    assert 'content="a\\1b"' in page


def test_the_folder_can_be_named(built, tmp_path, monkeypatch):
    assert ServerSettings().dashboard is None
    by_variable = shutil.copytree(built, tmp_path / "by its own variable")
    monkeypatch.setenv("ASSAY_DASHBOARD", str(by_variable))
    assert ServerSettings().dashboard == by_variable
    by_settings = shutil.copytree(built, tmp_path / "by the settings")
    monkeypatch.setenv("ASSAY_SERVER_DASHBOARD", str(by_settings))
    assert ServerSettings().dashboard == by_settings
    assert read_settings(None, dashboard=built).dashboard == built


def test_a_folder_without_pages_is_refused_before_anything_is_started(tmp_path):
    with pytest.raises(SpecError, match=re.escape(f"dashboard: there is no index.html in {tmp_path};")):
        read_settings(None, dashboard=tmp_path)
