"""Runs every benchmark: `python -m benchmarks`. The exit code is 1 when a target is missed."""

from __future__ import annotations

import sys

from benchmarks import agent_cost, discovery, probe_cost, tick

sys.exit(max(each([]) for each in (probe_cost.main, discovery.main, tick.main, agent_cost.main)))
