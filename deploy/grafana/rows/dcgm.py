"""What dcgm-exporter says of the same GPUs, found by their UUID, and the way to its dashboard."""

from __future__ import annotations

from deploy.grafana.parts.names import Unit, field
from deploy.grafana.parts.panels import Panel, Query, lines
from deploy.grafana.parts.queries import Selection
from deploy.grafana.parts.tables import Column, table

ABSENT = "No dcgm-exporter is scraped by this Prometheus, or it knows none of these UUIDs."
WRONG = (
    "Where its label for the UUID was renamed there is no match. For MIG it is about the whole GPU."
)
KEYS = ("host", "instance", "gpu", "UUID")


def panels(chosen: Selection) -> list[Panel]:
    """Return a table with links to its dashboard, and lines."""
    return [
        table(
            "By dcgm-exporter",
            "The same GPUs, by UUID. Click a UUID for the dashboard of dcgm-exporter: "
            "temperatures, clocks, power, and what the GPU does inside.",
            KEYS,
            [
                Column("busy", f"max by ({', '.join(KEYS)}) ({_named(_busy(chosen))})", Unit.SHARE),
                Column("power", _column(chosen, "DCGM_FI_DEV_POWER_USAGE"), Unit.WATT),
                Column("temperature", _column(chosen, "DCGM_FI_DEV_GPU_TEMP"), Unit.CELSIUS),
            ],
            width=12,
            wrong=WRONG,
            empty=ABSENT,
            links={"UUID": {"dcgm-exporter": way_to_dcgm()}},
        ),
        lines(
            "Engine active, by dcgm-exporter",
            "Share of time in which the GPU's graphics and compute engine was active, from "
            "hardware counters. Beside host waits: high both is a saturated GPU, low here with "
            "high GPU waits is a starved one.",
            [Query(_of(chosen, "DCGM_FI_PROF_GR_ENGINE_ACTIVE"), "GPU {{gpu}}")],
            Unit.SHARE,
            wrong=WRONG,
            empty=ABSENT,
        ),
    ]


def way_to_dcgm() -> str:
    """Return the link to its dashboard, by every name that its variables have had."""
    host, instance, gpu = field("host"), field("instance"), field("gpu")
    names = f"var-hostname={host}&var-Hostname={host}&var-instance={instance}&var-gpu={gpu}"
    kept = "${datasource:queryparam}&${__url_time_range}"
    return f"/d/${{dcgm}}?{kept}&{names}&var-UUID={field('UUID')}"


def _of(chosen: Selection, name: str) -> str:
    """Return a metric of dcgm-exporter, of those GPUs, and of the parents of MIG instances."""
    info = chosen.of("device_info")
    parents = chosen.of("device_info", 'mig_parent_uuid!=""')
    whole = f'label_replace({parents}, "UUID", "$1", "mig_parent_uuid", "(.+)")'
    return f"({name} and on (UUID) ({info} or {whole}))"


def _busy(chosen: Selection) -> str:
    return f"{_of(chosen, 'DCGM_FI_DEV_GPU_UTIL')} / 100"


def _column(chosen: Selection, name: str) -> str:
    return f"max by ({', '.join(KEYS)}) ({_named(_of(chosen, name))})"


def _named(query: str) -> str:
    """Return it with one label for the host's name, which it has spelt in two ways."""
    old = f'label_replace({query}, "host", "$1", "Hostname", "(.+)")'
    return f'label_replace({old}, "host", "$1", "hostname", "(.+)")'
