"""What people call a result, and what is found."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.unit.store.setups import FakeClock

from assay.errors import UsageError
from assay.plan.plan import make_plan
from assay.spec.load import load
from assay.store.references import (
    NoSuchResultError,
    References,
    ResultReference,
    StoreIndex,
    is_file,
    rev_list,
    rev_parse,
)
from assay.store.store import Store

COMMITS = {"one": "1a2b3c4d" + "0" * 32, "two": "1a2b9999" + "0" * 32, "three": "fedc" + "0" * 36}


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def measured(store, clock, tmp_path):
    """Keep a campaign of one job; return its id."""

    def keep(benchmark="demo", labels=None, commit="", changed=False, state="finish", base=None):
        clock.pass_s(60)
        document = {"benchmark": benchmark, "target": {"model": "m"}}
        loaded = load(document)
        plan = make_plan(loaded, lambda _: {})
        if base is not None:
            from dataclasses import replace

            plan = replace(plan, jobs=tuple(replace(job, base=str(base)) for job in plan.jobs))
        made = store.create_campaign(plan, document, labels or {}, "here", clock)
        (job,) = made.jobs
        git = {"git": {"commit": commit, "changed": changed}} if commit else {}
        if state != "pending":
            store.move_job(job.id, "start")
            result = json.dumps({"job": job.id, "environment": git}, separators=(",", ":"))
            store.end_job(job.id, state, verdict="valid", result=result, seconds=1.0)
            store.end_campaign(job.campaign, "done", clock)
        return job.campaign

    return keep


@pytest.fixture
def references(store):
    return References(
        lambda: StoreIndex(store), git=lambda _folder, revision: {"HEAD~1": COMMITS["one"]}.get(revision, "")
    )


def ids(found) -> list[str]:
    return [one.campaign for one in found]


def test_campaigns_and_jobs_by_id_beginning_and_age(references, measured) -> None:
    old, new = measured(), measured()
    assert references.find(old) == (ResultReference(old),)
    assert references.find("latest") == (ResultReference(new),)
    assert references.find("latest~1/0") == (ResultReference(old, job=0),)
    assert references.find(f"{new}/3") == (ResultReference(new, job=3),)
    assert str(references.find(f"{new}/3")[0]) == f"{new}/3"


def test_a_branch_is_the_newest_campaign_at_one_of_its_commits(store, measured) -> None:
    branches = {"main": frozenset({COMMITS["one"], COMMITS["two"]})}
    references = References(
        lambda: StoreIndex(store), commits=lambda _folder, branch: branches.get(branch, frozenset())
    )
    first = measured(commit=COMMITS["one"])
    second = measured(commit=COMMITS["two"])
    third = measured(commit=COMMITS["one"])
    measured(commit=COMMITS["three"])  # of another branch
    measured(commit=COMMITS["two"], changed=True)
    measured(commit=COMMITS["two"], benchmark="other")
    measured()
    assert ids(references.find("branch:main", benchmark="demo")) == [third]
    assert ids(references.find("branch:main", benchmark="demo", most=2)) == [third, second]
    assert ids(references.find("branch:main", benchmark="demo", most="all", but={second})) == [third, first]
    with pytest.raises(NoSuchResultError, match="git knows no branch 'topic'"):
        references.find("branch:topic")
    with pytest.raises(NoSuchResultError, match="one of the 2 commits of main"):
        references.find("branch:main", benchmark="third")
    with pytest.raises(UsageError, match="names no branch"):
        references.find("branch:")


def test_commits_of_a_branch_come_from_git(tmp_path) -> None:
    def git(*command) -> str:
        given = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org", *command]
        return subprocess.run(given, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "one")
    base = git("rev-parse", "HEAD")
    git("checkout", "-q", "-b", "topic/x")
    git("commit", "-q", "--allow-empty", "-m", "two")
    head = git("rev-parse", "HEAD")
    assert rev_list(tmp_path, "main") == {base}
    assert rev_list(tmp_path, "topic/x") == {base, head}
    git("update-ref", "refs/remotes/origin/next", head)
    assert rev_list(tmp_path, "next") == {base, head}  # as in a pipeline, where only the remote branch is there
    assert rev_list(tmp_path, "--all") == frozenset()
    assert rev_list(tmp_path, "none") == frozenset()
    assert rev_list(tmp_path / "nowhere", "main") == frozenset()


def test_a_label_is_the_newest_measured_campaign_that_has_it(references, measured) -> None:
    first = measured(labels={"branch": "main", "nightly": "yes"})
    second = measured(labels={"branch": "main"})
    measured(labels={"branch": "topic/x"})
    measured(labels={"branch": "main"}, state="fail")
    measured(labels={"branch": "main"}, state="pending")
    assert ids(references.find("label:branch=main")) == [second]
    assert ids(references.find("label:nightly")) == [first]
    assert ids(references.find("label:branch=main", most="all")) == [second, first]
    assert ids(references.find("label:branch=main", most=1)) == [second]
    assert ids(references.find("label:branch=main", but={second})) == [first]
    assert references.find("label:branch=topic/x")


def test_labels_are_searched_for_in_one_benchmark_where_it_is_known(references, measured) -> None:
    mine = measured("mine", {"branch": "main"})
    other = measured("other", {"branch": "main"})
    assert ids(references.find("label:branch=main")) == [other]
    assert ids(references.find("label:branch=main", benchmark="mine")) == [mine]


def test_an_unknown_label_says_which_there_are(references, measured) -> None:
    measured(labels={"branch": "main"})
    with pytest.raises(NoSuchResultError) as problem:
        references.find("label:branch=mian")
    assert "has the label branch=mian; there are branch=main" in str(problem.value)
    assert problem.value.exit_code == 2


def test_a_commit_by_its_beginning(references, measured) -> None:
    old = measured(commit=COMMITS["one"])
    new = measured(commit=COMMITS["one"])
    other = measured(commit=COMMITS["two"])
    assert ids(references.find("commit:1a2b3c")) == [new]
    assert ids(references.find("commit:1A2B3C4D", most="all")) == [new, old]
    assert ids(references.find("commit:1a2b9")) == [other]
    with pytest.raises(UsageError, match="begins several commits") as problem:
        references.find("commit:1a2b")
    assert not isinstance(problem.value, NoSuchResultError)


def test_a_revision_is_resolved_by_git(references, measured) -> None:
    mine = measured(commit=COMMITS["one"])
    measured(commit=COMMITS["three"])
    assert ids(references.find("commit:HEAD~1")) == [mine]
    with pytest.raises(NoSuchResultError, match="git knows no commit"):
        references.find("commit:nowhere")


def test_results_of_the_plain_commit_win_over_those_with_changes(references, measured) -> None:
    clean = measured(commit=COMMITS["one"])
    dirty = measured(commit=COMMITS["one"], changed=True)
    only = measured(commit=COMMITS["three"], changed=True)
    assert ids(references.find("commit:1a2b3c", most="all")) == [clean]
    assert dirty not in ids(references.find("commit:1a2b3c"))
    assert ids(references.find("commit:fedc")) == [only]


def test_a_commit_without_a_result_is_distinguished_from_one_that_git_does_not_know(references, measured) -> None:
    measured(commit=COMMITS["three"])
    with pytest.raises(NoSuchResultError, match=r"no campaign was measured at commit HEAD~1 \(1a2b3c4d0000\)"):
        references.find("commit:HEAD~1")
    with pytest.raises(NoSuchResultError, match="no campaign of 'demo' was measured at commit abcdef"):
        references.find("commit:abcdef", benchmark="demo")


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *settings, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.live
def test_revisions_are_those_of_the_benchmarks_own_repository(store, measured, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    commits = []
    for text in ("one", "two"):
        git(folder, "commit", "-q", "--allow-empty", "-m", text)
        commits.append(git(folder, "rev-parse", "HEAD"))
    old, new = (measured(commit=commit, base=folder) for commit in commits)
    monkeypatch.chdir(tmp_path)
    here = References(lambda: StoreIndex(store))
    assert ids(here.find("commit:HEAD")) == [new]
    assert ids(here.find("commit:HEAD~1")) == [old]
    assert ids(References(lambda: StoreIndex(store), repository=folder).find("commit:HEAD~1")) == [old]
    with pytest.raises(NoSuchResultError):
        References(lambda: StoreIndex(store), repository=tmp_path).find("commit:HEAD~1")
    assert rev_parse(folder, "--help") == ""


@pytest.mark.parametrize("reference", ["label:", "label:=main", "commit:"])
def test_badly_written_references_are_wrong_use(references, measured, reference) -> None:
    measured()
    with pytest.raises(UsageError) as problem:
        references.find(reference)
    assert not isinstance(problem.value, NoSuchResultError)


@pytest.mark.parametrize("reference", ["c9999", "latest", "latest~9", "nothing/0"])
def test_what_is_not_there_is_named(references, reference) -> None:
    with pytest.raises(NoSuchResultError, match="no campaign"):
        references.find(reference)


def write(path: Path, created: str, campaign: str = "c1", **more) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "schema": "assay.result/1",
        "campaign": campaign,
        "benchmark": "demo",
        "created_at": created,
        "jobs": [],
    }
    path.write_text(json.dumps({**document, **more}))
    return path


def no_store() -> Store:
    raise AssertionError("no store is needed")


def test_files_and_folders_need_no_store(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    old = write(tmp_path / "cache" / "x.json", "2026-01-01", "c1")
    new = write(tmp_path / "cache" / "a.json", "2026-01-02", "c2")
    write(tmp_path / "cache" / "o.json", "2026-01-03", "c3", benchmark="other")
    (tmp_path / "cache" / "gate.json").write_text('{"schema": "assay.gate/1"}')
    (tmp_path / "cache" / "broken.json").write_text("{")
    find = References(no_store).find
    assert find("cache/x.json") == (ResultReference(path=Path("cache/x.json")),)
    assert find("cache/x.json/2") == (ResultReference(path=Path("cache/x.json"), job=2),)
    assert [one.path.name for one in find("cache/", benchmark="demo")] == [new.name, old.name]
    assert [one.path.name for one in find("./cache", most=1)] == ["o.json"]
    assert [one.path.name for one in find("cache/", benchmark="demo", but={"c2"})] == [old.name]
    assert len(find("cache/")) == 3


def test_missing_files_and_empty_folders_are_named(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    find = References(no_store).find
    for reference in ("nothing.json", "nothing.json/1", "empty/"):
        with pytest.raises(NoSuchResultError):
            find(reference)


@pytest.mark.parametrize(
    ("reference", "found"),
    [("new.json", True), ("cache/", True), ("./x", True), ("new.json/0", True), ("c1f3", False), ("c1f3/0", False),
     ("latest~1", False), ("label:branch=topic/x", False), ("commit:origin/main", False)],
)  # fmt: skip
def test_what_names_a_file(reference, found) -> None:
    assert is_file(reference) is found
