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
    total,
    zero_if,
)
from deploy.grafana.parts.tables import Column, table
from deploy.grafana.rows.signals import Subject

BEFORE = "$compare"
UNKNOWN_THEN = "unknown then"
RISE = ((None, "text"), (0.05, "orange"), (0.2, "red"))
GROWTH = ((None, "text"), (0.3, "orange"), (1.0, "red"))
FALL = ((None, "red"), (-0.25, "orange"), (-0.1, "text"))
PATTERNS = """
| | demand | stops per launch | wait per launch | others' calls | GPU waits | host lacks |
|---|---|---|---|---|---|---|
| **Added synchronization** | falls a little | **up** | | flat | often up | flat |
| **Noisy neighbour** | falls | flat | **up** | **up** | flat or down | flat |
| **CPU starvation** | **falls** | flat | flat or down | flat | **up** | often **up** |

The numbers above are changes against `$compare` before: choose a time when all was well. *Stops
per launch* tells a changed program, *others' calls* with *wait per launch* a neighbour, *GPU waits*
a slow host. Host waits alone tell none of them apart.
"""


def numbers(of: Subject) -> list[Panel]:
    """Return the changes, in the order of the patterns."""
    chosen = of.chosen
    return [
        number(
            "Demand, change",
            "Launch calls now against `$compare` before: -50 % is half the work.",
            _growth(submissions(chosen), submissions(chosen, before=BEFORE)),
            Unit.SHARE,
            empty=UNKNOWN_THEN,
            steps=FALL,
            decimals=0,
        ),
        number(
            "Stops per launch, change",
            "Synchronizations and copies to the host, for each launch call, against `$compare` "
            "before. It grows when the program asks for results more often, and not when it only "
            "runs slower.",
            _growth(_stops(chosen), _stops(chosen, BEFORE)),
            Unit.SHARE,
            wrong="A program that moves from single launches to graphs makes fewer calls for the "
            "same work, and this grows without harm.",
            empty=UNKNOWN_THEN,
            steps=GROWTH,
            decimals=0,
        ),
        number(
            "Wait per launch, change",
            "Time that threads wait for the GPU, for each launch call, against `$compare` before. "
            "It grows when the same work takes longer, as beside a neighbour.",
            _growth(_waits(chosen), _waits(chosen, BEFORE)),
            Unit.SHARE,
            empty=UNKNOWN_THEN,
            steps=GROWTH,
            decimals=0,
        ),
        number(
            "Others' calls, change",
            "Launch calls of others on its GPUs, more or less than `$compare` before.",
            f"({_others(of)}) - ({_others(of, BEFORE)})",
            Unit.PER_SECOND,
            wrong="Calls say nothing about time on the GPU: few long ones disturb more than many "
            "short ones. Processes that are not traced are not in it: see Contention.",
            empty="unknown",
            decimals=1,
        ),
        number(
            "GPU waits, change",
            "Share of time in which the GPU waited for this program, more or less than `$compare` "
            "before, in points.",
            f"{gpu_waits(chosen)} - {gpu_waits(chosen, before=BEFORE)}",
            Unit.SHARE,
            empty=UNKNOWN_THEN,
            steps=RISE,
            decimals=0,
        ),
        number(
            "Host lacks, change",
            "Share of time for which its CPU limit stopped it, or it was stalled for CPU, storage "
            "or memory, whichever is most; more or less than `$compare` before, in points.",
            f"{_lacks(chosen)} - {_lacks(chosen, BEFORE)}",
            Unit.SHARE,
            wrong="Without a CPU limit and without pressure stall information it is not known. "
            "Throttled time adds up over CPUs and can pass 100 %.",
            empty="unknown",
            steps=RISE,
            decimals=0,
        ),
        number(
            "Host waits, change",
            "Share of time under back pressure, more or less than `$compare` before, in points.",
            f"{host_waits(chosen)} - {host_waits(chosen, before=BEFORE)}",
            Unit.SHARE,
            empty=UNKNOWN_THEN,
            decimals=0,
        ),
        number(
            "Open findings",
            "What the diagnosis has open now.",
            zero_if(total(chosen.of("finding")), alive(chosen)),
            Unit.COUNT,
            wrong="0 says that no rule fired, not that all is well: docs/rules.md says what each "
            "rule cannot see.",
            empty="no agent",
            steps=((None, "green"), (1, "orange")),
        ),
    ]


def _growth(now: str, then: str) -> str:
    """Return by how much of itself something grew.

    From nothing to something it is infinite, from nothing to nothing 0.
    """
    return f"({now}) / ({then}) - 1 >= -1 or 0 * (({now}) + ({then}))"


def alive(chosen: Selection, before: str = "", *matchers: str) -> str:
    """Return a query that has one line while something of what is chosen is observed."""
    offset = f" offset {before}" if before else ""
    return f"count({chosen.of('launches_total', *matchers)}{offset})"


def _stops(chosen: Selection, before: str = "") -> str:
    synchronized = chosen.rate("sync_calls_total", before=before)
    read = chosen.rate("copies_total", 'direction="dtoh"', before=before)
    known = f"({read} or 0 * {alive(chosen, before)})"
    return f"({synchronized} + {known}) / ({submissions(chosen, before=before)} > 0)"


def _waits(chosen: Selection, before: str = "") -> str:
    waited = chosen.rate("blocked_seconds_total", before=before)
    return f"{waited} / ({submissions(chosen, before=before)} > 0)"


def _others(of: Subject, before: str = "") -> str:
    calls = of.others(of.calls_around(before), (), before)
    # Where its GPU is not known, nor is who else is on it.
    return zero_if(calls, alive(of.chosen, before, 'gpu_uuid!="unknown"'))


def _lacks(chosen: Selection, before: str = "") -> str:
    offset = f" offset {before}" if before else ""
    throttled = f"rate({chosen.of('cpu_throttled_seconds_total')}[{RATE}]{offset})"
    stalled = f"rate({chosen.of('pressure_seconds_total')}[{RATE}]{offset})"
    return largest(f"{throttled} or {stalled}")


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
