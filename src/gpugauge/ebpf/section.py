"""What a program's section name says about how it is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gpugauge.errors import ForeignDataError


class AttachType(IntEnum):
    """The members of enum bpf_attach_type used here."""

    NONE = 0
    PERF_EVENT = 41
    UPROBE_MULTI = 48
    UPROBE_SESSION = 57


class ProgramType(IntEnum):
    """The members of enum bpf_prog_type used here."""

    KPROBE = 2
    TRACEPOINT = 5
    RAW_TRACEPOINT = 17


@dataclass(frozen=True, slots=True)
class ProgramKind:
    """Type of a program, and what it may be attached to."""

    section: str
    program_type: ProgramType
    expected_attach_type: AttachType = AttachType.NONE

    @property
    def target(self) -> str:
        """What follows the slash: the tracepoint of `raw_tp/sched_process_exit`."""
        return self.section.partition("/")[2]


_KINDS: dict[str, tuple[ProgramType, AttachType]] = {
    "uprobe.session": (ProgramType.KPROBE, AttachType.UPROBE_SESSION),
    "uprobe.multi": (ProgramType.KPROBE, AttachType.UPROBE_MULTI),
    "uretprobe.multi": (ProgramType.KPROBE, AttachType.UPROBE_MULTI),
    "uprobe": (ProgramType.KPROBE, AttachType.NONE),
    "uretprobe": (ProgramType.KPROBE, AttachType.NONE),
    "raw_tp": (ProgramType.RAW_TRACEPOINT, AttachType.NONE),
    "raw_tracepoint": (ProgramType.RAW_TRACEPOINT, AttachType.NONE),
    "tracepoint": (ProgramType.TRACEPOINT, AttachType.NONE),
}


def kind_of(section: str) -> ProgramKind:
    """Return the kind of program a section name stands for.

    Raises:
        ForeignDataError: A section that is not known here.
    """
    found = _KINDS.get(section.partition("/")[0])
    if found is None:
        raise ForeignDataError(f"A BPF program in section {section!r}: not known here.")
    return ProgramKind(section, *found)
