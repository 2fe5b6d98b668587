"""Commits in folders of their own: the line between two, what does not build, and a checkout that is left alone."""

import os
import subprocess
from pathlib import Path

import pytest

from assay.errors import UsageError
from assay.experiments.candidates import Commit, Repository, UnbuiltError, worktrees


def git(folder, *words):
    done = subprocess.run(
        [
            "git",
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.org",
            "-c",
            "init.defaultBranch=main",
            "-c",
            "commit.gpgsign=false",
            *words,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(folder, subject, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "--allow-empty", "-q", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    shas = [commit(folder, f"step {index}", bench__value=str(index)) for index in range(5)]
    return folder, shas


def test_the_line_goes_from_good_to_bad_with_both_ends(repository):
    folder, shas = repository
    found = Repository.of(folder / "bench")
    assert found.root == folder.resolve()
    assert found.inside == Path("bench")
    line = found.between("HEAD~3", "HEAD")
    assert [one.sha for one in line] == shas[1:]
    assert str(line[0]) == f"{shas[1][:9]} step 1"


def test_a_merged_branch_is_one_step(repository):
    folder, shas = repository
    git(folder, "checkout", "-q", "-b", "side", shas[1])
    inner = commit(folder, "on the side", other="x")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-ff", "-m", "merge", "side")
    head = git(folder, "rev-parse", "HEAD")
    line = Repository.of(folder).between(shas[2], "main")
    assert [one.sha for one in line] == [*shas[2:], head]
    with pytest.raises(UsageError, match="first parents") as refused:
        Repository.of(folder).between(inner, "main")
    assert refused.value.problem.code == "commits"


@pytest.mark.parametrize(("good", "bad", "words"), [
    ("HEAD", "HEAD~1", "older than good"),
    ("HEAD", "HEAD", "the same commit"),
    ("nothing", "HEAD", "no commit 'nothing'"),
    ("--help", "HEAD", "no commit '--help'"),
])  # fmt: skip
def test_ends_that_make_no_sense(repository, good, bad, words):
    with pytest.raises(UsageError, match=words):
        Repository.of(repository[0]).between(good, bad)


def test_a_folder_outside_any_repository(tmp_path):
    with pytest.raises(UsageError, match="not in a git repository") as refused:
        Repository.of(tmp_path)
    assert refused.value.problem.code == "no-repository"


def snapshot(folder):
    """Everything about a checkout that a tool could disturb."""
    files = {
        str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if ".git" not in path.parts
    }
    index = (folder / ".git" / "index").read_bytes()
    return files, index, git(folder, "status", "--porcelain"), git(folder, "rev-parse", "HEAD"), git(folder, "branch")


def test_commits_are_checked_out_beside_the_checkout_and_leave_nothing(repository, monkeypatch):
    folder, shas = repository
    (folder / "bench" / "value").write_text("not committed")
    hook = folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch hooked\n")
    hook.chmod(0o755)
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as inside a hook
    found = Repository.of(folder / "bench")
    assert found.has_changes()
    monkeypatch.delenv("GIT_DIR")
    before = snapshot(folder)
    with worktrees(found) as trees:
        for index in (1, 3):
            inside = trees.folder_of(shas[index])
            assert (inside / "value").read_text() == str(index)
            assert not (inside.parent / "hooked").exists()
        assert trees.folder_of(shas[1]) == trees.folder_of(shas[1])
        gone = trees.folder_of(shas[3])
        trees.let_go(shas[3])
        assert not gone.exists()
    assert snapshot(folder) == before
    assert git(folder, "worktree", "list").count("\n") == 0
    assert not list(Path(os.environ["TMPDIR"]).iterdir())


def test_builds_run_in_the_commit_once_and_failed_ones_are_reported(repository):
    folder, shas = repository
    build = "test $(cat bench/value) != 2 || { echo cannot compile; exit 7; }; echo x >> built"
    with worktrees(Repository.of(folder / "bench"), build) as trees:
        for _ in range(2):
            inside = trees.folder_of(shas[3])
        assert (inside.parent / "built").read_text() == "x\n"
        with pytest.raises(UnbuiltError, match=r"does not build \(exit code 7\): cannot compile"):
            trees.folder_of(shas[2])
    assert git(folder, "worktree", "list").count("\n") == 0


def test_a_build_that_hangs_is_ended(repository):
    folder, shas = repository
    with worktrees(Repository.of(folder), "sleep 60 & wait", 0.2) as trees, pytest.raises(UnbuiltError, match="within"):
        trees.folder_of(shas[0])


def test_a_commit_without_the_folder_cannot_be_measured(repository):
    folder, shas = repository
    commit(folder, "new", later__file="x")
    with worktrees(Repository.of(folder / "later")) as trees, pytest.raises(UnbuiltError, match="no folder later"):
        trees.folder_of(shas[0])


def test_commits_read_as_people_write_them():
    assert str(Commit("0123456789abcdef", "Make it fast")) == "012345678 Make it fast"
