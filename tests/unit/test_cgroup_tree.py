"""From cgroup id to path, on a tree of directories (any file system has inodes)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpugauge.attribution import cgroup_tree
from gpugauge.attribution.cgroup_tree import CgroupTree, host_cgroup_root, unified_root


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture(autouse=True)
def _leaves_are_read(monkeypatch):
    # Only kernfs counts subdirectories in st_nlink on every file system used for tests.
    monkeypatch.setattr(CgroupTree, "_has_children", staticmethod(lambda entry: True))


def make(root: Path, *paths: str) -> dict[str, int]:
    for path in paths:
        (root / path).mkdir(parents=True, exist_ok=True)
    return {path: (root / path).stat().st_ino for path in paths}


def test_ids_are_found_by_inode(tmp_path):
    ids = make(tmp_path, "kubepods", "kubepods/pod1", "kubepods/pod1/aa", "system.slice")
    tree = CgroupTree(str(tmp_path))
    assert tree.path(ids["kubepods/pod1/aa"]) == "/kubepods/pod1/aa"
    assert tree.path(ids["system.slice"]) == "/system.slice"
    assert tree.path(tmp_path.stat().st_ino) == "/"
    assert tree.path(0) is None


def test_a_new_cgroup_is_found_by_walking_again(tmp_path):
    clock = Clock()
    tree = CgroupTree(str(tmp_path), clock=clock)
    tree.step()
    ids = make(tmp_path, "late")
    assert tree.path(ids["late"]) is None  # walked a moment ago
    clock.now += cgroup_tree.WALK_AT_MOST_EVERY_SECONDS
    assert tree.path(ids["late"]) == "/late"


def test_a_cgroup_that_went_is_remembered_for_a_while(tmp_path):
    clock = Clock()
    ids = make(tmp_path, "short")
    tree = CgroupTree(str(tmp_path), clock=clock)
    tree.step()
    (tmp_path / "short").rmdir()
    clock.now += cgroup_tree.KEEP_SECONDS - 1
    tree.step()
    assert tree.path(ids["short"]) == "/short"
    clock.now += 2
    tree.step()
    assert tree.path(ids["short"]) is None


def test_a_walk_goes_on_where_it_stopped(tmp_path):
    ids = make(tmp_path, *(f"a{n}/b{n}" for n in range(23)))
    tree = CgroupTree(str(tmp_path))
    steps = 1
    while not tree.step(directories=5):
        steps += 1
    assert steps == -(-(1 + 2 * 23) // 5)  # the root and 46 directories, five at a time
    assert {tree.path(number) for number in ids.values()} == {f"/{path}" for path in ids}


def test_limits_are_kept_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroup_tree, "DIRECTORIES_LIMIT", 7)
    make(tmp_path, *(f"c{n}" for n in range(29)))
    tree = CgroupTree(str(tmp_path))
    while not tree.step():
        pass
    assert len(tree) == 7
    assert tree.truncated > 0


def test_depth_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroup_tree, "DEPTH_LIMIT", 3)
    ids = make(tmp_path, "a/b/c", "a/b/c/d")
    tree = CgroupTree(str(tmp_path))
    tree.step()
    assert tree.path(ids["a/b/c"]) == "/a/b/c"
    assert tree.path(ids["a/b/c/d"]) is None


def test_links_are_not_followed(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path)
    tree = CgroupTree(str(tmp_path))
    assert tree.step()
    assert len(tree) == 1


def test_without_a_tree_nothing_is_found(tmp_path):
    assert unified_root(str(tmp_path)) == ""
    assert CgroupTree("").path(23) is None
    gone = CgroupTree(str(tmp_path / "gone"))
    assert gone.path(23) is None


def test_hybrid_and_pure_layouts(tmp_path):
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified/cgroup.controllers").touch()
    assert unified_root(str(tmp_path)) == f"{tmp_path}/unified"
    (tmp_path / "cgroup.controllers").touch()
    assert unified_root(str(tmp_path)) == str(tmp_path)


def test_the_first_processs_mount_is_used_from_another_cgroup_namespace(tmp_path):
    assert host_cgroup_root() == "/sys/fs/cgroup"
    (tmp_path / "1/ns").mkdir(parents=True)
    (tmp_path / "1/ns/cgroup").symlink_to("cgroup:[4026531835999]")
    assert host_cgroup_root(str(tmp_path)) == "/sys/fs/cgroup"
    (tmp_path / "1/root/sys/fs/cgroup").mkdir(parents=True)
    assert host_cgroup_root(str(tmp_path)) == f"{tmp_path}/1/root/sys/fs/cgroup"
