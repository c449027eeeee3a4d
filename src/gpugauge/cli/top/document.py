"""`top --json`: the same rows as plain values; what is not known is null."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gpugauge.cli.terminal.table import visible
from gpugauge.cli.top.look import Look
from gpugauge.cli.top.page import gpus_of
from gpugauge.cli.top.rows import Row

VERSION = 1


def document(look: Look, rows: Sequence[Row], what: str) -> str:
    """Return one line of JSON."""
    plain: dict[str, Any] = {
        "version": VERSION,
        "time_unix_seconds": look.time_unix_seconds,
        "interval_seconds": look.interval_seconds,
        "simulated": look.simulated,
        "agents": [
            {
                "node": answer.link.node or (answer.value.snapshot.node if answer.value else ""),
                "agent": answer.link.where,
                "agent_version": answer.value.snapshot.agent_version if answer.value else None,
                "error": answer.error.sentence if answer.error else None,
                "next_step": answer.error.next_step if answer.error else None,
            }
            for answer in look.answers
        ],
    }
    if what == "nodes":
        plain["gpus"] = [asdict(row) for row in gpus_of(look, rows)]
    else:
        plain["rows"] = [row_plain(row) for row in rows]
    return json.dumps(plain, allow_nan=False)


def row_plain(row: Row) -> dict[str, Any]:
    """Return one row; its findings by name and severity."""
    whose = row.owner
    figures = asdict(row)
    for name in ("owner", "findings", "findings_known"):
        del figures[name]
    return {
        "scope": whose.scope.value,
        "namespace": visible(whose.namespace),
        "pod": visible(whose.pod),
        "container": visible(whose.container),
        "workload": visible(whose.workload),
        **figures,
        "findings": [{"rule": visible(f.rule), "severity": f.severity.value} for f in row.findings]
        if row.findings_known
        else None,
    }
