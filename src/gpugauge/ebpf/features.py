"""What this Linux, with these privileges, offers: found by trying, not by its version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpugauge.ebpf import syscalls, trial
from gpugauge.ebpf.attachment import Mode
from gpugauge.errors import SettingError, UnsupportedError

_CAPABILITIES = "Run as root, or give the agent the capabilities BPF and PERFMON."
_NEWER = "Run a newer Linux on this node."


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing, tried."""

    name: str
    offered: bool
    minimum_linux: str
    """The first version of Linux that has it; "" where the version does not matter."""
    why_not: str = ""
    """What Linux answered, in words; "" where it is offered."""
    remedy: str = ""
    """What to do, one sentence; "" where it is offered."""


@dataclass(frozen=True, slots=True)
class _Trial:
    name: str
    minimum_linux: str
    attempt: Callable[[], None]
    remedy: str


_TRIALS = (
    _Trial("bpf", "4.4", trial.load, _CAPABILITIES),
    _Trial("btf", "5.4", trial.types, "Use a Linux built with CONFIG_DEBUG_INFO_BTF."),
    _Trial("session", "6.13", trial.session, _NEWER),
    _Trial("multi", "6.6", trial.multi, _NEWER),
    _Trial("perf", "5.15", trial.perf, "Give the agent the capability SYS_ADMIN."),
    _Trial("bpf_cookie", "5.15", trial.cookie, _NEWER),
    _Trial("cmpxchg", "5.12", trial.exchange, _NEWER),
    _Trial("ring_buffer", "5.8", trial.ring, _NEWER),
    _Trial("batch", "5.6", trial.batch, _NEWER),
    _Trial("raw_tracepoint", "4.17", trial.raw_tracepoint, _CAPABILITIES),
    _Trial("host_pid", "", trial.host_pids, "Set hostPID: true on the pod of the agent."),
)
NEEDED = ("bpf", "bpf_cookie", "cmpxchg", "ring_buffer", "raw_tracepoint", "host_pid")
"""Without one of these the agent does not start."""


@cache
def probe() -> Mapping[str, Feature]:
    """Try everything once in the life of the process; return features by name."""
    return {each.name: _try(each) for each in _TRIALS}


def best_mode() -> Mode | None:
    """Return the mode that costs the traced process least, or None where none is offered."""
    features = probe()
    return next((each for each in Mode if features[each.value].offered), None)


def choose_mode(forced: str | None = None) -> Mode:
    """Return the mode to attach in.

    Args:
        forced: A mode by name; None takes the best one offered.

    Raises:
        SettingError: No mode of that name.
        UnsupportedError: It is not offered, or none is.
    """
    features = probe()
    if forced is None:
        best = best_mode()
        if best is not None:
            return best
        perf = features["perf"]
        raise UnsupportedError(
            f"This Linux offers no way to attach probes: {perf.why_not}.", perf.remedy
        )
    if forced not in list(Mode):
        raise SettingError(
            f"There is no attach mode {forced!r}.", f"Choose one of {', '.join(Mode)}."
        )
    feature = features[forced]
    if not feature.offered:
        raise UnsupportedError(
            f"{forced} is not offered by this Linux (needs {feature.minimum_linux}): "
            f"{feature.why_not}.",
            feature.remedy,
        )
    return Mode(forced)


def missing() -> tuple[Feature, ...]:
    """Return the needed features that are not offered."""
    features = probe()
    return tuple(features[name] for name in NEEDED if not features[name].offered)


def lockdown() -> str:
    """Return the lockdown state: `none`, `integrity`, `confidentiality`, or "" where unknown.

    Under confidentiality BPF programs cannot read the memory of traced processes.
    """
    try:
        text = Path("/sys/kernel/security/lockdown").read_text(encoding="ascii")
    except OSError:
        return ""
    return text.partition("[")[2].partition("]")[0]


def _try(each: _Trial) -> Feature:
    try:
        each.attempt()
    except trial.Refusal as error:
        return Feature(each.name, False, each.minimum_linux, _why(error), _remedy(each, error))
    return Feature(each.name, True, each.minimum_linux)


def _cause(error: BaseException) -> OSError | None:
    return error if isinstance(error, OSError) else None


def _why(error: BaseException) -> str:
    found = _cause(error)
    if found is not None and found.errno is not None:
        return syscalls.errno_text(found)
    sentence = getattr(error, "sentence", str(error))
    return str(sentence).rpartition(": ")[2].rstrip(".")


def _remedy(each: _Trial, error: BaseException) -> str:
    """A refusal of privilege has its own remedy, whatever the feature needs."""
    if "EPERM" not in _why(error):
        return each.remedy
    if lockdown() == "confidentiality":
        return "Lockdown of this Linux is at confidentiality; integrity lets BPF read memory."
    if each.name == "perf":
        return "Give the agent the capability SYS_ADMIN."
    return _CAPABILITIES
