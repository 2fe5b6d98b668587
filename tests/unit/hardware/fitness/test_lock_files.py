"""The folder of the locks: which one all users share, and which ones are not to be trusted."""

import os
import stat
import sys

import pytest

from assay.hardware.fitness.lock_files import lock_folder, open_lock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners of a POSIX system")
needs_root = pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() != 0, reason="makes files of another user")
NOBODY = 65534


def tree(root, *folders):
    for folder in folders:
        (root / folder).mkdir(parents=True)
    return root


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_that_can_be_made_is_made_for_everyone(tmp_path):
    folder = lock_folder(root=tree(tmp_path, "run/lock", "var/lock", "tmp"), environment={})
    assert folder == tmp_path / "run/lock/assay"
    assert mode(folder) == 0o1777
    assert list((tmp_path / "run/lock").iterdir()) == [folder]


def test_one_that_is_there_goes_before_one_that_could_be_made(tmp_path):
    root = tree(tmp_path, "run/lock", "tmp/assay-locks")
    (root / "tmp/assay-locks").chmod(0o1777)
    assert lock_folder(root=root, environment={}) == root / "tmp/assay-locks"


def test_without_system_folders_it_is_the_temporary_one(tmp_path):
    assert lock_folder(root=tree(tmp_path, "tmp"), environment={}) == tmp_path / "tmp/assay-locks"


def test_nothing_is_made_where_nobody_requested_it(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        lock_folder(root=tree(tmp_path, "run/lock", "tmp"), environment={}, make=False)
    assert not list((tmp_path / "run/lock").iterdir())


@pytest.mark.parametrize(("bits", "why"), [(0o777, "sticky bit"), (0o755, "not open to all")])
def test_a_folder_that_cannot_be_trusted_or_shared_is_passed_over(tmp_path, bits, why):
    root = tree(tmp_path, "run/lock/assay", "tmp")
    (root / "run/lock/assay").chmod(bits)
    assert lock_folder(root=root, environment={}) == root / "tmp/assay-locks"
    (root / "tmp/assay-locks").rmdir()
    (root / "tmp/assay-locks").touch()
    with pytest.raises(OSError, match=why):
        lock_folder(root=root, environment={})


def test_the_folder_that_the_environment_names_wins_and_may_be_private(tmp_path):
    given = tmp_path / "mine"
    given.mkdir(mode=0o700)
    assert lock_folder(root=tmp_path, environment={"ASSAY_LOCK_FOLDER": str(given)}) == given
    given.chmod(0o777)
    with pytest.raises(OSError, match="sticky bit"):
        lock_folder(root=tmp_path, environment={"ASSAY_LOCK_FOLDER": str(given)})


@needs_root
def test_a_link_that_another_user_planted_is_not_followed(tmp_path):
    root = tree(tmp_path, "tmp", "trap")
    (root / "trap").chmod(0o1777)
    link = root / "tmp/assay-locks"
    link.symlink_to(root / "trap")
    assert lock_folder(root=root, environment={}) == link  # our own, or root's, is as good as a folder
    os.lchown(link, NOBODY, NOBODY)
    with pytest.raises(OSError, match="symbolic link that another user made"):
        lock_folder(root=root, environment={})


def test_files_are_for_everyone_whatever_the_umask_says(tmp_path):
    before = os.umask(0o077)
    try:
        os.close(open_lock(tmp_path / "cpu.lock"))
    finally:
        os.umask(before)
    assert mode(tmp_path / "cpu.lock") == 0o666


def test_a_lock_is_not_handed_on_to_children(tmp_path):
    handle = open_lock(tmp_path / "cpu.lock")
    try:
        assert not os.get_inheritable(handle)
    finally:
        os.close(handle)
