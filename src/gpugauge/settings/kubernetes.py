"""Settings of what is taken from Kubernetes and given to it."""

from __future__ import annotations

from dataclasses import dataclass

from gpugauge.settings.fields import formed

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
