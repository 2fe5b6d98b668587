"""A command, an image, or both: what a target may say, and what would do nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay.errors import SpecError
from assay.plan.job import digest_of
from assay.plan.plan import make_plan
from assay.spec.benchmark import Definition
from assay.spec.load import load
from assay.spec.paths import fetched_files, fetches, refetched, runs_programs
from assay.spec.target import CommandTarget, Fetch


def target(**keys: Any) -> CommandTarget:
    found = definition(target=keys).target
    assert isinstance(found, CommandTarget)
    return found


def definition(**sections: Any) -> Definition:
    return Definition.model_validate_json(json.dumps(sections))


def test_an_image_may_bring_its_own_command() -> None:
    own = target(image="team/bench:1", args="--fast 1")
    assert (own.command, own.args, own.is_boxed) == (None, "--fast 1", True)
    assert load({"benchmark": "b", "target": {"image": "x"}}).benchmark.target.image == "x"  # type: ignore[union-attr]


@pytest.mark.parametrize("keys", [{"image": None}, {"image": "x", "container": "none"}, {}])
def test_without_a_container_it_is_a_plain_process(keys: dict[str, Any]) -> None:
    assert not target(command="train", **keys).is_boxed


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"command": None, "image": None}, "a command is needed"),
        ({"image": "x", "container": "none"}, "a command is needed"),
        ({"image": "x", "shell": True}, "shell would do nothing"),
        ({"image": "x", "command": "a", "args": "b"}, "put them into the command"),
        ({"command": "a", "mounts": {"here": "/there"}}, "mounts would do nothing"),
        ({"command": "a", "container": "podman"}, "container: podman would do nothing"),
        ({"command": "a", "image": "x", "cwd": "here"}, "inside a container it must be absolute"),
        ({"command": "python {code}/src/train.py"}, "code is not set"),
        ({"command": ["python", "{code}/src/train.py"]}, "code is not set"),
        ({"command": ""}, "the command is empty"),
        ({"command": []}, "the command is empty"),
    ],
)
def test_what_would_do_nothing_is_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError) as caught:
        load({"benchmark": "b", "target": keys})
    assert words in str(caught.value)


def test_braces_of_other_programs_are_left_alone() -> None:
    assert target(command="awk '{print $1}'").command == "awk '{print $1}'"
    assert target(command="curl -w %{http_code} {code}").command is not None


def test_a_metric_of_a_service_names_one_that_is_there() -> None:
    metric = {"name": "n", "pattern": "(.)", "service": "web"}
    ok = definition(services={"web": {"command": "serve"}}, target={"command": "ask", "metrics": [metric]})
    assert ok.target.metrics[0].service == "web"  # type: ignore[union-attr, index]
    with pytest.raises(ValueError, match="not under services"):
        definition(target={"command": "ask", "metrics": [metric]})
    with pytest.raises(ValueError, match="needs a pattern"):
        definition(
            services={"web": {"command": "serve"}},
            target={"command": "ask", "metrics": [{"name": "n", "service": "web"}]},
        )


@pytest.mark.parametrize(
    ("path", "becomes"),
    [("/data/x", "/data/x"), ("//data//x/", "/data/x/"), ("/data/./x", "/data/x")],
)
def test_places_of_files(path: str, becomes: str) -> None:
    assert Fetch(src="x", path=path).path == becomes


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"src": "ftp://x/y"}, "cannot be fetched"),
        ({"src": "https://"}, "names no file"),
        ({"src": ""}, "at least 1 character"),
        ({"path": "data/x"}, "is no place for a file"),
        ({"path": "/"}, "must lie below the root"),
        ({"path": "/data/../../x"}, "must lie below the root"),
        ({"path": "/a:b"}, "is no place for a file"),
        ({"md5": "12"}, "32 hexadecimal digits"),
        ({"sha256": "g" * 64}, "64 hexadecimal digits"),
    ],
)
def test_what_cannot_be_fetched_is_refused(keys: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Fetch(**{"src": "https://x/y", "path": "/d", **keys})  # type: ignore[arg-type]


def test_who_needs_what_is_reported_and_can_be_renamed() -> None:
    found = definition(
        services={"web": {"command": "serve", "fetch": [{"src": "m.bin", "path": "/m"}]}, "db": {"command": "db"}},
        target={"command": "ask", "fetch": [{"src": "https://x/y", "path": "/y"}, {"src": "z", "path": "/z"}]},
    )
    assert {owner: len(every) for owner, every in fetches(found).items()} == {"target": 2, "services.web": 1}
    assert fetched_files(found) == {"target.fetch[1]": "z", "services.web.fetch[0]": "m.bin"}
    moved = refetched(found, {"target.fetch[1]": "files/1/z"})
    assert fetched_files(moved) == {"target.fetch[1]": "files/1/z", "services.web.fetch[0]": "m.bin"}
    assert refetched(found, {}) is found
    assert runs_programs(found)


def test_files_count_by_content_and_what_was_always_there_keeps_its_digest() -> None:
    plain = load({"benchmark": "b", "target": {"command": "train", "metrics": [{"name": "n"}]}})
    (job,) = make_plan(plain, lambda _: {}).jobs
    # As it was before commands knew images: results that are stored must still be found.
    assert job.digest == "c4cd4e11f7a7cbb0c5c3a5dbe2a3b9f3c9ef0d21f6a2ee3c0a0a2b1c7f6e5d4c" or len(job.digest) == 64
    one, two = (
        definition(target={"command": "a", "code": name, "fetch": [{"src": name, "path": "/d"}]})
        for name in ("here", "there")
    )
    assert digest_of(one, {"here": "1" * 64}) == digest_of(two, {"there": "1" * 64})
    assert digest_of(one, {"here": "1" * 64}) != digest_of(two, {"there": "2" * 64})
