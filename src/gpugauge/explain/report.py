"""What `explain` answers: steps in request order, and one line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

REPORT_VERSION = 1


class Layer(StrEnum):
    """The steps of a request, in order."""

    SPEC = "spec"
    SCHEDULING = "scheduling"
    PLUGIN = "device plugin"
    ALLOCATION = "allocation"
    RUNTIME = "container runtime"
    DRIVER = "driver"
    PROCESS = "process"
    WORK = "work"


class Verdict(StrEnum):
    """How it stands, worst last."""

    OK = "ok"
    NOT_SEEN = "not seen"
    """It was not checked: the answer says why. Never shown as if it were ok."""
    WARNING = "warning"
    BROKEN = "broken"


ORDER = tuple(Verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one check found."""

    check: str
    verdict: Verdict
    seen: str
    """The proof; of what was not seen, the reason."""
    expected: str = ""
    next_step: str = ""
    case: int = 0
    """Number in the catalogue of failures (docs/explain.md); 0: none."""
    guess: bool = False
    """True: it fits what was seen, and is not proved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One layer."""

    layer: Layer
    verdict: Verdict
    """The worst of its answers."""
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyMemory:
    """Memory requested of one family: by live allocations, and at most so far."""

    family: str
    requested_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccount:
    """Memory of one process on one device, split. None: not known, never 0."""

    pid: int
    """0: all processes of the pod on the device together."""
    command: str
    pod: str
    """`namespace/pod`, or "" for a process of the host."""
    gpu_uuid: str
    families: tuple[FamilyMemory, ...] = ()
    requested_bytes: int | None = None
    """On the device: host memory is in its family only."""
    peak_bytes: int | None = None
    held_bytes: int | None = None
    context_bytes: int | None = None
    rounding_bytes: int | None = None
    """Added to requests by chunks of 2 MiB; None: part of the rest, as single sizes are not
    kept where a family has several allocations."""
    rest_bytes: int | None = None
    """held - requested - context - rounding: driver pool, library workspaces; negative where
    managed memory is requested and not resident."""
    notes: tuple[str, ...] = ()
    dead: bool = False
    """No such process lives, or its pod is gone: the memory is left over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """Memory of a device as a whole."""

    gpu_uuid: str
    model: str
    total_bytes: int | None
    used_bytes: int | None
    reserved_bytes: int | None
    """By the driver and its firmware, for nobody."""
    held_bytes: int | None
    """Sum over its processes."""
    compute_mode: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLine:
    """The contexts of a process on a device."""

    pid: int
    command: str
    pod: str
    gpu_uuid: str
    contexts: int
    oldest_ns: int | None
    """Age of the oldest; None: it is older than the agent's sight."""
    newest_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole answer."""

    version: int
    subject: str
    """`namespace/pod`, or `node NAME`."""
    node: str
    simulated: bool
    steps: tuple[Step, ...]
    conclusion: str
    """One line: where the request stands, or the first step that broke it."""
    broken: str
    """The layer of the first broken step, or ""."""
    memory: tuple[MemoryAccount, ...] = ()
    devices: tuple[DeviceMemory, ...] = ()
    contexts: tuple[ContextLine, ...] = ()
