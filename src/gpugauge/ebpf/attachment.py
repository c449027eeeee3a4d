"""One library attached: the right set of links for its functions and the mode."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from gpugauge.ebpf.links import Link, attach_multi, attach_perf, leave
from gpugauge.ebpf.loader import Program

MAX_PERF_SITES = 40
"""Perf events are one descriptor a site and 108 ms each to take off: a core set only."""


CLOSING_THREADS = 32


class Mode(StrEnum):
    """How probes are attached; the first that Linux offers is taken."""

    SESSION = "session"
    """Entry and return in one link, one program: Linux 6.13."""
    MULTI = "multi"
    """Entries in one link, returns in another: Linux 6.6."""
    PERF = "perf"
    """One perf event a site: Linux 5.15, SYS_ADMIN, core functions only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One function to attach."""

    offset: int
    """In the file."""
    cookie: int
    wants_return: bool
    hot: bool = False
    core: bool = False


@dataclass(frozen=True, slots=True)
class ProgramSet:
    """The programs of one mode: in session mode `both` serves entry and return."""

    entry: Program
    """Loaded for the entry alone: sites that want no return."""
    exit: Program | None = None
    both: Program | None = None


class Attachment:
    """The links of one library."""

    def __init__(self, mode: Mode, path: str) -> None:
        self.mode = mode
        self.path = path
        self.links: list[Link] = []
        self.all_returns: list[Link] = []
        """Those of `links` that serve returns alone; none in session mode."""
        self.returns: list[Link] = []
        """Those of `links` that serve returns of hot functions: they can be dropped alone.

        Empty in session mode: there the program skips a return by its own flag.
        """
        self.skipped: tuple[Probe, ...] = ()
        """Not attached: not in the core set of perf mode."""
        self._lock = threading.Lock()

    @property
    def sites(self) -> int:
        """How many sites are attached, each return counted as one more."""
        return sum(each.sites for each in self.links if each.is_open)

    def drop_hot_returns(self) -> int:
        """Take the returns off hot functions, so that they cost less; return how many links."""
        with self._lock:
            dropped, self.returns = self.returns, []
        close_all(dropped)
        return len(dropped)

    def close(self) -> None:
        """Take all off: returns after entries.

        While both are on, every entry is met by a return. An entry link that
        is gone first leaves returns of calls that are open now, which close
        them; the other way round an open call would stay open for ever.
        Thread-safe, and harmless when called again.
        """
        with self._lock:
            links, self.links, self.returns = self.links, [], []
        close_all([each for each in links if each not in self.all_returns])
        close_all(self.all_returns)

    def leave(self) -> None:
        """Take all off soon after this process has ended, without waiting (see `links.leave`)."""
        with self._lock:
            links, self.links, self.returns = self.links, [], []
        leave(links)


def close_all(links: Sequence[Link]) -> None:
    """Close links at once: each waits 30-90 ms in Linux, most of it for other CPUs."""
    if len(links) > 1:
        with ThreadPoolExecutor(min(CLOSING_THREADS, len(links))) as pool:
            for closing in [pool.submit(each.close) for each in links]:
                closing.result()
        return
    for each in links:
        each.close()


def attach(
    mode: Mode, path: str, probes: Sequence[Probe], programs: ProgramSet, *, returns: bool = True
) -> Attachment:
    """Attach a library.

    Order: returns first, then entries. A return whose entry was not seen
    finds no open call and counts nothing; an entry whose return is not yet
    there would leave a call that never ends. Hot functions sit in links of
    their own.

    Args:
        mode: How.
        path: The file to attach to.
        probes: Where, in any order; the first at an offset wins.
        programs: Loaded for this mode.
        returns: False attaches entries alone.

    Raises:
        UnavailableError: The file is gone, or a site lies outside its code.
        UnsupportedError: Linux refuses. Nothing stays attached.
    """
    attachment = Attachment(mode, path)
    unique = list({each.offset: each for each in reversed(probes)}.values())[::-1]
    if mode is Mode.PERF:
        kept = [each for each in unique if each.core][:MAX_PERF_SITES]
        attachment.skipped = tuple(each for each in unique if each not in kept)
        unique = kept
    try:
        for hot in (False, True):
            group = [each for each in unique if each.hot is hot]
            with_return = [each for each in group if each.wants_return and returns]
            alone = [each for each in group if not (each.wants_return and returns)]
            if mode is Mode.SESSION:
                _session(attachment, with_return, alone, programs)
            else:
                _pair(attachment, with_return, group, programs, hot)
    except BaseException:
        attachment.close()
        raise
    return attachment


def _session(
    attachment: Attachment,
    with_return: Sequence[Probe],
    alone: Sequence[Probe],
    programs: ProgramSet,
) -> None:
    if with_return:
        if programs.both is None:
            raise ValueError("session mode without a session program")
        attachment.links.append(_multi(programs.both, attachment.path, with_return, returns=False))
    if alone:
        attachment.links.append(_multi(programs.entry, attachment.path, alone, returns=False))


def _pair(
    attachment: Attachment,
    with_return: Sequence[Probe],
    group: Sequence[Probe],
    programs: ProgramSet,
    hot: bool,
) -> None:
    if with_return:
        if programs.exit is None:
            raise ValueError("returns without a return program")
        links = _links(attachment, programs.exit, with_return, returns=True)
        attachment.all_returns += links
        if hot:
            attachment.returns += links
    if group:
        _links(attachment, programs.entry, group, returns=False)


def _links(
    attachment: Attachment, program: Program, probes: Sequence[Probe], *, returns: bool
) -> list[Link]:
    before = len(attachment.links)
    if attachment.mode is Mode.MULTI:
        attachment.links.append(_multi(program, attachment.path, probes, returns=returns))
    else:
        for each in probes:  # kept one by one, so that a failure takes all off again
            attachment.links.append(
                attach_perf(program, attachment.path, each.offset, each.cookie, returns=returns)
            )
    return attachment.links[before:]


def _multi(program: Program, path: str, probes: Sequence[Probe], *, returns: bool) -> Link:
    return attach_multi(
        program,
        path,
        [each.offset for each in probes],
        [each.cookie for each in probes],
        returns=returns,
    )
