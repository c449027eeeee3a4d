"""Validation on a real GPU. `python -m tests.gpu.validate --help`."""
