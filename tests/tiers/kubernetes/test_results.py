"""How results leave pods of a real Kubernetes: through the log, and by a command where they are too large for it."""

from __future__ import annotations

# Random numbers, which do not get smaller when they are packed: nearly as many as one run may report. Two runs of them
# are too large for a log.
MANY = 990_000
PRINTS = f"import random\nfor _ in range({MANY}): print('x=%r' % random.random())"


def large(site):
    document = site.document(kubernetes={"memory": "1GB"})
    document["target"]["command"] = ["python3", "-c", PRINTS]
    document["measure"] = {**document.get("measure", {}), "runs": 2}
    return document


def test_what_is_too_large_for_a_log_is_fetched_from_the_pod(site):
    assert site.start(large(site)).wait(240) == 0, site.said()
    assert "files (" in site.said().partition("fetching ")[2]
    assert [run.sample_counts["x"] for run in site.only_job().runs] == [MANY, MANY]
    kept = [path for path in (site.store / "samples").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in kept) > 8 * 2**20
    site.until_nothing_left()


def test_without_the_right_to_run_commands_the_result_says_what_did_not_come(site):
    (role,) = site.cluster.admin.listed("roles", site.namespace)
    rules = [rule for rule in role["rules"] if "pods/exec" not in rule["resources"]]
    site.cluster.admin.patch("roles", role["metadata"]["name"], {"rules": rules}, site.namespace)
    process = site.start(large(site))
    process.wait(240)
    assert "pods/exec" in site.said()
    assert site.only_job().metrics["x"].median > 0, "the numbers are there, and their samples are not"
    site.until_nothing_left()
