"""How results and words leave a pod: through a server, from a second container, and for whoever reads logs."""

from __future__ import annotations

import pytest
from tests.live.kubernetes.conftest import Site
from tests.support.kube.cluster import IMAGE
from tests.support.running_server import RunningServer

from assay.engines.kubernetes.check import check
from assay.errors import MeasureError
from assay.spec.kubernetes import Kubernetes

pytestmark = pytest.mark.live


def test_results_go_over_a_server(site: Site, serve, monkeypatch) -> None:
    server: RunningServer = serve(open=False)
    monkeypatch.setenv("ASSAY_TOKEN", server.token("agent"))
    options = {"results": "server", "server": server.url, "secrets": {"ASSAY_TOKEN": "${env:ASSAY_TOKEN}"}}
    followed = site.run(site.document('[ -z "$ASSAY_TOKEN" ] && echo x=3', kubernetes=options))
    job = followed.job()
    assert job.state == "done", followed.said.getvalue()
    assert job.metrics["x"].median == 3.0
    assert "does not take results" not in site.file(job.job, "pod.log")
    assert [one for one in (server.settings.folder / "artefacts").rglob("*") if one.is_file()]
    assert site.kube.api.left() == []


def test_a_program_runs_in_its_own_image(site: Site) -> None:
    document = site.document()
    document["target"] |= {
        "image": "busybox",
        "command": "echo x=$N; exit $CODE",
        "shell": True,
        "env": {"N": "5", "CODE": "0"},
    }
    followed = site.run({**document, "matrix": {"target.env.CODE": ["0", "7"]}})
    good, bad = followed.end().jobs
    assert good.state == "done", followed.said.getvalue()
    assert good.metrics["x"].median == 5.0
    assert good.environment["kubernetes"]["program"]["image"] == "busybox"
    assert bad.state == "failed"
    assert bad.error is not None
    assert "exited with code 7" in bad.error.message
    assert site.kube.api.left() == []


def test_logs_are_followed_and_kept(site: Site) -> None:
    followed = site.run(site.waiting())
    site.begun()
    process = site.assay("logs", "--follow")
    site.until("the log is shown", lambda: "==> pod <==" in site.said())
    site.go()
    assert followed.job().state == "done"
    assert process.wait(120) == 0, site.said()
    assert "done      " in site.said()
    assert "@assay" not in site.said()


def test_a_check_reports_what_is_missing(site: Site) -> None:
    found = check(Kubernetes(image=IMAGE), with_pod=True)
    assert found.problems == ()
    assert found.version == "v1.31.0"
    assert found.pod["assay"]
    assert {one.name for one in found.nodes or ()} == {"n1", "n2", "g1"}
    site.kube.api.denied = {("create", "jobs"), ("create", "pods/exec"), ("list", "nodes")}
    found = check(Kubernetes(image=IMAGE), with_pod=True)
    assert found.nodes is None
    assert list(found.lacking) == ["create pods/exec"]
    (problem,) = found.problems
    assert "may not create jobs.batch in the namespace bench" in problem
    site.kube.api.denied = set()
    (problem,) = check(Kubernetes(image="nobody:1", pull="never"), with_pod=True).problems
    assert "nobody:1" in problem
    assert site.kube.api.left() == []
    site.kube.api.stop()
    with pytest.raises(MeasureError, match="kubernetes-silent"):
        check(Kubernetes())
