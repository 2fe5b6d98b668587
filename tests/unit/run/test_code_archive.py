"""Code is packed so that equal content is one file, and unpacked without trusting who packed it."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import MeasureError
from assay.run import code_archive
from assay.run.code_archive import pack, unpack


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "first" / "src"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o744)
    (folder / "lib" / "more.py").write_text("x = 1\n")
    (folder / "latest").symlink_to("lib/more.py")
    return folder


def names(packed: Path) -> list[str]:
    with tarfile.open(packed) as archive:
        return archive.getnames()


def test_a_folder_keeps_its_name_and_comes_back_as_it_was(source: Path, tmp_path: Path) -> None:
    packed = pack(source, tmp_path / "cache")
    assert (packed.path.name, packed.files) == (f"{packed.sha256}.tar", 4)
    assert packed.path.stat().st_size == packed.size_bytes
    assert unpack(packed.path, tmp_path / "out") == 4
    out = tmp_path / "out" / "src"
    assert (out / "lib/more.py").read_text() == "x = 1\n"
    assert (out / "latest").readlink() == Path("lib/more.py")
    assert stat.S_IMODE((out / "run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((out / "train.py").stat().st_mode) == 0o644


def test_equal_content_is_the_same_file_wherever_and_whenever_it_is_packed(source: Path, tmp_path: Path) -> None:
    import shutil

    other = tmp_path / "second" / "src"
    shutil.copytree(source, other, symlinks=True)
    os.utime(other / "train.py", (1, 1))
    (other / "__pycache__").mkdir()
    (other / "__pycache__" / "train.cpython-311.pyc").write_text("made again by itself")
    (other / ".git").mkdir()
    (other / ".git" / "HEAD").write_text("ref")
    assert pack(other, tmp_path / "other cache").sha256 == pack(source, tmp_path / "cache").sha256
    (other / "train.py").write_text("print(2)\n")
    assert pack(other, tmp_path / "cache").sha256 != pack(source, tmp_path / "cache").sha256
    assert len(list((tmp_path / "cache" / code_archive.FOLDER).iterdir())) == 2, "nothing half-written stays"


def test_a_cache_that_was_emptied_is_filled_again(source: Path, tmp_path: Path) -> None:
    first = pack(source, tmp_path / "cache")
    first.path.unlink()
    assert pack(source, tmp_path / "cache").path.is_file()


def test_one_file_and_an_archive_are_code_too(source: Path, tmp_path: Path) -> None:
    assert names(pack(source / "train.py", tmp_path / "cache").path) == ["train.py"]
    archive = tmp_path / "theirs.tar"
    with tarfile.open(archive, "w") as made:
        made.add(source / "train.py", "bench/train.py")
    packed = pack(archive, tmp_path / "cache")
    assert (packed.path, packed.files) == (archive, 1)
    assert packed.sha256 == pack(archive, tmp_path / "cache").sha256


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: (folder / "out").symlink_to("../../elsewhere"), "leads out of the code"),
        (lambda folder: (folder / "out").symlink_to(folder.absolute() / "train.py"), "leads out of the code"),
        (lambda folder: os.mkfifo(folder / "pipe"), "no file that could be packed"),
    ],
)
def test_what_leads_out_or_is_no_file_is_refused(source: Path, tmp_path: Path, make, words: str) -> None:
    make(source)
    with pytest.raises(MeasureError, match=words):
        pack(source, tmp_path / "cache")


def test_code_that_is_none_is_refused(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MeasureError, match="is not there"):
        pack(tmp_path / "nowhere", tmp_path / "cache")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MeasureError, match="holds no file"):
        pack(tmp_path / "empty", tmp_path / "cache")
    (tmp_path / "wrong.tar").write_text("no archive")
    with pytest.raises(MeasureError, match="no archive that can be read"):
        pack(tmp_path / "wrong.tar", tmp_path / "cache")
    monkeypatch.setattr(code_archive, "MAX_BYTES", 10)
    with pytest.raises(MeasureError, match="which is no code"):
        pack(source, tmp_path / "cache")


def archive_of(*members: tuple[str, bytes, str]) -> io.BytesIO:
    """An archive with files, links (`->`) and whatever else a type stands for."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                member.linkname = content
                archive.addfile(member)
            else:
                member.size = len(content.encode()) if kind == tarfile.REGTYPE else 0
                archive.addfile(member, io.BytesIO(content.encode()))
    return made


def unpacked(tmp_path: Path, *members: tuple[str, bytes, str]) -> int:
    (tmp_path / "x.tar").write_bytes(archive_of(*members).getvalue())
    return unpack(tmp_path / "x.tar", tmp_path / "in" / "out")


FILE, LINK, HARD, PIPE = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE


@pytest.mark.parametrize(
    "members",
    [
        [("../evil", FILE, "x")],
        [("/etc/evil", FILE, "x")],
        [("a/../../evil", FILE, "x")],
        [("..", FILE, "x")],
        [("a", LINK, ".."), ("a/evil", FILE, "x")],
        [("b", LINK, "."), ("a", LINK, "b/.."), ("a/evil", FILE, "x")],
        [("a", LINK, "/tmp"), ("a/evil", FILE, "x")],
    ],
)
def test_nothing_is_written_outside(tmp_path: Path, members) -> None:
    with pytest.raises(MeasureError, match="leads out of the folder"):
        unpacked(tmp_path, *members)
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("name", ["a/evil", "a/evil/deeper", "a/evil/deeper/file"])
@pytest.mark.parametrize("kind", [tarfile.DIRTYPE, tarfile.REGTYPE])
def test_no_folder_is_made_outside_through_a_link(tmp_path: Path, name: str, kind: bytes) -> None:
    (tmp_path / "outside").mkdir()
    with pytest.raises(MeasureError, match="leads out of the folder"):
        unpacked(tmp_path, ("a", LINK, str(tmp_path / "outside")), (name, kind, "x"))
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize("members", [[("b", HARD, "nothing")], [("s", LINK, "s"), ("h", HARD, "s")]])
def test_a_hard_link_to_nothing_is_refused(tmp_path: Path, members) -> None:
    with pytest.raises(MeasureError, match="is a link to no file of the archive"):
        unpacked(tmp_path, *members)


def test_a_file_takes_the_place_of_a_link_and_does_not_follow_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "victim").write_text("mine")
    assert unpacked(tmp_path, ("a", LINK, "../victim"), ("a", FILE, "theirs")) == 2
    assert (tmp_path / "in" / "victim").read_text() == "mine"
    assert (tmp_path / "in" / "out" / "a").read_text() == "theirs"


def test_hard_links_are_copies_and_pipes_are_refused(tmp_path: Path) -> None:
    assert unpacked(tmp_path, ("a", FILE, "same"), ("b", HARD, "a")) == 2
    assert (tmp_path / "in" / "out" / "b").read_text() == "same"
    with pytest.raises(MeasureError, match="is no file"):
        unpacked(tmp_path, ("p", PIPE, ""))


def test_an_archive_that_unfolds_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_archive, "MAX_FILES", 3)
    with pytest.raises(MeasureError, match="unfolds to more than"):
        unpacked(tmp_path, *[(f"f{index}", FILE, "x") for index in range(4)])


PARTS = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0\\", exclude_categories=("C",)), min_size=1, max_size=12
)


@settings(max_examples=60)
@given(
    content=st.dictionaries(
        PARTS.filter(lambda name: name not in (".", "..")), st.binary(max_size=200), min_size=1, max_size=5
    )
)
def test_whatever_is_packed_comes_back(tmp_path_factory: pytest.TempPathFactory, content: dict[str, bytes]) -> None:
    folder = tmp_path_factory.mktemp("code")
    source = folder / "src"
    source.mkdir()
    kept = {}
    for name, text in content.items():
        (source / name).write_bytes(text)
        if name not in code_archive._LEFT_OUT and not name.endswith(".pyc"):
            kept[name] = text
    if not kept:
        return
    # Two names may be one to a disk.
    kept = {path.name: path.read_bytes() for path in source.iterdir() if path.name in kept}
    packed = pack(source, folder / "cache")
    unpack(packed.path, folder / "out")
    assert {path.name: path.read_bytes() for path in (folder / "out" / "src").iterdir()} == kept


@pytest.mark.parametrize(
    ("content", "mode", "runs"),
    [
        (b"#!/bin/sh\necho x\n", 0o644, True),
        (b"\x7fELF rest", 0o644, True),
        (b"echo x\n", 0o755, True),
        (b"echo x\n", 0o644, False),
        (b"", 0o644, False),
    ],
    ids=["script", "program", "bit", "text", "empty"],
)
def test_what_can_be_run_is_executable_where_it_is_unpacked(
    tmp_path: Path, content: bytes, mode: int, runs: bool
) -> None:
    # Archives and checkouts lose the bit of an entry point.
    entry = tmp_path / "src" / "entrypoint.sh"
    entry.parent.mkdir()
    entry.write_bytes(content)
    entry.chmod(mode)
    unpack(pack(entry.parent, tmp_path / "cache").path, tmp_path / "there")
    assert os.access(tmp_path / "there" / "src" / "entrypoint.sh", os.X_OK) is runs
    assert entry.stat().st_mode & 0o777 == mode, "the user's own file stays as it was"
