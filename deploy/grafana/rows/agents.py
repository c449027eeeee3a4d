"""What the rows of the agent dashboard have in common: which agents, and their nodes."""

from __future__ import annotations

from deploy.grafana.parts.queries import Selection, with_node

CHOSEN = Selection(("cluster", "instance"))
AGENTS = CHOSEN.of("agent_info")
ALIVE = f"count({CHOSEN.of('agent_up')})"
NONE = "No agent is scraped."
NODE = "{{node}}"


def named(query: str) -> str:
    """Return lines by instance with the name of the node."""
    return with_node(query, AGENTS)


def by_node(name: str) -> str:
    """Return a metric of each agent with the name of the node."""
    return named(CHOSEN.of(name))
