"""docs/rules.md, written from the rules' own texts."""

from __future__ import annotations

import textwrap

from gpugauge.diagnosis.rules import RULES
from gpugauge.settings.catalog import catalog

WIDTH = 100
HEAD = """\
# Diagnosis rules

Written from `src/gpugauge/diagnosis/rules/` by `make generate`.

`gpugauge diagnose` shows what these rules find: in the agent of this node, in a recording
(`--file`), or in a whole cluster (`--prometheus`). The agent exports open findings as
`gpugauge_finding{rule,severity}`.

How they judge:

- **Harm before blame.** Most rules compare a workload with what is usual for it, phase by phase,
  learned while nothing was wrong. A wait that was always there, or that only moved from one call to
  another, is no finding. What counts is work lost, idle time made, or time per unit of work grown.
- **Ratios before rates.** A unit of work is one function launched on the GPU. Calls, bytes and
  waits are compared per unit, because that survives a workload that slows down.
- **Slow to speak, slow to fall silent.** A condition must hold for `diagnosis.confirm_seconds`, and
  be gone for `diagnosis.clear_seconds`. Processes younger than `diagnosis.startup_seconds` are
  compared with nothing.
- **One cause, one finding.** Rules that see one cause from several sides are merged; causes that
  contradict each other are ranked by the share of time they explain.
- **What was not seen is said.** A rule that lacks a signal answers what it lacked. With one lacking
  signal a finding is `likely`, with more it is `possible` and one step less severe.

Severities: `critical` work has stopped or failed; `warning` work is lost or a device is wasted;
`info` a state worth knowing.
"""


def rules_document() -> str:
    """Return docs/rules.md."""
    settings = {setting.name: setting for setting in catalog() if setting.section == "diagnosis"}
    parts = [HEAD]
    for rule in RULES:
        parts.append(f"## {rule.title}\n\n`{rule.id}` | needs: {', '.join(rule.needs)}\n")
        parts.append(_fill(f"**What it means.** {rule.meaning}"))
        parts.append(_fill(f"**What to do.** {rule.remedy}"))
        parts.append(_fill(f"**When it is wrong.** {rule.wrong_when}"))
        if rule.absorbs:
            names = ", ".join(f"`{name}`" for name in rule.absorbs)
            parts.append(_fill(f"**Made one with it:** {names}."))
        for name in rule.settings:
            setting = settings[name]
            parts.append(
                _fill(f"- `diagnosis.{name}` = {setting.default}: {setting.meaning}", "  ")
            )
        if rule.settings:
            parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _fill(text: str, indent: str = "") -> str:
    end = "" if indent else "\n"
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False) + end
