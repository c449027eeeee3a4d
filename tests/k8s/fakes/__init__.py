"""A fake API server, a fake kubelet and builders of pods, for tests of every layer."""
