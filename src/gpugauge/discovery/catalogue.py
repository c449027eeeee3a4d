"""The libraries of this node: which are inspected, attached and released, and when.

No input or output: observations go in, a Decision comes out, and the results of
what was decided are told back. Everything decided is told once.

The rules are those of docs/safety.md: one link a file; a file under two names
is attached once; at most LIBRARIES_LIMIT libraries, those with most processes
first; at most CGROUP_LIMIT of one container; a library without processes is
released at once, the host's own IDLE_NS after the last GPU process ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from gpugauge.discovery.backoff import Backoff
from gpugauge.discovery.choice import LIBRARIES_LIMIT, choose, merged_users
from gpugauge.discovery.decision import (
    LINKED,
    Decision,
    Entry,
    HostLibrary,
    Inspect,
    Stage,
    User,
)
from gpugauge.discovery.pauses import Pauses
from gpugauge.model.library import FileId, Library, SiteKind
from gpugauge.units import NS_PER_SECOND

INSPECTIONS_LIMIT = 2
"""Inspections at a time: each is a process with up to two seconds of CPU."""
ENTRIES_LIMIT = 1024
"""Files that are followed; users of further ones are reported as unprobed."""
IDLE_NS = 30 * NS_PER_SECOND


class Catalogue:
    """The state of every driver library that is known."""

    def __init__(self) -> None:
        self._entries: dict[FileId, Entry] = {}
        self._hosts: dict[FileId, HostLibrary] = {}
        self._others: Mapping[int, str] = {}
        self._overflow: dict[int, str] = {}
        self._backoff = Backoff()
        self._order = 0
        self._step = 0
        self._released_at = 0
        self._idle_since_ns: int | None = None
        self.pauses = Pauses()
        self.idle = False
        """No process has used a GPU for IDLE_NS: what may hinder an upgrade is let go."""

    def observe(
        self,
        users: Mapping[FileId, Collection[User]],
        others: Mapping[int, str] | None = None,
    ) -> None:
        """Take over a complete picture of who maps which file.

        Args:
            users: Every process that maps a library, by file.
            others: Processes that use a GPU and map no library, each with the
                reason it is known by; None leaves those of before.
        """
        self._overflow = {}
        for entry in self._entries.values():
            entry.users = {}
        for file_id, those in users.items():
            self._add(file_id, those)
        if others is not None:
            self._others = dict(others)
        self._forget()

    def mapped(self, file_id: FileId, user: User) -> None:
        """A process mapped a library just now."""
        self._add(file_id, (user,))
        self._forget()

    def exited(self, pid: int) -> None:
        """A process ended or began another program: it maps no library any more."""
        for entry in self._entries.values():
            entry.users.pop(pid, None)
        self._overflow.pop(pid, None)
        self._others = {other: why for other, why in self._others.items() if other != pid}
        self._forget()

    def set_hosts(self, hosts: Iterable[HostLibrary]) -> None:
        """Say which files are the host's driver. One that was and is no more is like any other."""
        self._hosts = {host.file_id: host for host in hosts}
        for entry in self._entries.values():
            entry.host = self._hosts.get(entry.file_id)
        for file_id in self._hosts:
            self._add(file_id, ())
        self._forget()

    def inspected(self, file_id: FileId, library: Library, *, probed: bool, now_ns: int) -> None:
        """Tell the result of an inspection.

        Args:
            file_id: As in the decision.
            library: What was found.
            probed: A breakpoint of ours is in it already.
            now_ns: CLOCK_MONOTONIC.
        """
        entry = self._entries.get(file_id)
        if entry is None or entry.stage is not Stage.INSPECTING:
            return
        if library.file_id != file_id:
            self._refuse(entry, "another file has come in its place", now_ns)
            return
        if all(site.kind is SiteKind.NONE for site in library.sites):
            self._refuse(entry, "none of its functions has a legal place for a probe", now_ns)
            return
        began, entry.library = entry.changed_at, library
        twins = self._twins(entry)
        attached = next((twin for twin in twins if twin.stage is Stage.ATTACHED), None)
        if probed and attached is not None:
            entry.alias_of = attached.file_id
            self._move(entry, Stage.ALIAS)
        elif any(
            twin.stage in (Stage.ATTACHING, Stage.RELEASING) or twin.changed_at > began
            for twin in twins
            if twin.stage in LINKED
        ) or (probed and self._released_at > began):
            self._move(entry, Stage.NEW)  # what was seen is older than a link, or than its end
        elif probed:
            self._refuse(entry, "another tool probes all of it, or a probe is left over", now_ns)
        else:
            self._backoff.succeeded(file_id)
            entry.reason = ""
            self._move(entry, Stage.READY)
        self._forget()

    def refused(self, file_id: FileId, reason: str, now_ns: int) -> None:
        """An inspection was refused, or an attach failed: back-off, then again."""
        entry = self._entries.get(file_id)
        if entry is not None and entry.stage in (Stage.INSPECTING, Stage.ATTACHING):
            self._refuse(entry, reason, now_ns)
            self._forget()

    def attached(self, file_id: FileId) -> None:
        """An attach succeeded."""
        entry = self._entries[file_id]
        self._move(entry, Stage.ATTACHED)
        for twin in self._twins(entry):
            if twin.stage is Stage.READY:
                self._move(twin, Stage.NEW)  # may be the same file: ask the canary again

    def released(self, file_id: FileId) -> None:
        """All links of a library are closed."""
        entry = self._entries[file_id]
        self._move(entry, Stage.NEW)
        self._released_at = self._step
        entry.library, entry.via = None, None
        for other in self._entries.values():
            if other.alias_of == file_id:
                other.alias_of = None
                self._move(other, Stage.NEW)
        self._forget()

    def libraries(self) -> tuple[Library, ...]:
        """The attached libraries."""
        return tuple(
            self._library(entry)
            for entry in self._entries.values()
            if entry.stage is Stage.ATTACHED and entry.library is not None
        )

    def files(self) -> dict[int, FileId]:
        """The file that each process maps, by pid, under the name it is attached by."""
        return {
            pid: entry.alias_of or entry.file_id
            for entry in self._entries.values()
            for pid in entry.users
        }

    def decide(self, now_ns: int) -> Decision:
        """Say what should be done now."""
        chosen, reasons = self._choose(now_ns)
        release = []
        for entry in self._entries.values():
            if entry.stage is Stage.ATTACHED and entry.file_id not in chosen:
                self._move(entry, Stage.RELEASING)
                release.append(entry.file_id)
        linked = sum(entry.stage in LINKED for entry in self._entries.values())
        inspecting = sum(entry.stage is Stage.INSPECTING for entry in self._entries.values())
        inspect: list[Inspect] = []
        attach: list[Library] = []
        for entry in (self._entries[file_id] for file_id in chosen):
            if entry.stage not in (Stage.NEW, Stage.READY) or self._twin_under_way(entry):
                continue
            if entry.stage is Stage.READY and linked < LIBRARIES_LIMIT:
                linked += 1
                self._move(entry, Stage.ATTACHING)
                attach.append(self._attachment(entry))
            elif (
                entry.stage is Stage.NEW
                and inspecting < INSPECTIONS_LIMIT
                and self._backoff.allows(entry.file_id, now_ns)
            ):
                inspecting += 1
                self._move(entry, Stage.INSPECTING)
                inspect.append(self._inspection(entry))
        return Decision(tuple(inspect), tuple(attach), tuple(release), self._unprobed(reasons))

    def _choose(self, now_ns: int) -> tuple[list[FileId], dict[FileId, str]]:
        users = merged_users(self._entries)
        if self._idle_since_ns is None or self._others or any(users.values()):
            self._idle_since_ns = now_ns
        self.idle = now_ns - self._idle_since_ns >= IDLE_NS
        chosen, reasons = choose(self._entries, users, idle=self.idle)
        return self.pauses.apply(chosen, reasons, now_ns)

    def _unprobed(self, reasons: Mapping[FileId, str]) -> dict[int, str]:
        unprobed = {**self._others, **self._overflow}
        for entry in self._entries.values():
            name = entry.alias_of or entry.file_id
            if self._entries[name].stage is not Stage.ATTACHED:
                reason = reasons.get(name) or entry.reason or "its library is not attached yet"
                unprobed.update(dict.fromkeys(entry.users, reason))
        return unprobed

    def _inspection(self, entry: Entry) -> Inspect:
        tenant_supplied = entry.host is None
        if entry.host is not None:
            path = entry.host.path
            return Inspect(entry.file_id, path, path, 0, tenant_supplied)
        user = entry.oldest_user
        return Inspect(entry.file_id, user.map_files_path, user.path, user.pid, tenant_supplied)

    def _attachment(self, entry: Entry) -> Library:
        """Its library, with the path that leads to it now: of the host, if there is one."""
        if entry.host is not None:
            entry.via, path = None, entry.host.path
        else:
            user = entry.oldest_user
            entry.via, path = user.cgroup, user.map_files_path
        return replace(self._library(entry), path=path)

    def _library(self, entry: Entry) -> Library:
        assert entry.library is not None  # noqa: S101 (so it is from READY on)
        return replace(entry.library, tenant_supplied=entry.host is None)

    def _twin_under_way(self, entry: Entry) -> bool:
        """What the canary says now would not hold."""
        unsettled = (Stage.ATTACHING, Stage.RELEASING)
        return any(twin.stage in unsettled for twin in self._twins(entry))

    def _twins(self, entry: Entry) -> list[Entry]:
        """Others that may be the same file under another name."""
        return [
            other
            for other in self._entries.values()
            if other is not entry
            and other.fingerprint is not None
            and other.fingerprint == entry.fingerprint
        ]

    def _add(self, file_id: FileId, users: Iterable[User]) -> None:
        entry = self._entries.get(file_id)
        if entry is None:
            if len(self._entries) >= ENTRIES_LIMIT and file_id not in self._hosts:
                reason = f"more than {ENTRIES_LIMIT} driver libraries are mapped"
                self._overflow.update((user.pid, reason) for user in users)
                return
            self._order += 1
            entry = Entry(file_id, self._order, host=self._hosts.get(file_id))
            self._entries[file_id] = entry
        for user in users:
            entry.users[user.pid] = user
            self._overflow.pop(user.pid, None)
            if user.pid in self._others:
                self._others = {pid: why for pid, why in self._others.items() if pid != user.pid}

    def _refuse(self, entry: Entry, reason: str, now_ns: int) -> None:
        self._backoff.failed(entry.file_id, now_ns)
        entry.reason, entry.library = reason, None
        self._move(entry, Stage.NEW)

    def _move(self, entry: Entry, stage: Stage) -> None:
        self._step += 1
        entry.stage, entry.changed_at = stage, self._step

    def _forget(self) -> None:
        """Drop what nobody uses and nothing is under way for."""
        for entry in list(self._entries.values()):
            under_way = entry.stage in (*LINKED, Stage.INSPECTING)
            if not entry.users and entry.host is None and not under_way:
                del self._entries[entry.file_id]
