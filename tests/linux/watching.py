"""A traced machine whose libraries are found and attached by the agent's own discovery."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpugauge.agent.events import Events
from gpugauge.agent.libraries import Libraries
from gpugauge.discovery.decision import HostLibrary
from gpugauge.discovery.host import mapped_file_id
from gpugauge.model.library import FileId
from gpugauge.model.workload import HOST, Owner
from gpugauge.state.facts import Origin
from tests.linux.tracing import Traced, traced

PATIENCE_S = 30.0


def file_id(path: Path) -> FileId:
    found = mapped_file_id(str(path))
    assert found is not None, path
    return found


def eventually(happened: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


class Watching:
    """What is traced, and what finds it."""

    def __init__(self, it: Traced, libraries: Libraries) -> None:
        self.it = it
        self.libraries = libraries
        self.events = Events(it.tracer.loaded)
        self.owner: Owner = HOST

    def tick(self) -> None:
        """One tick, as the agent does it: events first."""
        happened = self.events.read()
        for pid in happened.ended:
            self.libraries.exited(pid)
        for pid in happened.executed:
            self.libraries.executed(pid)
        for lock in happened.locks:
            self.libraries.checkpoint_begins(lock)
        for unlock in happened.unlocks:
            self.libraries.checkpoint_ends(unlock)
        for links in happened.doubled:
            self.libraries.doubled(links)
        self.snapshot = self.it.tick(
            owner_of=lambda _pid, _cgroup: self.owner,
            origin_of=lambda pid: Origin(complete=self.libraries.origins.complete(pid)),
        )

    def attached(self) -> int:
        """How many libraries hold probes."""
        return self.it.tracer.links_in_use

    def until_attached(self, count: int) -> None:
        eventually(lambda: self.attached() == count == len(self.it.tracer.libraries()))


@contextmanager
def watching(
    folder: Path,
    *,
    files: Callable[[Traced], list[Path]],
    host: bool = False,
    scan_seconds: float = 0.5,
    **config: int,
) -> Iterator[Watching]:
    """Yield a machine whose libraries are watched.

    Args:
        folder: Where its files are.
        files: The files that may be attached: other tests use others at the same time.
        host: The machine's own library is the host's.
        scan_seconds: Time between two scans.
        config: Of the simulated machine.
    """
    with traced(folder, attach=False, instant=1, **config) as it:
        ids = frozenset(file_id(path) for path in files(it))
        real = str(it.machine.library)
        hosts = (HostLibrary(file_id(Path(real)), real, keep=True),) if host else ()
        libraries = Libraries(it.tracer, scan_seconds=scan_seconds, hosts=lambda: hosts, only=ids)
        made = Watching(it, libraries)
        try:
            libraries.start()
            yield made
        finally:
            libraries.stop()
            made.events.close()
