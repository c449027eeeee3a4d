"""The proof at start: probes of this mode, on this Linux, do no harm to a process of our own.

A child calls both entry shapes of drivers under probes. Return values, callee-saved
registers and the stack pointer must be right, every hit counted once, and the
`je` site must not be single-stepped (under 3 times the cost of the `push`
site). Returns are proved once more under a seccomp filter: Linux 6.11 to 6.13
returns through a system call that the profile of a container may refuse.
"""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass

from gpugauge.ebpf import objects_file, trial
from gpugauge.ebpf.attachment import Attachment, Mode, Probe, ProgramSet, attach
from gpugauge.ebpf.loader import Loaded, load
from gpugauge.ebpf.proof_code import CODE, JUMP, PUSH, SHAPES, Shape
from gpugauge.ebpf.proof_target import ProofTarget, TargetDiedError
from gpugauge.errors import GpugaugeError

EXACT_CALLS = 1009
COST_CALLS = 2000
COST_RETRIES = 3
STEPPED_RATIO = 3.0
"""A single-stepped site costs about 20 times an emulated one."""

COUNTING_PROGRAMS = {
    Mode.SESSION: ("multi_entry_count", "session_count"),
    Mode.MULTI: ("multi_entry_count", "multi_return_count"),
    Mode.PERF: ("perf_entry_count", "perf_return_count"),
}


@dataclass(frozen=True, slots=True)
class SiteCost:
    """What probes add to one call at one entry shape, with programs that only count."""

    shape: str
    unprobed_ns: float
    entry_ns: float
    """Added by an entry probe."""
    entry_return_ns: float | None
    """Added by entry and return; None where returns are not safe."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was seen."""

    mode: Mode
    entries_safe: bool
    """False: attach nothing."""
    returns_safe: bool
    """False: attach entries alone."""
    costs: tuple[SiteCost, ...]
    faults: tuple[str, ...]
    """What was wrong, a sentence each."""


class _Fault(Exception):
    """Something the proof found."""


def prove(mode: Mode) -> Proof:
    """Prove a mode with programs that only count. Takes under a second (perf: two).

    Raises:
        GpugaugeError: The programs cannot be loaded or attached at all.
    """
    if platform.machine() != "x86_64":
        fault = f"The proof at start has no code for {platform.machine()}: nothing was proved."
        return Proof(mode, False, False, (), (fault,))
    faults: list[str] = []
    costs: dict[Shape, list[float]] = {}
    returns_safe = entries_safe = False
    with (
        trial.code_file(CODE) as (fd, path),
        load(objects_file.read("empty"), COUNTING_PROGRAMS[mode]) as loaded,
    ):
        bench = Bench(mode, path, counting_programs(loaded, mode))
        try:
            with ProofTarget(fd) as target:
                for shape in SHAPES:
                    costs[shape] = [_calls(target, shape)]
                _exact(bench, loaded, target, costs, returns=False)
                for _ in range(COST_RETRIES):  # on a busy machine one measurement says little
                    if not _stepped(costs):
                        break
                    _exact(bench, loaded, target, costs, returns=False)
                _not_stepped(costs)
                entries_safe = True
                _exact(bench, loaded, target, costs, returns=True)
            _under_seccomp(bench, fd)
            returns_safe = True
        except _Fault as fault:
            faults.append(str(fault))
        except TargetDiedError as error:
            kind = "return" if entries_safe else "entry"
            faults.append(f"A process of our own did not survive an {kind} probe: {error}.")
    return Proof(
        mode,
        entries_safe,
        returns_safe,
        tuple(_cost(shape, rows, returns_safe) for shape, rows in costs.items() if len(rows) > 1),
        tuple(faults),
    )


def counting_programs(loaded: Loaded, mode: Mode) -> ProgramSet:
    """Return the counting programs of a mode."""
    entry, other = (loaded.programs[name] for name in COUNTING_PROGRAMS[mode])
    return ProgramSet(entry, both=other) if mode is Mode.SESSION else ProgramSet(entry, other)


@dataclass(frozen=True, slots=True)
class Bench:
    """Programs to put on the proof's code."""

    mode: Mode
    path: str
    programs: ProgramSet

    def attach(self, *, returns: bool, cookies: tuple[int, int] = (1, 2)) -> Attachment:
        """Attach to both shapes; the cookies are for `push` and `je`.

        Raises:
            GpugaugeError: Linux refuses.
        """
        probes = [
            Probe(offset=shape.site, cookie=cookie, wants_return=True, core=True)
            for shape, cookie in zip(SHAPES, cookies, strict=True)
        ]
        return attach(self.mode, self.path, probes, self.programs, returns=returns)


def measure(
    mode: Mode, programs: ProgramSet, *, cookie: int = 0, returns: bool = True
) -> tuple[SiteCost, ...]:
    """Return what given programs add to a call, on both shapes.

    The child appears to the programs as a process that made these calls.

    Raises:
        GpugaugeError: They cannot be attached, or the child does not survive.
    """
    found = []
    with trial.code_file(CODE) as (fd, path):
        bench = Bench(mode, path, programs)
        try:
            with ProofTarget(fd) as target:
                rows = {shape: [_calls(target, shape)] for shape in SHAPES}
                for with_returns in (False, True)[: 1 + returns]:
                    attachment = bench.attach(returns=with_returns, cookies=(cookie, cookie))
                    try:
                        for shape in SHAPES:
                            rows[shape].append(_calls(target, shape))
                    finally:
                        attachment.close()
        except TargetDiedError as error:
            raise GpugaugeError(f"The process to measure probes with is gone: {error}.") from None
        found = [_cost(shape, costs, returns) for shape, costs in rows.items()]
    return tuple(found)


def _exact(
    bench: Bench,
    loaded: Loaded,
    target: ProofTarget,
    costs: dict[Shape, list[float]],
    *,
    returns: bool,
) -> None:
    """Every answer right, every hit counted once."""
    hits = loaded.maps["hits"]
    attachment = bench.attach(returns=returns)
    try:
        for cookie, shape in enumerate(SHAPES, 1):
            key = struct.pack("<I", cookie)
            hits.update(key, bytes(hits.value_size))
            wrong, _ = target.call(shape, EXACT_CALLS)
            if wrong:
                raise _Fault(
                    f"A probed call at a {shape.name} site went wrong {wrong} times of "
                    f"{EXACT_CALLS}."
                )
            seen = struct.unpack("<QQ", hits.lookup(key) or bytes(16))
            if seen != (EXACT_CALLS, EXACT_CALLS if returns else 0):
                raise _Fault(
                    f"{EXACT_CALLS} calls at a {shape.name} site were counted as {seen[0]} "
                    f"entries and {seen[1]} returns."
                )
            _keep_least(costs[shape], 2 if returns else 1, _calls(target, shape))
    finally:
        attachment.close()


def _keep_least(row: list[float], index: int, value: float) -> None:
    """A row holds unprobed, entry, and entry + return, each the least that was seen."""
    if index < len(row):
        row[index] = min(row[index], value)
    else:
        row.append(value)


def _stepped(costs: dict[Shape, list[float]]) -> bool:
    push, jump = (costs[shape][1] - costs[shape][0] for shape in (PUSH, JUMP))
    return jump > STEPPED_RATIO * push


def _not_stepped(costs: dict[Shape, list[float]]) -> None:
    if not _stepped(costs):
        return
    push, jump = (costs[shape][1] - costs[shape][0] for shape in (PUSH, JUMP))
    raise _Fault(
        f"A probe at a je site costs {jump:.0f} ns against {push:.0f} ns at a push site: "
        "Linux single-steps it."
    )


def _under_seccomp(bench: Bench, fd: int) -> None:
    """Return probes must not bring a system call into a process that may not make it."""
    probed = False
    try:
        with ProofTarget(fd, strict=True) as target:
            target.call(PUSH, 1)
            attachment = bench.attach(returns=True)
            probed = True
            try:
                for shape in SHAPES:
                    wrong, _ = target.call(shape, EXACT_CALLS)
                    if wrong:
                        raise _Fault("A return-probed call under seccomp went wrong.")
            finally:
                attachment.close()
    except TargetDiedError as error:
        raise _Fault(
            f"Return probes kill processes under a strict seccomp filter: {error}."
            if probed
            else f"Return probes under seccomp could not be tried: without probes, {error}."
        ) from None


def _calls(target: ProofTarget, shape: Shape) -> float:
    return target.cost_ns(shape, COST_CALLS)


def _cost(shape: Shape, rows: list[float], returns: bool) -> SiteCost:
    with_return = rows[2] - rows[0] if returns and len(rows) > 2 else None
    return SiteCost(shape.name, rows[0], rows[1] - rows[0], with_return)
