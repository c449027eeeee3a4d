"""From snapshots to Prometheus and JSON over HTTP."""
