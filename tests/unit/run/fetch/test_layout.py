"""What was fetched is found: at its path in a container, and below a folder by a plain process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import MeasureError
from assay.run.fetch import mover, placed
from assay.run.fetch.source import FetchedFile
from assay.spec.benchmark import Definition


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("/models/a.mar", "/R/models/a.mar"),
        ("--store=/models", "--store=/R/models"),
        ("/models/", "/R/models/"),
        ("/data/mnist/train.gz,/models/a.mar", "/R/data/mnist/train.gz,/R/models/a.mar"),
        ("file:///models/a.mar", "file:///models/a.mar"),
        ("https://host/models/a.mar", "https://host/models/a.mar"),
        ("/usr/bin/python", "/usr/bin/python"),
        ("/models2", "/models2"),
        ("/modelsx/a.mar", "/modelsx/a.mar"),
        ("/", "/"),
        ("models/a.mar", "models/a.mar"),
        ("{code}/models/a.mar", "{code}/models/a.mar"),
        ("$(X)/models", "$(X)/models"),
        ("/big/deep/file.bin", "/R/big/deep/file.bin"),
        ("/other/deep", "/other/deep"),
    ],
)
def test_paths_in_a_text_are_moved(text: str, becomes: str) -> None:
    move = mover(["/models/a.mar", "/data/mnist/train.gz", "/big"], Path("/R"))
    assert move(text) == becomes


@given(st.text(max_size=40))
def test_a_text_without_a_slash_stays(text: str) -> None:
    move = mover(["/models/a.mar"], Path("/R"))
    assert move(text.replace("/", "")) == text.replace("/", "")


def definition(**sections: Any) -> Definition:
    return Definition.model_validate_json(json.dumps(sections))


def had(tmp_path: Path, path: str, name: str = "file") -> FetchedFile:
    here = tmp_path / "cache" / name
    here.parent.mkdir(exist_ok=True)
    here.write_text(f"content of {name}")
    return FetchedFile(f"https://x/{name}", path, here)


def test_a_container_is_given_mounts_that_are_only_read(tmp_path: Path) -> None:
    one = had(tmp_path, "/data/x")
    found = placed(definition(target={"command": "train /data/x", "image": "i"}), {"target": [one]}, tmp_path / "f")
    target: Any = found.target
    assert target.mounts == {str(one.here): "/data/x:ro"}
    assert target.command == "train /data/x"


def test_one_file_can_be_at_two_places(tmp_path: Path) -> None:
    pair = [had(tmp_path, "/a"), had(tmp_path, "/b")]
    target: Any = placed(definition(target={"image": "i"}), {"target": pair}, tmp_path / "f").target
    assert sorted(target.mounts.values()) == ["/a:ro", "/b:ro"]
    assert all(Path(here).read_text() == "content of file" for here in target.mounts)


def test_a_plain_process_finds_its_files_in_a_folder_of_its_own(tmp_path: Path) -> None:
    services = {"web": {"command": "serve --store /models", "env": {"STORE": "/models/a.mar"}}}
    found = placed(
        definition(services=services, target={"command": ["train", "--data=/data/x y"], "env": {"D": "/data"}}),
        {"services.web": [had(tmp_path, "/models/a.mar", "a")], "target": [had(tmp_path, "/data/x", "x")]},
        tmp_path / "f",
    )
    web, target = found.services["web"], found.target
    store = tmp_path / "f" / "services.web" / "models"
    assert web.command == ("serve", "--store", str(store))
    assert Path(web.env["STORE"]).read_text() == "content of a"
    assert target.command == ("train", f"--data={tmp_path}/f/target/data/x y")  # type: ignore[union-attr]
    assert (Path(target.env["D"]) / "x").read_text() == "content of x"  # type: ignore[union-attr]


def test_a_shell_keeps_its_text(tmp_path: Path) -> None:
    found = placed(
        definition(target={"command": "cat /data/x | wc", "shell": True}),
        {"target": [had(tmp_path, "/data/x")]},
        tmp_path / "f",
    )
    assert found.target.command == f"cat {tmp_path}/f/target/data/x | wc"  # type: ignore[union-attr]


@pytest.mark.parametrize("paths", [("/a", "/a"), ("/a", "/a/b")])
def test_two_files_cannot_be_at_one_place(tmp_path: Path, paths: tuple[str, str]) -> None:
    crowd = [had(tmp_path, path, str(index)) for index, path in enumerate(paths)]
    with pytest.raises(MeasureError, match="where another file goes too"):
        placed(definition(target={"command": "x"}), {"target": crowd}, tmp_path / "f")
