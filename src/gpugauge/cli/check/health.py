"""What `check` says of one agent that runs somewhere: what is wrong, and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpugauge.cli.check.line import Line, State
from gpugauge.export.samples import LOST_EVENTS, LOST_UPDATES, UNTRACKED_ALLOCATIONS
from gpugauge.model.abi import Loss
from gpugauge.model.cluster import OffSwitch
from gpugauge.model.snapshot import AgentHealth, Snapshot
from gpugauge.remote.plain import at, table
from gpugauge.remote.reading import Reading
from gpugauge.units import MIB, NS_PER_SECOND

LATE_RATIO = 0.01
"""Ticks above their time, of all: single ones are a scan or an attach."""
LATE_TICKS_AT_LEAST = 10
WATCH_SILENT_SECONDS = 600.0
"""The API server sends a bookmark about once a minute."""
SHOWN = 3
"""Names shown of a longer list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What one agent told of itself."""

    node: str
    agent: str
    """Namespace and pod, or the URL."""
    reading: Reading
    report: Mapping[str, Any] | None
    """Its part of a bug report; None: it has none, as older agents."""
    unhealthy: str
    """Why /healthz says that it is not well; "" where it is."""
    usual_version: str
    """Of most agents."""

    @property
    def pod(self) -> str:
        """Words of kubectl that name the agent's pod."""
        namespace, _, pod = self.agent.partition("/")
        return f"-n {namespace} {pod}" if pod and "://" not in self.agent else "of its pod"

    def setting(self, *path: str) -> Any:
        """Return a setting of the agent; None where it does not tell."""
        return at(self.report, "settings", *path)


Found = tuple[str, str]
"""(what, remedy)."""


def lines(checked: Checkup) -> Iterator[Line]:
    """Yield a line for each thing that is wrong; one that all is well where nothing is."""
    found = False
    for state, check in CHECKS:
        for what, remedy in check(checked):
            found = True
            yield Line(state, checked.node, what, remedy)
    if not found:
        yield Line(State.OK, checked.node, _well(checked))
    changed = _changed_settings(checked)
    if changed:
        yield Line(State.OK, checked.node, f"Its settings that are not the defaults: {changed}.")


def _stalled(checked: Checkup) -> Iterator[Found]:
    if checked.unhealthy:
        yield f"It is stalled: {checked.unhealthy}.", f"kubectl logs {checked.pod} tells in what."


def _no_probes(checked: Checkup) -> Iterator[Found]:
    health = checked.reading.snapshot.agent
    off = any(switch.off for switch in health.off_switches)
    if health.libraries and not health.probes.get("attached") and not off:
        yield (
            f"No probe is in any of its {health.libraries} driver libraries.",
            f"kubectl logs {checked.pod} tells why.",
        )


def _not_ready(checked: Checkup) -> Iterator[Found]:
    if not checked.reading.snapshot.agent.ready:
        yield "Its first search for driver libraries is not done.", "Wait a minute."


def _version(checked: Checkup) -> Iterator[Found]:
    version = checked.reading.snapshot.agent_version
    if version != checked.usual_version:
        yield (
            f"It is of version {version}, most are of {checked.usual_version}.",
            "Finish the rollout: kubectl rollout status daemonset.",
        )


def _switched_off(checked: Checkup) -> Iterator[Found]:
    for switch in checked.reading.snapshot.agent.off_switches:
        name, back = _switch(checked, switch)
        if switch.off:
            yield f"Probes are switched off by {name}.", back
        if switch.error:
            yield (
                f"The off switch by {name} cannot be read: {switch.error.rstrip('.')}.",
                ("What it said last holds. Give the agent the right, or switch that place off."),
            )
        if switch.malformed:
            yield (
                f"{switch.malformed} values of {name} were no word for on or off.",
                ("Write on or off."),
            )


def _switch(checked: Checkup, switch: OffSwitch) -> Found:
    """Return which place it is, and how probes come back."""
    if switch.source == "node":
        return "the node's annotation", f"kubectl annotate node {checked.node} gpugauge.io/probes-"
    if switch.source == "config_map":
        name = checked.setting("off_switch", "config_map")
        where = f" {name}" if isinstance(name, str) and name else ""
        space, _, one = where.strip().partition("/")
        words = f" -n {space} configmap {one}" if one else " its ConfigMap"
        return f"the ConfigMap{where}", f"kubectl edit{words}"
    return "a signal (SIGUSR1)", f"Send SIGUSR2, or restart it: kubectl delete pod {checked.pod}"


def _failed_probes(checked: Checkup) -> Iterator[Found]:
    failed = checked.reading.snapshot.agent.probes.get("failed", 0)
    if failed:
        yield f"{failed} probes could not be attached.", f"kubectl logs {checked.pod} tells why."


def _losses(checked: Checkup) -> Iterator[Found]:
    health = checked.reading.snapshot.agent
    for what, losses, remedy in (
        ("updates of counters", LOST_UPDATES, "Counts are too low by them; docs/metrics.md."),
        ("events", LOST_EVENTS, "What they told is found by a scan, some seconds later."),
        ("allocations", UNTRACKED_ALLOCATIONS, "Requested memory is a lower bound."),
    ):
        lost = {loss: health.losses.get(loss, 0) for loss in losses}
        total = sum(lost.values())
        if total:
            yield f"{total:,} {what} were lost since it started: {_names(lost)}.", remedy


def _names(lost: Mapping[Loss, int]) -> str:
    """Return the largest losses by name."""
    largest = sorted((-count, loss.name.lower()) for loss, count in lost.items() if count)
    return ", ".join(f"{name} {-count:,}" for count, name in largest[:SHOWN])


def _processes(checked: Checkup) -> Iterator[Found]:
    health = checked.reading.snapshot.agent
    for reason, count in sorted(health.unprobed_processes.items()):
        yield (
            f"{count} processes use a GPU without probes: {reason.rstrip('.')}.",
            (f"Their calls are not counted; gpugauge functions, and kubectl logs {checked.pod}."),
        )
    for reason, count in sorted(health.unresolved.items()):
        yield (
            f"{count} processes have no known owner: {reason.rstrip('.')}.",
            ("They are shown as unknown until their pod is found."),
        )


def _sources(checked: Checkup) -> Iterator[Found]:
    health = checked.reading.snapshot.agent
    if health.nvml_error:
        yield f"{health.nvml_error.rstrip('.')}.", "Held memory is absent until it answers."
    if health.pods_error:
        yield f"Kubernetes: {health.pods_error.rstrip('.')}.", "Pods may be named late, or not."
    age = at(checked.report, "kubernetes", "watch_age_seconds")
    if isinstance(age, int | float) and age > WATCH_SILENT_SECONDS:
        yield (
            f"Its watch of pods has heard nothing for {age:,.0f} s.",
            f"Restart it: kubectl delete pod {checked.pod}",
        )


def _late(checked: Checkup) -> Iterator[Found]:
    snapshot = checked.reading.snapshot
    late = snapshot.agent.tick_late
    if late >= LATE_TICKS_AT_LEAST and late > LATE_RATIO * snapshot.number:
        took = snapshot.agent.tick_ns / 1e6
        yield (
            f"{late:,} of {snapshot.number:,} ticks took too long, the last one {took:.0f} ms.",
            "Give it more CPU, or a longer tick_seconds.",
        )


def _diagnosis(checked: Checkup) -> Iterator[Found]:
    for note in checked.reading.lacked:
        if "diagnosis" in note.lower():
            yield note, f"kubectl logs {checked.pod}"


def _simulated(checked: Checkup) -> Iterator[Found]:
    if checked.reading.snapshot.simulated:
        yield "Its figures are those of the simulated driver.", "Take the simulated driver away."


CHECKS: tuple[tuple[State, Callable[[Checkup], Iterator[Found]]], ...] = (
    (State.FAILED, _stalled),
    (State.FAILED, _no_probes),
    (State.WARN, _switched_off),
    (State.WARN, _not_ready),
    (State.WARN, _version),
    (State.WARN, _failed_probes),
    (State.WARN, _losses),
    (State.WARN, _processes),
    (State.WARN, _sources),
    (State.WARN, _late),
    (State.WARN, _diagnosis),
    (State.WARN, _simulated),
)
"""The worst first."""


def _well(checked: Checkup) -> str:
    snapshot = checked.reading.snapshot
    health: AgentHealth = snapshot.agent
    models = sorted({device.model for device in snapshot.devices})
    count = len(snapshot.devices)
    gpus = f"{count} GPU{'s' * (count > 1)} ({', '.join(models[:SHOWN])})" if models else "no GPU"
    seconds = _run_seconds(snapshot)
    cpu = f", {health.cpu_ns / NS_PER_SECOND / seconds:.1%} of a core" if seconds else ""
    return (
        f"{snapshot.agent_version}, {gpus}, {health.probes.get('attached', 0)} probes "
        f"by {health.attach_mode}, {health.rss_bytes / MIB:.0f} MiB{cpu}"
    )


def _run_seconds(snapshot: Snapshot) -> float:
    started = snapshot.agent.started_ns
    return (snapshot.time_monotonic_ns - started) / NS_PER_SECOND if started else 0.0


def _changed_settings(checked: Checkup) -> str:
    from gpugauge.agent.bugreport import settings_part
    from gpugauge.settings import Settings

    if checked.report is None:
        return ""
    told, usual = table(checked.report, "settings"), settings_part(Settings())
    changed = [
        f"{name}={_short(value)}"
        for name, value in _leaves(told)
        if value != at(usual, *name.split(".")) and name not in ("node_name",)
    ]
    return ", ".join(changed)


def _leaves(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in sorted(values.items()):
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _short(value: Any) -> str:
    shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
