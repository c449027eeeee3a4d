"""What the agent takes from Kubernetes and gives to it, beside pods."""

from __future__ import annotations

from gpugauge.export import samples as of
from gpugauge.export.metric import Certainty, Kind, Metric
from gpugauge.export.metrics.caveats import NEVER

METRICS: tuple[Metric, ...] = (
    Metric(
        name="agent_probes_switched_off",
        kind=Kind.GAUGE,
        labels=("source",),
        help="1 while a place says that the probes of this node are off.",
        samples=of.off_switches(lambda each: float(each.off)),
        meaning="`signal`: SIGUSR1. `node`: the annotation `gpugauge.io/probes` of the node. "
        "`config_map`: the ConfigMap of the setting `off_switch.config_map`. One that says off "
        "is enough; while one does, nothing is counted. A place that is not watched is absent.",
        wrong_when="While `gpugauge_agent_off_switch_up` is 0 it is what was last known.",
    ),
    Metric(
        name="agent_off_switch_up",
        kind=Kind.GAUGE,
        labels=("source",),
        help="1 while a place that can switch the probes off can be read.",
        samples=of.off_switches(lambda each: float(not each.error)),
        meaning="0 for more than a minute: the API server does not answer, the right to list and "
        "watch it is missing, or no node has this one's name. The log tells which, and "
        "/api/v1/snapshot does.",
        wrong_when="A server that vanished without a word is noticed after about a minute.",
    ),
    Metric(
        name="agent_off_switch_malformed_total",
        kind=Kind.COUNTER,
        labels=("source",),
        help="Values of an off switch that were no word for on or off.",
        samples=of.off_switches(lambda each: each.malformed),
        meaning="Such a value changes nothing; the log shows it. Correct it.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_pod_event_writes_total",
        kind=Kind.COUNTER,
        labels=("outcome",),
        help="Writes of Kubernetes Events for findings, by outcome.",
        samples=of.agent_table(lambda a: a.pod_events.writes if a.pod_events else {}),
        meaning="`created`: one for each finding. `updated`: a finding lasts, and its Event says "
        "how long. `dropped`: the queue was full. `failed`: the API server refused or was gone "
        "for ten minutes, or the pod ended first; the log tells which. Absent where "
        "`pod_events.enabled` is off.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_load_score",
        kind=Kind.GAUGE,
        labels=(),
        help="Load of this node's GPUs in points, as the annotation for the scheduler has it.",
        samples=of.agent(lambda a: a.load_score.points if a.load_score else None),
        certainty=Certainty.LOWER_BOUND,
        meaning="100 for each process that waits for its GPU, on average over the last minute, "
        "and 10 for each pod on a GPU, divided by the GPUs: 0 is a node without work. Absent "
        "while not known, and where `load_score.enabled` is off.",
        wrong_when="The annotation follows it in steps of `load_score.hysteresis_points`.",
    ),
    Metric(
        name="agent_load_score_writes_total",
        kind=Kind.COUNTER,
        labels=("outcome",),
        help="Writes of the load score to the node, by outcome.",
        samples=of.agent_table(lambda a: a.load_score.writes if a.load_score else {}),
        meaning="`written`, `removed` where it became unknown, `failed`: the log tells why. At "
        "most one a minute.",
        wrong_when=NEVER,
    ),
)
