"""Parsers and writers of bytes, within bounds; none opens a file of others."""
