"""The signals of one workload or pod, under each other on one time axis."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.grafana.parts.names import CAUSES, DIRECTIONS, HOST, STATES, Board, Unit, label, way
from deploy.grafana.parts.panels import Panel, Query, lines, timeline
from deploy.grafana.parts.queries import (
    RATE,
    Selection,
    largest,
    part,
    ratio,
    submissions,
    total,
)

HEIGHT = 5
NOBODY = "No process of it has called the GPU in this time, or the agent did not run."


@dataclass(frozen=True)
class Subject:
    """Whose signals: a workload's or a pod's."""

    chosen: Selection
    keys: tuple[str, ...]
    """Labels that name it, to tell it from its neighbours."""

    @property
    def around(self) -> Selection:
        """All that is in the cluster."""
        return self.chosen.only("cluster")

    def _mine(self, by: str, before: str, *matchers: str) -> str:
        offset = f" offset {before}" if before else ""
        return f"group by ({by}) ({self.chosen.of('launches_total', *matchers)}{offset})"

    def on_its_gpus(self, query: str, before: str = "") -> str:
        """Return those lines that are about its GPUs, those whose UUID is known."""
        gpus = self._mine("gpu_uuid", before, 'gpu_uuid!="unknown"')
        return f"({query} and on (gpu_uuid) {gpus})"

    def others(self, query: str, by: tuple[str, ...], before: str = "") -> str:
        """Return the sum of lines on its GPUs that are not its own."""
        keys = ", ".join(self.keys)
        rest = f"unless on ({keys}) {self._mine(keys, before)}"
        return total(f"{self.on_its_gpus(query, before)} {rest}", by)

    def calls_around(self, before: str = "") -> str:
        """Return the launch calls of everybody in the cluster, of both kinds."""
        offset = f" offset {before}" if before else ""
        names = ("launches_total", "graph_launches_total")
        rates = [f"rate({self.around.of(name)}[{RATE}]{offset})" for name in names]
        return f"({' + '.join(rates)})"


def stack(of: Subject) -> list[Panel]:
    """Return the signals, full width, in the order in which an incident is read."""
    return [
        demand(of.chosen),
        time_split(of.chosen),
        back_pressure(of.chosen),
        calls_per_launch(of.chosen),
        transfers(of.chosen),
        contention(of),
        neighbours(of),
        host(of.chosen),
        findings(of.chosen),
    ]


def demand(chosen: Selection, width: int = 24) -> Panel:
    """Return launches, alone and in graphs."""
    return lines(
        "Demand",
        "Work given to the GPU: launches of single functions, launches of whole graphs, and the "
        "functions inside those graphs. They are not added up. Flat while the job got slower: the "
        "work is the same, it waits more. Falling: it is given less work, or its host is slower.",
        [
            Query(chosen.rate("launches_total"), "launches"),
            Query(chosen.rate("graph_launches_total"), "graph launches"),
            Query(chosen.rate("graph_kernels_total"), "functions in graphs"),
        ],
        Unit.PER_SECOND,
        width=width,
        height=HEIGHT,
        empty=NOBODY,
        colors={"launches": "green", "graph launches": "blue", "functions in graphs": "purple"},
    )


def time_split(chosen: Selection, width: int = 24) -> Panel:
    """Return who waited for whom."""
    states = chosen.rate("process_time_seconds_total", by=("state",))
    return lines(
        "Time split",
        "Where the time of its processes went. `host_waits`: it waited for the GPU. `gpu_waits`: "
        "nothing was outstanding, the GPU waited for it. `overlapped`: both worked. `unobserved`: "
        "not known.",
        [Query(part(states, chosen.rate("process_seconds_total")), "{{state}}")],
        Unit.SHARE,
        width=width,
        height=HEIGHT,
        empty=NOBODY,
        colors=STATES,
        stacked=True,
        full=True,
    )


def back_pressure(chosen: Selection, width: int = 24) -> Panel:
    """Return blocked threads by cause."""
    return lines(
        "Back pressure by cause",
        "How many of its threads wait for the GPU on average, by the call they wait in. Above 1 "
        "when several wait at a time.",
        [Query(chosen.rate("blocked_seconds_total", by=("cause",)), "{{cause}}")],
        Unit.COUNT,
        width=width,
        height=HEIGHT,
        empty=NOBODY,
        axis="threads waiting",
        colors=CAUSES,
        stacked=True,
    )


def calls_per_launch(chosen: Selection, width: int = 24) -> Panel:
    """Return synchronizations and copies per launch."""
    calls = submissions(chosen)
    copies = chosen.rate("copies_total", 'direction=~"htod|dtoh"', by=("direction",))
    return lines(
        "Synchronizations and copies per launch",
        "How often it stops for the GPU, or copies, for each launch that it makes. A ratio does "
        "not change when the job only runs slower: a step up is a change of the program, such as "
        "a value read back for a log line. Single and graph launches both count as one.",
        [
            Query(ratio(chosen.rate("sync_calls_total"), calls), "synchronizations"),
            Query(part(copies, calls), "copies {{direction}}"),
        ],
        Unit.COUNT,
        width=width,
        height=HEIGHT,
        wrong="A program that moves from single launches to graphs makes fewer calls for the "
        "same work, and the ratio steps up without harm.",
        empty=NOBODY,
        axis="per launch",
        colors={"synchronizations": "red", "copies htod": "blue", "copies dtoh": "orange"},
    )


def transfers(chosen: Selection, width: int = 24) -> Panel:
    """Return bytes by direction."""
    return lines(
        "Transfers",
        "Bytes submitted for copying, by direction: `htod` to the GPU, `dtoh` back, `dtod` within "
        "it, `peer` between GPUs. `dtoh` that rises with a deploy is results pulled to the host. "
        "`htod` that falls with the demand is input that comes too slowly.",
        [Query(chosen.rate("copy_bytes_total", by=("direction",)), "{{direction}}")],
        Unit.BYTES_PER_SECOND,
        width=width,
        height=HEIGHT,
        empty="It has copied nothing in this time.",
        colors=DIRECTIONS,
    )


def contention(of: Subject, width: int = 24) -> Panel:
    """Return how many share its busiest GPU."""
    pods = of.on_its_gpus(of.around.of("device_pods"))
    active = of.on_its_gpus(of.around.of("device_processes", 'state="active"'))
    context = of.on_its_gpus(of.around.of("device_processes", 'state="context"'))
    return lines(
        "Contention",
        "Who is on its GPUs, itself included; of the GPU with the most. Pods, processes that have "
        "a context there, and processes that submitted or waited since the last tick. Two active "
        "processes take turns.",
        [
            Query(largest(pods), "pods"),
            Query(largest(active), "active processes"),
            Query(largest(context), "processes with a context"),
        ],
        Unit.COUNT,
        width=width,
        height=HEIGHT,
        empty="The UUID of its GPU is not known, so nor is who shares it.",
        colors={"pods": "purple", "active processes": "red", "processes with a context": "text"},
    )


def neighbours(of: Subject, width: int = 24) -> Panel:
    """Return the demand of others on its GPUs."""
    by = ("scope", "namespace", "pod")
    return lines(
        "Demand of others on its GPUs",
        "Launch calls that others make on the same GPUs. When it begins as this workload's waits "
        "grow, the neighbour is the cause. Click a line to go to that pod.",
        [Query(of.others(of.calls_around(), by), "{{scope}} {{namespace}}/{{pod}}")],
        Unit.PER_SECOND,
        width=width,
        height=HEIGHT,
        wrong="Calls say nothing about time on the GPU: one may take a second. Processes outside "
        "pods that are not traced are not seen; the contention above counts those that NVML lists.",
        empty="Nobody else is known to submit work to its GPUs.",
        links={"Pod": way(Board.POD, namespace=label("namespace"), pod=label("pod"))},
    )


def host(chosen: Selection, width: int = 24) -> Panel:
    """Return what the host lacks."""
    throttled = f"rate({chosen.of('cpu_throttled_seconds_total')}[{RATE}])"
    stalled = f"rate({chosen.of('pressure_seconds_total')}[{RATE}])"
    return lines(
        "Host: throttled and stalled",
        "Why a GPU may starve; of the container that is worst off. `throttled`: its CPU limit "
        "stopped it. `cpu`, `io`, `memory`: some task of it waited for a CPU, for storage, for "
        "memory. With falling demand and rising `gpu_waits` this is the cause.",
        [
            Query(largest(throttled), "throttled"),
            Query(largest(stalled, ("resource",)), "{{resource}}"),
        ],
        Unit.SHARE,
        width=width,
        height=HEIGHT,
        wrong="Without a CPU limit there is no `throttled`, without pressure stall information "
        "(cgroup v2) no other line. Throttled time adds up over CPUs and can pass 100 %.",
        empty="No CPU limit, and no pressure stall information on this node.",
        colors=HOST,
    )


def findings(chosen: Selection, width: int = 24) -> Panel:
    """Return the findings over time."""
    keys = ("rule", "severity", "pod")
    return timeline(
        "Findings over time",
        "What the diagnosis had open, and when. docs/rules.md says what each rule means and what "
        "to do.",
        Query(largest(chosen.of("finding"), keys), "{{rule}} {{pod}}"),
        width=width,
        height=HEIGHT,
        wrong="A finding comes some seconds after its cause, when it was confirmed.",
        empty="The diagnosis found nothing in this time.",
        shown={"1": ("open", "orange")},
    )
