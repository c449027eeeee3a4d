"""Settings of what is taken from Kubernetes and given to it."""

from __future__ import annotations

from dataclasses import dataclass

from gpugauge.model.finding import Severity
from gpugauge.settings.fields import bounded, formed

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = "[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffSwitchSettings:
    """What switches the probes of a node off within seconds, where Kubernetes is asked."""

    node_annotation: bool = True
    """Watch the agent's own node for the annotation `gpugauge.io/probes: "off"`. Needs `list`
    and `watch` on nodes."""
    config_map: str = formed(
        "gpugauge/gpugauge-probes", f"({_LABEL}/{_SUBDOMAIN})?", "NAMESPACE/NAME, or nothing"
    )
    """NAMESPACE/NAME of a ConfigMap whose key `probes` set to `off` switches all nodes off, and
    whose key `off-nodes` lists the names of single nodes. It need not exist. Empty: none is
    watched. Needs `list` and `watch` on this ConfigMap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEventSettings:
    """Kubernetes Events on a pod for what the diagnosis finds, seen by `kubectl describe pod`."""

    enabled: bool = False
    """Write them. Off, because they are for the owners of pods and cost writes at the API
    server. Needs `create` and `patch` on events of events.k8s.io."""
    severity: Severity = Severity.WARNING
    """Findings below this severity make no Event."""
    update_seconds: float = bounded(600.0, 60.0, 3_000.0)
    """A finding that lasts renews its Event this often. The API server drops an Event an hour
    after its last renewal."""
    per_minute: int = bounded(10, 1, 600)
    """At most so many writes a minute from this node; more wait in a queue of 64, and what does
    not fit there is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadScoreSettings:
    """The annotation `gpugauge.io/load-score` of the agent's own node, for the scheduler."""

    enabled: bool = False
    """Write it. Off, because each write is one more of a node, and the right to patch nodes is
    a strong one. Needs `patch` on nodes."""
    write_seconds: float = bounded(60.0, 60.0, 3_600.0)
    """The score is taken over this time, and written at most this often."""
    hysteresis_points: float = bounded(10.0, 1.0, 1_000.0)
    """It is written again once it differs by so many points from what was written."""
