"""Rows and panels of the dashboards, one subject a file."""
