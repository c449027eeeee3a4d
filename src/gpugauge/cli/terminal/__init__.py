"""The terminal: its width, its colours, and tables that fit it."""
