"""gpugauge: a pressure gauge for GPUs on Kubernetes; the door is `gpugauge --help`."""

__version__ = "0.1.0"
