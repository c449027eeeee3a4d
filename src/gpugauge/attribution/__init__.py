"""Whose a process is, what its pod was given, and what its CPU side went through.

`Attribution` is the only door: the agent starts it once and asks it at each
tick. Nothing it does at a tick waits for a server: the API server and the
kubelet are asked by threads of their own.
"""

from gpugauge.attribution.attribution import Attribution
from gpugauge.attribution.entitled import Comparison, Use, compare

__all__ = ["Attribution", "Comparison", "Use", "compare"]
