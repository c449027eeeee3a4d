"""What happened when: deploys, changed limits, findings, and where counting began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard

from deploy.grafana.parts.panels import SOURCE
from deploy.grafana.parts.queries import RATE, Selection, largest


class PrometheusAnnotation(dashboard.AnnotationQuery):
    """An annotation with the fields that Grafana's Prometheus data source reads beside it."""

    def __init__(self, more: dict[str, object], **given: Any) -> None:
        super().__init__(**given)
        self.more = more

    def to_json(self) -> dict[str, object]:
        """Return what is written."""
        return super().to_json() | self.more


@dataclass(frozen=True)
class Annotation:
    """One kind of event."""

    name: str
    expr: str
    color: str
    text: str
    tags: str = ""
    value_is_time: bool = False
    """The value is when it happened, in milliseconds; else it lasts while the value is above 0."""

    def build(self) -> dashboard.AnnotationQuery:
        """Return it as Grafana's."""
        more: dict[str, object] = {
            # Newer releases of Grafana ask what is in `target`, older ones what is in `expr`.
            "target": {"expr": self.expr, "refId": "Anno"},
            "titleFormat": self.name,
            "textFormat": self.text,
            "tagKeys": self.tags,
            "useValueForTime": self.value_is_time,
        }
        return PrometheusAnnotation(
            more,
            name=self.name,
            datasource=SOURCE,
            enable=True,
            icon_color=self.color,
            expr=self.expr,
        )


def containers_started(chosen: Selection) -> Annotation:
    """Return the starts of containers with their image: a deploy, or a restart."""
    owners = chosen.of("workload_info")
    pods = largest(owners, ("namespace", "pod"))
    cluster = 'cluster=~"$cluster", namespace=~"$namespace"'
    keys = ("namespace", "pod", "container")
    started = largest(f"kube_pod_container_state_started{{{cluster}}}", keys)
    images = largest(f"kube_pod_container_info{{{cluster}}}", (*keys, "image"))
    named = f"{started} * on ({', '.join(keys)}) group_right () {images}"
    return Annotation(
        name="Container started",
        expr=f"1000 * ({named}) * on (namespace, pod) group_left () {pods}",
        color="green",
        text="{{namespace}}/{{pod}}: {{container}} runs {{image}}",
        tags="pod,container",
        value_is_time=True,
    )


def limits_changed(chosen: Selection) -> Annotation:
    """Return changes of CPU limits in place."""
    changed = f"changes({chosen.of('cpu_quota_cores')}[{RATE}])"
    return Annotation(
        name="CPU limit changed",
        expr=f"{largest(changed, ('namespace', 'pod', 'container'))} > 0",
        color="purple",
        text="{{namespace}}/{{pod}}: {{container}}",
        tags="pod,container",
    )


def counting_began(chosen: Selection) -> Annotation:
    """Return the first minutes of counters: a new pod, or an agent that was restarted.

    A step longer than that, as on a dashboard of weeks, must not leave it out.
    """
    observed = chosen.of("process_seconds_total")
    return Annotation(
        name="First GPU call seen",
        expr=f"{largest(observed, ('namespace', 'pod'))} < 90 + $__interval_ms / 1000",
        color="blue",
        text="{{namespace}}/{{pod}}: a new pod, or the agent was restarted",
        tags="pod",
    )


def findings(chosen: Selection) -> Annotation:
    """Return the times in which the diagnosis had something open."""
    keys = ("namespace", "pod", "rule", "severity")
    return Annotation(
        name="Finding",
        expr=largest(chosen.of("finding"), keys),
        color="red",
        text="{{namespace}}/{{pod}}: {{rule}} ({{severity}})",
        tags="rule,severity",
    )


def events(chosen: Selection) -> list[Annotation]:
    """Return all kinds, for what is chosen."""
    return [
        containers_started(chosen),
        counting_began(chosen),
        limits_changed(chosen),
        findings(chosen),
    ]


def built(each: Annotation) -> build.AnnotationQuery:
    """Return a builder, as the dashboard's builder wants one."""
    made = build.AnnotationQuery()
    made._internal = each.build()
    return made
