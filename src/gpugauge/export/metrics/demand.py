"""Demand: work given to the GPU."""

from __future__ import annotations

from gpugauge.export import samples as of
from gpugauge.export.metric import WORKLOAD, Certainty, Kind, Metric
from gpugauge.export.metrics.caveats import SEEN
from gpugauge.model.abi import Slot

METRICS: tuple[Metric, ...] = (
    Metric(
        name="launches_total",
        kind=Kind.COUNTER,
        labels=WORKLOAD,
        help="Launches of GPU functions.",
        samples=of.calls(Slot.LAUNCH),
        meaning="Calls that put one function on the GPU: the demand of the workload. Launches "
        "recorded into a graph are not demand and not counted here; replaying the graph is "
        "`gpugauge_graph_launches_total`.",
        wrong_when=SEEN,
    ),
    Metric(
        name="graph_launches_total",
        kind=Kind.COUNTER,
        labels=WORKLOAD,
        help="Launches of whole CUDA graphs.",
        samples=of.calls(Slot.GRAPH_LAUNCH),
        meaning="One call that replays a recorded graph. Shown beside single launches and never "
        "added to them, because one such call may be a thousand GPU functions or one.",
        wrong_when=SEEN,
    ),
    Metric(
        name="graph_kernels_total",
        kind=Kind.COUNTER,
        labels=WORKLOAD,
        help="GPU functions inside launched graphs whose content is known.",
        samples=of.known(lambda s: s.graph_launch_nodes),
        certainty=Certainty.LOWER_BOUND,
        meaning="Each launch of a graph adds the launch nodes of that graph, as they were counted "
        "while it was captured or built.",
        wrong_when="Graphs made before the probes were there, with conditional nodes, or that "
        "launch from the device add nothing; `gpugauge_graph_launches_unknown_total` counts "
        "their launches. Nodes switched off in an executable graph still count, and so does "
        "real work that the capturing thread puts on another stream meanwhile: then it is above.",
    ),
    Metric(
        name="graph_launches_unknown_total",
        kind=Kind.COUNTER,
        labels=WORKLOAD,
        help="Launches of graphs whose content is not known.",
        samples=of.known(lambda s: s.graph_launches_unknown),
        meaning="A subset of `gpugauge_graph_launches_total`. While it does not move, "
        "`gpugauge_graph_kernels_total` is exact.",
        wrong_when=SEEN,
    ),
    Metric(
        name="launch_threads_total",
        kind=Kind.COUNTER,
        labels=WORKLOAD,
        help="GPU threads launched, grid times block.",
        samples=of.known(lambda s: s.launch_threads),
        option="launch_threads",
        meaning="Divided by `gpugauge_launches_total` it is the mean size of a launch. A size says "
        "nothing about time: one thread may loop for a second.",
        wrong_when="A launch whose configuration could not be read counts as a launch without "
        "threads; `gpugauge_agent_lost_updates_total` counts these under `size_unreadable`.",
    ),
)
