"""Below the signals of a workload or pod: rows to open when a signal asks for more."""

from __future__ import annotations

from deploy.grafana.parts.layout import Row
from deploy.grafana.parts.names import CAUSES, DIRECTIONS, Unit
from deploy.grafana.parts.panels import Query, lines
from deploy.grafana.parts.queries import RATE, Selection, largest, ratio, submissions, total
from deploy.grafana.rows.signals import NOBODY

NEVER_WAITED = "No call of it has waited in this time."
FAMILIES = {
    "device": "blue",
    "managed": "purple",
    "pool": "green",
    "virtual": "orange",
    "array": "yellow",
    "host": "text",
    "host_registered": "semi-dark-blue",
}


def rows(chosen: Selection) -> list[Row]:
    """Return all of them, closed."""
    return [waits(chosen), work(chosen), memory(chosen), errors(chosen), cpu(chosen)]


def waits(chosen: Selection) -> Row:
    """Return how long single calls wait."""
    buckets = chosen.rate("blocked_duration_seconds_bucket", by=("le", "cause"))
    counted = chosen.rate("blocked_duration_seconds_count", by=("cause",))
    waited = chosen.rate("blocked_duration_seconds_sum", by=("cause",))
    return Row(
        "Waits",
        [
            lines(
                "Mean duration of a wait",
                "Of calls that blocked, by cause. Rising while the rate of synchronizations stays: "
                "each takes longer, so the GPU does more, or others are served in between.",
                [Query(f"{waited} / ({counted} > 0)", "{{cause}}")],
                Unit.SECONDS,
                wrong="A mean hides many short waits beside a few long ones: see the quantiles.",
                empty=NEVER_WAITED,
                colors=CAUSES,
            ),
            lines(
                "Waits: median and 99th percentile",
                "Half of the waits are shorter than the median, one in a hundred is longer than "
                "the other.",
                [
                    Query(f"histogram_quantile(0.5, {buckets})", "{{cause}} median"),
                    Query(f"histogram_quantile(0.99, {buckets})", "{{cause}} p99"),
                ],
                Unit.SECONDS,
                wrong="Quantiles are no finer than the eight buckets, 16 us to 1.1 s, and read no "
                "more than 1.1 s.",
                empty=NEVER_WAITED,
            ),
            lines(
                "Calls that have not returned",
                "Age of open blocking calls, summed over threads. It rises by a second a second "
                "in a hang, which no rate of finished calls can show.",
                [Query(total(chosen.of("inflight_blocked_seconds"), ("cause",)), "{{cause}}")],
                Unit.SECONDS,
                empty=NEVER_WAITED,
                colors=CAUSES,
            ),
            lines(
                "Polls",
                "Questions whether the GPU is done, by the answer. Many `false` are waiting that "
                "no blocked time shows: the program asks in a loop and burns a CPU.",
                [Query(chosen.rate("poll_calls_total", by=("ready",)), "ready {{ready}}")],
                Unit.PER_SECOND,
                empty=NOBODY,
                colors={"ready true": "green", "ready false": "orange"},
            ),
            lines(
                "GPUs known to wait for it",
                "How many GPUs wait for it on average, by GPU: it had given them nothing to do. At "
                "1 the GPU is known to wait for it all the time.",
                [Query(chosen.rate("known_idle_seconds_total", by=("gpu_uuid",)), "{{gpu_uuid}}")],
                Unit.COUNT,
                empty="Not known: not all that it submits is seen, or nothing waited.",
                axis="GPUs waiting",
            ),
            lines(
                "Launches per wait",
                "Launch calls for each synchronization: few mean that the host stops often.",
                [Query(ratio(submissions(chosen), chosen.rate("sync_calls_total")), "launches")],
                Unit.COUNT,
                empty="It has waited for nothing in this time.",
            ),
        ],
        open=False,
    )


def work(chosen: Selection) -> Row:
    """Return what calls are made of."""
    sizes = chosen.rate("copy_bytes_total", by=("direction",))
    copies = chosen.rate("copies_total", by=("direction",))
    unknown = chosen.rate("graph_launches_unknown_total")
    threads = chosen.rate("launch_threads_total")
    return Row(
        "Launches and copies",
        [
            lines(
                "Calls",
                "Synchronizations, and calls that fill device memory.",
                [
                    Query(chosen.rate("sync_calls_total"), "synchronizations"),
                    Query(chosen.rate("sets_total"), "sets"),
                ],
                Unit.PER_SECOND,
                empty=NOBODY,
                colors={"synchronizations": "orange", "sets": "blue"},
            ),
            lines(
                "Cost of issuing a launch",
                "Host time that one launch takes while the queue is not full; of the slowest "
                "process group. Rising while the GPU does the same work: the host got slower.",
                [Query(largest(chosen.of("launch_issue_seconds"), ("pod",)), "{{pod}}")],
                Unit.SECONDS,
                empty="Not learned yet: it takes a hundred launches that meet an empty queue.",
            ),
            lines(
                "Mean size of a copy",
                "Many small copies waste the bus; one large copy of the same bytes is faster.",
                [Query(f"{sizes} / ({copies} > 0)", "{{direction}}")],
                Unit.BYTES,
                empty="It has copied nothing in this time.",
                colors=DIRECTIONS,
            ),
            lines(
                "Copies",
                "Copies submitted, by direction.",
                [Query(copies, "{{direction}}")],
                Unit.PER_SECOND,
                empty="It has copied nothing in this time.",
                colors=DIRECTIONS,
            ),
            lines(
                "Mean threads of a launch",
                "GPU threads per single launch. Exported only with the setting "
                "`series.launch_threads`.",
                [Query(ratio(threads, chosen.rate("launches_total")), "threads")],
                Unit.COUNT,
                empty="Not exported: set series.launch_threads in the agent's settings.",
            ),
            lines(
                "Graph launches of unknown content",
                "Share of graph launches whose content was not seen when it was built. At 0 the "
                "functions in graphs are exact; above, they are a lower bound.",
                [Query(ratio(unknown, chosen.rate("graph_launches_total")), "unknown")],
                Unit.SHARE,
                empty="It has launched no graphs in this time.",
            ),
        ],
        open=False,
    )


def memory(chosen: Selection) -> Row:
    """Return what it asked for and what it holds."""
    requested = chosen.of("memory_requested_bytes")
    on_device = chosen.of("memory_requested_bytes", 'family!~"host|host_registered"')
    peak = chosen.of("memory_requested_peak_bytes", 'family!~"host|host_registered"')
    return Row(
        "Memory",
        [
            lines(
                "Requested, by family",
                "Memory of live allocations as the program asked for it. `host` and "
                "`host_registered` are not on the GPU.",
                [Query(total(requested, ("family",)), "{{family}}")],
                Unit.BYTES,
                empty="Not known: a process of it was there before the agent, so what it has "
                "allocated is not.",
                colors=FAMILIES,
                stacked=True,
            ),
            lines(
                "Requested and held on the GPU",
                "What it asked for, the most it ever asked for, and what it holds by NVML. What "
                "lies between is contexts, granularity, and the driver's own pools.",
                [
                    Query(total(on_device), "requested"),
                    Query(total(peak), "requested, peak"),
                    Query(total(chosen.of("memory_held_bytes")), "held"),
                ],
                Unit.BYTES,
                wrong="Held is absent where NVML does not list the process, under MPS for one; "
                "requested where a process was not seen from its start. Peaks of several "
                "processes are added though they may not coincide.",
                empty="Neither NVML nor the agent knows what it holds.",
                colors={"requested": "blue", "requested, peak": "text", "held": "orange"},
            ),
            lines(
                "Allocations and frees",
                "A steady rate in a training loop is a program without a caching allocator.",
                [
                    Query(chosen.rate("allocations_total"), "allocations"),
                    Query(chosen.rate("frees_total"), "frees"),
                ],
                Unit.PER_SECOND,
                empty="Not known for processes that were there before the agent.",
                colors={"allocations": "blue", "frees": "green"},
            ),
            lines(
                "Contexts",
                "Live CUDA contexts, by pod. Each holds some hundred megabytes of the GPU.",
                [Query(total(chosen.of("contexts"), ("pod",)), "{{pod}}")],
                Unit.COUNT,
                empty=NOBODY,
            ),
        ],
        open=False,
    )


def errors(chosen: Selection) -> Row:
    """Return failed calls."""
    return Row(
        "Errors",
        [
            lines(
                "Failed driver calls",
                "By operation and CUresult: 2 is out of memory, 700 an illegal address, 719 a "
                "failed launch.",
                [Query(chosen.rate("errors_total", by=("op", "code")), "{{op}} {{code}}")],
                Unit.PER_SECOND,
                width=24,
                empty="No call has failed.",
            )
        ],
        open=False,
    )


def cpu(chosen: Selection) -> Row:
    """Return the CPU that it may use and uses."""
    stalled = f"rate({chosen.of('pressure_seconds_total')}[{RATE}])"
    return Row(
        "CPU",
        [
            lines(
                "CPU used and allowed",
                "Cores used by its containers, and their CPU limits together.",
                [
                    Query(chosen.rate("cpu_seconds_total"), "used"),
                    Query(total(chosen.of("cpu_quota_cores")), "allowed"),
                ],
                Unit.COUNT,
                wrong="Containers without a limit add nothing to what is allowed.",
                empty="The cgroups of its containers cannot be read.",
                axis="cores",
                colors={"used": "blue", "allowed": "red"},
            ),
            lines(
                "Stalled, by pod",
                "Share of time in which some task of the pod waited for a CPU, storage or memory.",
                [Query(largest(stalled, ("pod", "resource")), "{{pod}} {{resource}}")],
                Unit.SHARE,
                empty="No pressure stall information on this node.",
            ),
        ],
        open=False,
    )
