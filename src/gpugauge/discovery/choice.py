"""Which libraries are worth a link, when not all can have one."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpugauge.discovery.decision import LINKED, Entry, Stage, User
from gpugauge.model.library import FileId

LIBRARIES_LIMIT = 64
CGROUP_LIMIT = 4
"""Libraries of one container. Refused ones count too: each costs an inspection."""


def merged_users(entries: Mapping[FileId, Entry]) -> dict[FileId, dict[int, User]]:
    """The users of each file under all its names, by pid; aliases have no row of their own."""
    merged = {
        entry.file_id: dict(entry.users)
        for entry in entries.values()
        if entry.stage is not Stage.ALIAS
    }
    for entry in entries.values():
        if entry.alias_of is not None:
            merged[entry.alias_of].update(entry.users)
    return merged


def choose(
    entries: Mapping[FileId, Entry], users: Mapping[FileId, Mapping[int, User]], *, idle: bool
) -> tuple[list[FileId], dict[FileId, str]]:
    """Choose the files that should be attached.

    Args:
        entries: The catalogue.
        users: From merged_users.
        idle: There has been no GPU process for long: the host's driver may go too.

    Returns:
        Those chosen, best first, and the reason for each other one in use.
    """

    def wanted(entry: Entry) -> bool:
        if entry.host is not None and (entry.host.keep or not idle):
            return True
        return bool(entry.users) and not pins_foreign_mount(entry)

    def rank(entry: Entry) -> tuple[bool, int, int]:
        # Twice the weight for one that is attached: two of a size must not take turns.
        weight = len(users[entry.file_id]) * (2 if entry.stage in LINKED else 1)
        return entry.host is None, -weight, entry.order

    chosen: list[FileId] = []
    reasons: dict[FileId, str] = {}
    used: dict[int, int] = {}
    for entry in sorted((entries[file_id] for file_id in users), key=rank):
        if not wanted(entry):
            continue
        cgroups = {user.cgroup for user in users[entry.file_id].values()}
        if entry.host is None and not _charge(cgroups, used):
            reasons[entry.file_id] = f"its container maps more than {CGROUP_LIMIT} driver libraries"
        elif len(chosen) >= LIBRARIES_LIMIT:
            reasons[entry.file_id] = f"more than {LIBRARIES_LIMIT} driver libraries are in use"
        else:
            chosen.append(entry.file_id)
    return chosen, reasons


def pins_foreign_mount(entry: Entry) -> bool:
    """Whether a link goes through a mount of a container that does not use it any more.

    Such a mount cannot be unmounted, so the pod would not end.
    """
    if entry.via is None or entry.stage is not Stage.ATTACHED:
        return False
    return all(user.cgroup != entry.via for user in entry.users.values())


def _charge(cgroups: Collection[int], used: dict[int, int]) -> bool:
    """Charge a library to the container with most room among those that use it."""
    cgroup = min(cgroups, key=lambda each: (used.get(each, 0), each))
    if used.get(cgroup, 0) >= CGROUP_LIMIT:
        return False
    used[cgroup] = used.get(cgroup, 0) + 1
    return True
