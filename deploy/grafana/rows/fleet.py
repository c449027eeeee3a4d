"""What the rows of the cluster dashboard have in common: whose series, and how lines are called."""

from __future__ import annotations

from deploy.grafana.parts.names import Board, field, label, way
from deploy.grafana.parts.queries import Selection

CHOSEN = Selection(("cluster", "namespace", "workload", "gpu"))
KEYS = ("namespace", "workload")
NAMED = "{{namespace}}/{{workload}}"
TO_WORKLOAD = way(Board.WORKLOAD, namespace=field("namespace"), workload=field("workload"))
LINE_TO_WORKLOAD = way(Board.WORKLOAD, namespace=label("namespace"), workload=label("workload"))
