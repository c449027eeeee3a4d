"""Which file system a mount is."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gpugauge.discovery.mounts import (
    Mount,
    file_system,
    parse_mount_number,
    parse_mountinfo,
)

TEXT = b"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/root rw
90 27 0:41 / /a\\040b rw,relatime - overlay overlay rw,lowerdir=/l
91 27 0:42 / /c rw,relatime - fuse.sshfs host:/ rw
"""


def test_lines_of_mountinfo() -> None:
    mounts = parse_mountinfo(TEXT)
    assert mounts[1] == Mount(27, 254, 0, "ext4")
    assert [mount.file_system for mount in mounts] == ["proc", "ext4", "overlay", "fuse.sshfs"]


def test_a_mount_is_found_by_number_then_by_device() -> None:
    mounts = parse_mountinfo(TEXT)
    assert file_system(mounts, 90, (254, 0)) == "overlay"
    assert file_system(mounts, 9999, (0, 42)) == "fuse.sshfs"
    assert file_system(mounts, None, None) is None
    assert file_system(mounts, 9999, (7, 7)) is None
    assert file_system((), 90, None) is None


def test_the_number_in_fdinfo() -> None:
    assert parse_mount_number(b"pos:\t0\nflags:\t012000000\nmnt_id:\t27\nino:\t5\n") == 27
    assert parse_mount_number(b"pos:\t0\n") is None
    assert parse_mount_number(b"mnt_id:\tx\n") is None


def test_this_systems_own_mounts() -> None:
    mounts = parse_mountinfo(Path("/proc/self/mountinfo").read_bytes())
    assert "proc" in {mount.file_system for mount in mounts}
    with Path("/proc/self/mountinfo").open("rb") as file:
        number = parse_mount_number(Path(f"/proc/self/fdinfo/{file.fileno()}").read_bytes())
    assert file_system(mounts, number, None) == "proc"


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(raw: bytes) -> None:
    file_system(parse_mountinfo(raw), parse_mount_number(raw), (0, 0))
    parse_mountinfo(b"1 2 " + raw + b" - ext4 x y")
