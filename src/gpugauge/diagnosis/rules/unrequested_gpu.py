"""A pod that works on a device which the kubelet did not give it."""

from __future__ import annotations

from gpugauge.diagnosis.case import Case
from gpugauge.diagnosis.rule import FINE, LookAgain, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import rate
from gpugauge.model.finding import Evidence, Severity
from gpugauge.model.workload import UNKNOWN, Scope


def check(case: Case) -> Verdict:
    """It launches on a device, and no entitlement of its pod covers that device."""
    now, snapshot = case.now, case.snapshot
    if case.owner.scope is not Scope.POD or now is None or not now.work_per_second:
        return FINE
    if case.gpu_uuid in ("", UNKNOWN):
        return LookAgain("the device")
    known = snapshot.entitlements or snapshot.entitlements_known
    if snapshot.agent.pods_error or not known:
        return LookAgain("devices given to pods, by the kubelet")
    if case.claimed:
        return LookAgain("NVML's word that the process is on the device")
    parent = case.device.mig_parent_uuid if case.device is not None else ""
    given = case.given
    if case.gpu_uuid in given or (parent and parent in given) or UNKNOWN in given:
        return FINE
    instances = {d.uuid for d in snapshot.devices if d.mig_parent_uuid == case.gpu_uuid}
    if instances.intersection(given):
        return FINE
    asked = "asked for none" if not given else f"was given {len(given)} others"
    return Suspicion(
        severity=Severity.WARNING,
        sentence=f"works on a GPU that the kubelet did not give it ({rate(now.work_per_second)} "
        f"launches); it {asked}.",
        remedy=RULE.remedy,
        evidence=(
            Evidence(name="launches", unit="1/s", now=now.work_per_second),
            Evidence(name="devices given to it", unit="count", now=len(given)),
        ),
        pids=tuple(process.pid for process, _ in case.processes[:16]),
        explained_ratio=0.0,
        harm=False,
    )


RULE = Rule(
    id="unrequested_gpu",
    title="Uses a GPU it never asked for",
    needs=("launches", "devices given to pods, by the kubelet"),
    settings=(),
    meaning="A pod launches work on a device that its containers were not given. Such a pod is "
    "not counted by the scheduler, and whoever was given the device pays for it.",
    remedy="Look for privileged: true, for NVIDIA_VISIBLE_DEVICES set in the image or pod, and "
    "for a runtime that accepts it (accept-nvidia-visible-devices-envvar-when-unprivileged).",
    wrong_when="Monitoring pods that run on every device by design. Devices given by a resource "
    "driver (DRA) that the agent may not read.",
    check=check,
)
