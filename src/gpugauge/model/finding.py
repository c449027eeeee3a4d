"""What the diagnosis says: a cause in one sentence, the numbers that show it, the next step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpugauge.model.workload import Owner

FINDING_VERSION = 1


class Severity(StrEnum):
    """How much it matters."""

    INFO = "info"
    """A state worth knowing; no harm is shown."""
    WARNING = "warning"
    """Work is lost, or a device is wasted."""
    CRITICAL = "critical"
    """Work has stopped, or failed."""


class Confidence(StrEnum):
    """How far the numbers behind it can be trusted."""

    SURE = "sure"
    LIKELY = "likely"
    """One thing that the rule asks for was incomplete or not observed."""
    POSSIBLE = "possible"
    """Several were."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number that moved, or that is beyond what is usual."""

    name: str
    """What it is, for people: `synchronizations per 1,000 launches`."""
    unit: str
    """`1/s`, `s`, `bytes`, `bytes/s`, `ratio`, `cores`, `count`."""
    now: float
    before: float | None = None
    """The usual value of this workload; None where there is none."""


@dataclass(frozen=True, slots=True)
class Party:
    """Somebody else who has a part in it."""

    owner: Owner
    process_number: int
    """0: the owner as a whole."""
    pid: int
    """0: the owner as a whole."""
    command: str
    role: str
    """`neighbour`, `not waiting`, `waiting`, `straggler`, `peer`."""
    demand_ratio: float | None = None
    """Its part of the launches on the device."""
    busy_ratio: float | None = None
    """Its part of the time in which somebody had work on the device: an upper bound."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """Where blocked threads of a Python process were."""

    file: str
    line: int
    function: str
    share_ratio: float
    """Part of the samples of blocked threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause for one owner on one device."""

    rule: str
    severity: Severity
    confidence: Confidence
    owner: Owner | None
    """None: the device, or the node, as a whole."""
    gpu_uuid: str
    node: str
    sentence: str
    remedy: str
    wrong_when: str
    since_unix_ns: int
    """When it began, as far as the history tells."""
    found_unix_ns: int
    """When it was named."""
    seen_unix_ns: int
    """When it was last seen to hold."""
    explained_ratio: float
    """Share of the time that this cause explains, 0 to 1: what contradicting causes are
    ranked by."""
    evidence: tuple[Evidence, ...] = ()
    parties: tuple[Party, ...] = ()
    pids: tuple[int, ...] = ()
    """Processes it is about."""
    lacked: tuple[str, ...] = ()
    """What the rule would have liked to see and could not."""
    also: tuple[str, ...] = ()
    """Rules that saw the same cause, or a weaker one for the same harm."""
    lines: tuple[CodeLine, ...] = ()
    simulated: bool = False
    """Seen on the simulated driver."""
