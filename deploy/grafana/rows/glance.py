"""One line of numbers: what changed against some time ago, and what that pattern is called."""

from __future__ import annotations

from deploy.grafana.parts.names import SEVERITIES, Board, Unit, field, way
from deploy.grafana.parts.panels import Panel, number, prose
from deploy.grafana.parts.queries import (
    RATE,
    Selection,
    gpu_waits,
    host_waits,
    largest,
    submissions,
)
from deploy.grafana.parts.tables import Column, table
from deploy.grafana.rows.signals import Subject

BEFORE = "$compare"
UNKNOWN_THEN = "unknown then"
RISE = ((None, "text"), (0.05, "orange"), (0.2, "red"))
FALL = ((None, "red"), (-0.25, "orange"), (-0.1, "text"))
PATTERNS = """
| | demand | host waits | to host | to GPU | pods on its GPUs | GPU waits | throttled |
|---|---|---|---|---|---|---|---|
| **Added synchronization** | flat | **up** | often **up** | flat | flat | | |
| **Noisy neighbour** | **down** | waits **longer** | down | down | **up** | | |
| **CPU starvation** | **down** | **down** | | **down** | flat | **up** | often **up** |

The numbers above are changes against `$compare` before. A share that was already at its limit
cannot rise: then look at the mean duration of a wait, under *Waits*.
"""


def numbers(of: Subject) -> list[Panel]:
    """Return the changes, in the order of the patterns."""
    chosen = of.chosen
    now, then = submissions(chosen), submissions(chosen, before=BEFORE)
    pods = of.on_its_gpus(of.around.of("device_pods"))
    throttled = chosen.of("cpu_throttled_seconds_total")
    return [
        number(
            "Demand, change",
            "Launch calls now against `$compare` before: -50 % is half the work.",
            f"{now} / ({then} > 0) - 1",
            Unit.SHARE,
            empty=UNKNOWN_THEN,
            steps=FALL,
            decimals=0,
        ),
        number(
            "Host waits, change",
            "Share of time under back pressure, more or less than `$compare` before, in points.",
            f"{host_waits(chosen)} - {host_waits(chosen, before=BEFORE)}",
            Unit.SHARE,
            empty=UNKNOWN_THEN,
            steps=RISE,
            decimals=1,
        ),
        _bytes(chosen, "dtoh", "To host, change", "Bytes pulled from the GPU"),
        _bytes(chosen, "htod", "To GPU, change", "Bytes given to the GPU"),
        number(
            "Pods on its GPUs",
            "Of the GPU with the most, itself included. From 2 on they take turns.",
            largest(pods),
            Unit.COUNT,
            empty="unknown",
            steps=((None, "text"), (2, "orange")),
        ),
        number(
            "GPU waits, change",
            "Share of time in which the GPU waited for this program, more or less than `$compare` "
            "before, in points.",
            f"{gpu_waits(chosen)} - {gpu_waits(chosen, before=BEFORE)}",
            Unit.SHARE,
            empty=UNKNOWN_THEN,
            steps=RISE,
            decimals=1,
        ),
        number(
            "Throttled",
            "Share of time for which its CPU limit stopped the container that is worst off.",
            largest(f"rate({throttled}[{RATE}])"),
            Unit.SHARE,
            empty="no limit",
            steps=RISE,
            decimals=0,
        ),
        number(
            "Open findings",
            "What the diagnosis has open now.",
            f"sum({chosen.of('finding')}) or 0 * {alive(chosen)}",
            Unit.COUNT,
            wrong="0 says that no rule fired, not that all is well: docs/rules.md says what each "
            "rule cannot see.",
            empty="no agent",
            steps=((None, "green"), (1, "orange")),
        ),
    ]


def alive(chosen: Selection) -> str:
    """Return a query that has one line while something of what is chosen is observed."""
    return f"count({chosen.of('launches_total')})"


def _bytes(chosen: Selection, direction: str, title: str, what: str) -> Panel:
    given = f'direction="{direction}"'
    now = chosen.rate("copy_bytes_total", given)
    then = chosen.rate("copy_bytes_total", given, before=BEFORE)
    return number(
        title,
        f"{what}, more or less than `$compare` before.",
        f"{now} - {then}",
        Unit.BYTES_PER_SECOND,
        empty=UNKNOWN_THEN,
        decimals=1,
    )


def patterns(width: int = 12, height: int = 7) -> Panel:
    """Return the text that says which pattern is which incident."""
    return prose("How to read it", PATTERNS, width=width, height=height)


def open_findings(chosen: Selection, width: int = 12, height: int = 7) -> Panel:
    """Return the findings that are open now, the gravest first."""
    keys = ("severity", "rule", "namespace", "workload", "pod", "gpu_uuid")
    return table(
        "Findings that are open",
        "What the diagnosis has open now: rule, and whom it is about. docs/rules.md has a "
        "paragraph for each rule; `gpugauge diagnose` has the sentence, the evidence and the next "
        "step.",
        keys,
        [Column("open", largest(chosen.of("finding"), keys), shown=False)],
        width=width,
        height=height,
        wrong="Findings of processes outside pods have no pod. A finding needs some seconds to be "
        "confirmed, and some to be closed.",
        empty="The diagnosis has nothing open.",
        links={
            "pod": {"Pod": way(Board.POD, namespace=field("namespace"), pod=field("pod"))},
            "workload": {
                "Workload": way(
                    Board.WORKLOAD, namespace=field("namespace"), workload=field("workload")
                )
            },
            "gpu_uuid": {"Cluster, this GPU": way(Board.CLUSTER, gpu=field("gpu_uuid"))},
        },
        colors={"severity": SEVERITIES},
    )
