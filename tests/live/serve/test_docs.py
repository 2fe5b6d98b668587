"""The documentation page works with the network off, and the document is complete."""

import json
import os
import re
import shutil
import subprocess
import sys

import httpx
import pytest
from jsonschema import Draft202012Validator

from assay.serve.app import create_app
from assay.serve.settings import ServerSettings
from assay.serve.web.docs import as_version_3_0


@pytest.fixture(scope="module")
def document():
    return create_app(ServerSettings()).openapi()


def operations(document):
    return [(method, path, operation) for path, item in document["paths"].items() for method, operation in item.items()]


@pytest.mark.live
@pytest.mark.parametrize("root", ["", "/tools/assay"])
def test_the_page_refers_to_nothing_outside(serve, root):
    server = serve(root_path=root)
    page = httpx.get(f"{server.url}/api/v1/docs", trust_env=False, timeout=60)
    assert page.status_code == 200
    links = re.findall(r"""(?:src|href|data-document)="([^"]+)\"""", page.text)
    assert len(links) == 5
    assert all(link.startswith(f"{root}/api/v1/docs/") for link in links)
    for link in links:
        assert httpx.get(f"http://127.0.0.1:{server.port}{link}", trust_env=False, timeout=60).status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert httpx.get(f"{server.url}/api/v1/docs/index.html", trust_env=False, timeout=60).status_code == 404


# In a process of its own: one process has room for one browser driver.
LOOK = """
import json, sys
from playwright.sync_api import sync_playwright
path, url = sys.argv[1:]
asked, said = [], []
with sync_playwright() as started:
    browser = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
    page = browser.new_page()
    page.set_default_timeout(120_000)
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.goto(url)
    page.locator(".opblock").nth(50).wait_for()
    print(json.dumps({"blocks": page.locator(".opblock").count(), "asked": asked, "said": said}))
    browser.close()
"""


@pytest.mark.live
def test_the_page_shows_the_api_in_a_browser_without_network(serve):
    path = os.environ.get("ASSAY_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        if os.environ.get("ASSAY_REQUIRE_BROWSER") == "1":
            pytest.fail("no Chromium found")
        pytest.skip("no Chromium found; name one in ASSAY_CHROMIUM")
    server = serve()
    look = [sys.executable, "-c", LOOK, path, f"{server.url}/api/v1/docs"]
    done = subprocess.run(look, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["blocks"] > 50
    assert found["said"] == []
    assert all(url.startswith((server.url, "data:")) for url in found["asked"])


def test_every_operation_is_named_tagged_and_described(document):
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names))
    for method, path, operation in operations(document):
        assert operation.get("tags"), (method, path)
        assert operation.get("description") or operation.get("summary"), (method, path)
        if path.startswith("/api/v1"):
            assert re.fullmatch(r"[a-z_]+", operation["operationId"]), operation["operationId"]
            assert operation["description"]


def test_every_answer_has_a_shape(document):
    for method, path, operation in operations(document):
        if not path.startswith("/api/v1"):
            continue
        for status, said in operation["responses"].items():
            if status not in ("204", "304") and method != "head":
                assert said.get("content"), (method, path, status)
                assert all(one.get("schema") != {} for one in said["content"].values()), (method, path, status)
            if status >= "4" and (path, status) != ("/api/v1/ready", "503"):
                assert set(said["content"]) == {"application/problem+json"}, (method, path, status)


def test_every_reference_leads_somewhere(document):
    schemas = document["components"]["schemas"]
    text = str(document)
    for name in set(re.findall(r"#/components/schemas/([^'\"]+)", text)):
        assert name in schemas, name
    assert {"CampaignRecord", "MultiRunJobResult", "ProblemDocument", "Submission", "LeaseGiven"} <= set(schemas)
    assert "try" in schemas["ProblemDocument"]["properties"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)


def test_the_older_form_has_none_of_the_newer_words(document):
    older = as_version_3_0(document)
    assert older["openapi"].startswith("3.0")

    def walk(node):
        if isinstance(node, dict):
            assert node.get("type") != "null"
            assert "const" not in node
            assert "prefixItems" not in node
            assert not isinstance(node.get("type"), list)
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(older["paths"])
    walk(older["components"])
    assert "null" in str(document)
    assert document["openapi"].startswith("3.1")
