"""Which libraries a checkpoint is about: a process dumped with probes in it cannot be restored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpugauge.agent.events import Checkpoint
from gpugauge.model.library import FileId

OFF_SECONDS = 60.0
"""Without probes nobody sees the Unlock that follows: so long is waited, and attached again."""


def concerned(
    checkpoint: Checkpoint, file_of: Mapping[int, FileId], called: FileId | None
) -> frozenset[FileId]:
    """Return the libraries of a checkpoint's caller and of the process that it names.

    The pid it names counts in a pid namespace that may be the caller's own: every
    process that has this number in some namespace is taken for it. Where none has,
    all libraries are concerned.

    Args:
        checkpoint: The call.
        file_of: The library that each process maps.
        called: The library it was called in; None: not known.
    """
    targets = {
        name
        for pid, name in file_of.items()
        if pid == checkpoint.target or checkpoint.target in namespace_pids(pid)
    }
    if not targets:
        targets = set(file_of.values())
    return frozenset(targets | ({called} if called else set()))


def namespace_pids(pid: int) -> tuple[int, ...]:
    """Return the numbers a process has in its pid namespaces, the outermost first."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ()
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return tuple(int(each) for each in line.split()[1:] if each.isdigit())
    return ()
