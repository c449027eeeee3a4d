"""On which file system an open file lies, without asking that file system.

`fstat` of a file on FUSE can wait for its server for ever. The number of the
mount is in /proc/self/fdinfo/FD and its type in mountinfo (proc_pid_mountinfo(5)):
neither touches the file system itself.
"""

from __future__ import annotations

from dataclasses import dataclass

FILE_SYSTEMS = frozenset(("ext4", "xfs", "btrfs", "overlay", "tmpfs", "erofs", "squashfs"))
"""Local ones that answer without a server: where a driver library is read."""
MOUNTINFO_LIMIT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo, as far as it is needed."""

    number: int
    """Unique on the node, in whichever mount namespace."""
    device_major: int
    device_minor: int
    file_system: str


def parse_mountinfo(text: bytes) -> tuple[Mount, ...]:
    """Parse /proc/PID/mountinfo; lines of another form are left out."""
    mounts = []
    for line in text.split(b"\n"):
        before, separator, after = line.partition(b" - ")
        fields, kind = before.split(b" "), after.split(b" ")
        if not separator or len(fields) < 6:
            continue
        major, _, minor = fields[2].partition(b":")
        if fields[0].isdigit() and major.isdigit() and minor.isdigit() and len(fields[2]) <= 20:
            name = kind[0].decode("ascii", "replace")
            mounts.append(Mount(int(fields[0][:20]), int(major), int(minor), name))
    return tuple(mounts)


def parse_mount_number(fdinfo: bytes) -> int | None:
    """Parse the number of the mount from /proc/self/fdinfo/FD."""
    for line in fdinfo.split(b"\n"):
        key, _, value = line.partition(b":")
        if key == b"mnt_id" and value.strip().isdigit():
            return int(value.strip()[:20])
    return None


def file_system(
    mounts: tuple[Mount, ...], number: int | None, device: tuple[int, int] | None
) -> str | None:
    """The type of a mount by its number, else by its device.

    A mount that left the namespace (lazily unmounted, or behind a pivoted root)
    has no line; another mount of the same device then tells the type.

    Returns:
        None where neither is found.
    """
    for mount in mounts:
        if mount.number == number:
            return mount.file_system
    for mount in mounts:
        if (mount.device_major, mount.device_minor) == device:
            return mount.file_system
    return None
