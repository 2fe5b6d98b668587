"""An image with this very Python and assay in it, made of hard links on the spot: nothing is fetched or unpacked."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

import assay

_FOLDERS = ("bin", "dev", "proc", "sys", "tmp", "etc", "root", "home", "mnt", "var/tmp", "usr/bin")
_LIBRARIES = ("/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib")
# Where the image has its Python: a runtime may hide a folder of the image, such as /tmp, behind one of the node.
_PREFIX = Path("/opt/assay")
PYTHON = str(_PREFIX / "bin" / "python")
_NOT_NEEDED = ("test", "site-packages", "dist-packages", "idlelib", "tkinter", "ensurepip")


def python_image(folder: Path, busybox: str) -> Path:
    """Make the folder of an image in which `PYTHON` runs assay."""
    for name in _FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(busybox, folder / "bin/busybox")
    for name in ("sh", "cat", "env", "sleep", "echo"):
        (folder / "bin" / name).symlink_to("busybox")
    for name in ("passwd", "group", "hosts", "resolv.conf"):
        (folder / "etc" / name).touch()
    for path in _libraries():
        _link(path, folder)
    _interpreter(folder)
    site = Path(sysconfig.get_path("purelib"))
    inside = _PREFIX / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    for one in _needed("assay-bench", {}).values():
        for path in one.files or ():
            found = Path(str(one.locate_file(path)))
            if found.is_file() and found.is_relative_to(site):
                _link(found, folder, inside / found.relative_to(site))
    # Where assay runs from its sources, they lie elsewhere.
    _tree(Path(assay.__file__).parent, folder, inside / "assay")
    own = Path(str(distribution("assay-bench")._path))  # type: ignore[attr-defined]
    _tree(own, folder, inside / own.name)
    return folder


def _libraries() -> Iterator[Path]:
    for name in _LIBRARIES:
        yield from (path for path in sorted(Path(name).glob("*.so*")) if path.is_file())


def _interpreter(folder: Path) -> None:
    """The program, its library, what it is made of, and the environment around it."""
    real = Path(sys.executable).resolve()
    _link(real, folder)
    program = _inside(folder, Path(PYTHON))
    program.parent.mkdir(parents=True)
    program.symlink_to(real)
    (program.parents[1] / "pyvenv.cfg").write_text(f"home = {real.parent}\ninclude-system-site-packages = false\n")
    for path in Path(sys.base_prefix, "lib").glob("libpython*.so*"):
        _link(path, folder)
    _tree(Path(sysconfig.get_path("stdlib")), folder)


def _needed(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """A package and all that it requires, extras left out."""
    if name.lower() in found:
        return found
    try:
        found[name.lower()] = distribution(name)
    except PackageNotFoundError:  # for another system
        return found
    # One and the same package may be described at several places of the path.
    for line in {line for one in distributions(name=name) for line in one.requires or ()}:
        if "extra ==" not in line:
            _needed(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0], found)
    return found


def _tree(source: Path, folder: Path, to: Path | None = None) -> None:
    for root, names, files in os.walk(source):
        names[:] = [name for name in names if name not in _NOT_NEEDED]
        for name in files:
            path = Path(root, name)
            _link(path, folder, (to or source) / path.relative_to(source))


def _link(path: Path, folder: Path, to: Path | None = None) -> None:
    inside = _inside(folder, to or path)
    if inside.exists():
        return
    inside.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path.resolve(), inside)
    except OSError:  # another file system
        shutil.copy2(path, inside)


def _inside(folder: Path, path: Path) -> Path:
    return folder / path.relative_to("/")
