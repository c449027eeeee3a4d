"""Every dashboard, by the name of its file."""

from __future__ import annotations

import json

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana import agent, cluster, node, pod, workload
from deploy.grafana.parts.layout import Page

PAGES = {
    "cluster": cluster.page,
    "workload": workload.page,
    "pod": pod.page,
    "node": node.page,
    "agent": agent.page,
}


def text_of(page: Page) -> str:
    """Return a dashboard as the JSON that Grafana loads, its keys sorted."""
    return json.dumps(page.build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


def texts() -> dict[str, str]:
    """Return the text of every dashboard by its name."""
    return {name: text_of(page()) for name, page in PAGES.items()}
