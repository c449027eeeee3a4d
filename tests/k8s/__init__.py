"""Kubernetes, without a cluster: fakes that speak the real protocols."""
