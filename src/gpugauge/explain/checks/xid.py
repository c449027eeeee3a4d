"""Errors of the GPU that Linux logged: Xid numbers, by what they mean for a pod.

Meaning: NVIDIA's "XID Errors" document; the ignored ones are those that the device
plugin does not count as ill health either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpugauge.explain.check import broken, check, need, ok, warning
from gpugauge.explain.evidence import Evidence, LogLine
from gpugauge.explain.facts import in_question, pod_devices
from gpugauge.explain.report import Answer, Layer
from gpugauge.model.workload import UNKNOWN

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]{1,20})\): ([0-9]{1,4})\b")
_FALLEN = re.compile(r"NVRM: GPU (?:at PCI:)?([0-9A-Fa-f:.]{1,20}).{0,40}fallen off the bus")
LOST, GSP, ECC, APPLICATION = {79}, {119, 120}, {48, 63, 64, 92, 94, 95, 140}, {13, 31, 43, 45}
_MEANING = {
    **dict.fromkeys(LOST, (37, "the GPU fell off the bus", "power-cycle the node; check PCIe")),
    **dict.fromkeys(GSP, (38, "the GPU's own processor (GSP) timed out", "update the driver")),
    **dict.fromkeys(ECC, (39, "memory of the GPU has errors", "reset the GPU; replace it")),
}


@dataclass(frozen=True, slots=True)
class Xid:
    """One error."""

    bus: str
    number: int
    line: LogLine


def parse(line: LogLine) -> Xid | None:
    """Return the Xid of a line of the Linux log, None for a line without."""
    found = _XID.search(line.text)
    if found:
        return Xid(_bus(found[1]), int(found[2]), line)
    fallen = _FALLEN.search(line.text)
    return Xid(_bus(fallen[1]), 79, line) if fallen else None


def _bus(text: str) -> str:
    """Return `0000:3b:00` of any form of a bus id: NVML writes 8 digits of domain."""
    parts = text.lower().split(".")[0].split(":")
    return ":".join([parts[0].lstrip("0").rjust(4, "0"), *parts[1:3]]) if len(parts) > 2 else text


@check(Layer.DRIVER, 37, 38, 39, node=True)
def xid(e: Evidence) -> Iterator[Answer]:
    """The Linux log tells no error of the GPU since the pod started, or since boot."""
    in_question(e)
    lines = need(e.log, e, "log")
    pod = e.pod
    since = pod.started_unix_ns or pod.created_unix_ns if pod else 0
    buses = {_bus(d.pci_bus_id) for d in pod_devices(e)}
    seen = [x for x in (parse(line) for line in lines if line.unix_ns >= since) if x]
    seen = [x for x in seen if not buses or x.bus in buses]
    hard = [x for x in seen if x.number in _MEANING]
    if hard:
        last = hard[-1]
        case, meaning, step = _MEANING[last.number]
        found = broken if e.pod_wanted or not _answers(e, last.bus) else warning
        yield found(
            f"{meaning}: {last.line.text}",
            "no Xid of the hardware since " + ("the pod started" if e.pod_wanted else "boot"),
            f"{step}; nvidia-smi -q -d ECC,ROW_REMAPPER; kubectl drain {e.node_name or 'NODE'}",
            case=case,
        )
        return
    soft = [x for x in seen if x.number not in APPLICATION]
    if soft:
        yield warning(
            f"Xid {soft[-1].number}: {soft[-1].line.text}",
            "no Xid",
            "look it up in NVIDIA's XID document",
        )
    elif seen:
        yield warning(
            f"Xid {seen[-1].number}, an error of a program: {seen[-1].line.text}",
            "no Xid",
            "look at the program whose pid the line names",
        )
    else:
        yield ok("no Xid since " + ("the pod started" if e.pod_wanted else "boot"))


def _answers(e: Evidence, bus: str) -> bool:
    """Return whether NVML lists that GPU now: then the error is of the past."""
    devices = e.inventory.devices if e.inventory else ()
    return any(d.uuid != UNKNOWN and _bus(d.pci_bus_id) == bus for d in devices)


CHECKS = (xid,)
