"""Small parts of PromQL, held to the metric table: no name or label that it does not have."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpugauge.export.metric import PREFIX, Metric
from gpugauge.export.metrics import METRICS

RATE = "$__rate_interval"
TABLE = {metric.name: metric for metric in METRICS}
LABEL_OF = {
    "cluster": "cluster",
    "instance": "instance",
    "namespace": "namespace",
    "workload": "workload",
    "pod": "pod",
    "node": "node",
    "gpu": "gpu_uuid",
}
"""The label that a variable of the dashboards chooses values of."""
SCRAPED = {"cluster", "instance"}
"""Labels that Prometheus adds."""


def metric(name: str) -> Metric:
    """Return a row of the metric table.

    Raises:
        KeyError: there is no such metric.
    """
    return TABLE[re.sub(r"_(bucket|sum|count)$", "", name)]


@dataclass(frozen=True)
class Selection:
    """The series that the variables of a dashboard choose."""

    variables: tuple[str, ...]

    def of(self, name: str, *matchers: str) -> str:
        """Return the selector of a metric, by those variables whose label it has."""
        words = self._chosen({*metric(name).labels, *SCRAPED})
        return f"{PREFIX}{name}{{{', '.join([*words, *matchers])}}}"

    def rate(self, name: str, *matchers: str, by: tuple[str, ...] = (), before: str = "") -> str:
        """Return the summed rate of a counter; `before` is an offset."""
        offset = f" offset {before}" if before else ""
        return total(f"rate({self.of(name, *matchers)}[{RATE}]{offset})", by)

    def recorded(self, name: str, *matchers: str) -> str:
        """Return the selector of a recorded series, whose name begins with the labels it has."""
        level = name.partition(":")[0]
        labels = {"cluster"} | {each for each in LABEL_OF.values() if each in level}
        return f"{name}{{{', '.join([*self._chosen(labels), *matchers])}}}"

    def _chosen(self, labels: set[str]) -> list[str]:
        chosen = [(LABEL_OF[each], each) for each in self.variables]
        return [f'{label}=~"${each}"' for label, each in chosen if label in labels]

    def only(self, *variables: str) -> Selection:
        """Return the same by fewer variables."""
        return Selection(tuple(each for each in self.variables if each in variables))


def total(query: str, by: tuple[str, ...] = ()) -> str:
    """Return the sum, by labels."""
    return _aggregated("sum", query, by)


def largest(query: str, by: tuple[str, ...] = ()) -> str:
    """Return the maximum, by labels."""
    return _aggregated("max", query, by)


def _aggregated(how: str, query: str, by: tuple[str, ...]) -> str:
    return f"{how} by ({', '.join(by)}) ({query})" if by else f"{how}({query})"


def ratio(above: str, below: str) -> str:
    """Return a quotient that is absent, and not NaN, where nothing is below."""
    return f"{above} / ({below} > 0)"


def part(above: str, below: str) -> str:
    """Return the quotient of many lines and one."""
    return f"{above} / on () group_left () ({below} > 0)"


def zero_if(query: str, alive: str) -> str:
    """Return the query, and 0 where it has nothing though somebody is there to say so."""
    return f"{query} or 0 * {alive}"


def with_gpu(query: str, devices: str) -> str:
    """Return lines by `gpu_uuid` with the device's index beside it, "unknown" without NVML.

    Args:
        query: Lines by `gpu_uuid`.
        devices: The selector of `gpugauge_device_info`.
    """
    index = largest(devices, ("gpu_uuid", "gpu"))
    named = f"{query} * on (gpu_uuid) group_left (gpu) {index}"
    rest = f'label_replace({query} unless on (gpu_uuid) {index}, "gpu", "unknown", "", "")'
    return f"{named} or {rest}"


def with_node(query: str, agents: str) -> str:
    """Return lines by `instance` with the node's name.

    Args:
        query: Lines by `instance`.
        agents: The selector of `gpugauge_agent_info`.
    """
    return f"{query} * on (instance) group_left (node) {largest(agents, ('instance', 'node'))}"


def submissions(chosen: Selection, by: tuple[str, ...] = (), before: str = "") -> str:
    """Return the rate of launch calls of both kinds: a graph's launch is one call."""
    calls = ("launches_total", "graph_launches_total")
    return "(" + " + ".join(chosen.rate(each, by=by, before=before) for each in calls) + ")"


def host_waits(chosen: Selection, by: tuple[str, ...] = (), before: str = "") -> str:
    """Return the share of time in which the GPU was waited for."""
    waited = chosen.rate("blocked_wall_seconds_total", by=by, before=before)
    return ratio(waited, chosen.rate("process_seconds_total", by=by, before=before))


def gpu_waits(chosen: Selection, by: tuple[str, ...] = (), before: str = "") -> str:
    """Return the share of time in which the GPU is known to have waited for the program."""
    given = 'state="gpu_waits"'
    waited = chosen.rate("process_time_seconds_total", given, by=by, before=before)
    return ratio(waited, chosen.rate("process_seconds_total", by=by, before=before))
